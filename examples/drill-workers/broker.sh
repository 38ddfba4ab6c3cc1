# Sourced by the scripts beside it: a Redis server of its own, and how the worker of each adapter is started.
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
adapter=${1:?"an adapter: celery, arq, dramatiq, taskiq or lists"}
shift
export PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1
case $adapter in
celery) worker="$python -m celery --workdir $here -A celery_jobs worker --concurrency 1 --loglevel WARNING --without-mingle" ;;
arq) worker="$python -m arq arq_jobs.WorkerSettings" ;;
dramatiq) worker="$python -m dramatiq --processes 1 --threads 1 dramatiq_jobs" ;;
taskiq) worker="$python -m taskiq worker taskiq_jobs:broker --workers 1 --max-async-tasks 1 --max-prefetch 1" ;;
lists) worker="$python $here/lists_jobs.py work" ;;
*) echo "$adapter: not an adapter; there are celery, arq, dramatiq, taskiq and lists" >&2 && exit 2 ;;
esac
if ! command -v redis-server >/dev/null; then
  echo "redis-server is missing: apt-get install redis-server" >&2
  exit 2
fi
dir=$(mktemp -d)
export REDIS="$dir/redis.sock" LEDGER="$dir/ledger"
: >"$LEDGER"
redis-server --port 0 --unixsocket "$REDIS" --save '' --dir "$dir" --loglevel warning >"$dir/redis.log" 2>&1 &
redis=$!
trap 'kill $redis; wait $redis; rm -rf "$dir"' EXIT
# It answers as soon as its socket is there.
until redis-cli -s "$REDIS" ping >/dev/null 2>&1; do
  kill -0 $redis || exit 1
  sleep 0.05
done
