#!/bin/sh
# drill.sh ADAPTER [OPTIONS of adieu drill]: drills the workers of a queue with numbered jobs.
# SAFE=1 takes the settings that lose nothing, LEASE=5 the time after which a dead worker's jobs come back.
set -eu
. "$(dirname "$0")/broker.sh"
# shellcheck disable=SC2086 # The command of a worker is words.
"${ADIEU:-adieu}" drill --name "$adapter${SAFE:+, safe}" --jobs 120 --workers 2 --stops 5 --lease "${LEASE:-5}s" "$@" \
  --enqueue "$jobs {from} {to}" --done "cat $LEDGER" -- $worker
