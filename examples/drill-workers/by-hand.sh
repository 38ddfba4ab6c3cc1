#!/bin/sh
# by-hand.sh ADAPTER [SIGNAL]: the same without the drill. Ten jobs, one worker, which gets the signal while it does the third;
# then another worker, for as long as a lease. It prints what the ledger has of each job.
set -eu
. "$(dirname "$0")/broker.sh"
signal=${1:-KILL}
export JOB_SECONDS=1
$jobs 1 10
ADIEU_DRILL_WORKER=w1-1 setsid $worker >"$dir/log" 2>&1 &
first=$!
until grep -q '^3 start' "$LEDGER"; do
  kill -0 $first
  sleep 0.05
done
case $signal in
# As when a machine fails: also what it has started.
KILL) kill -KILL -$first ;;
*) kill "-$signal" $first ;;
esac
wait $first || true
ADIEU_DRILL_WORKER=w1-2 setsid $worker >>"$dir/log" 2>&1 &
second=$!
until [ "$(grep -c ' done ' "$LEDGER")" -ge 10 ]; do
  waited=$((${waited:-0} + 1))
  [ $waited -le $((20 + 2 * ${LEASE:-5})) ] || break
  sleep 1
done
kill -KILL -$second
for job in 1 2 3 4 5 6 7 8 9 10; do
  echo "job $job: begun $(grep -c "^$job start" "$LEDGER") times, done $(grep -c "^$job done" "$LEDGER") times"
done
