# Sourced by the scripts beside it: a broker of its own, and how the worker of each adapter is started.
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
all="celery, celery-rabbitmq, arq, dramatiq, dramatiq-rabbitmq, taskiq, bullmq, lists, adieu-redis, adieu-nats and adieu-postgres"
adapter=${1:?"an adapter: $all"}
shift
export PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1
broker=redis
case $adapter in
celery | celery-rabbitmq)
  jobs="$python $here/celery_jobs.py"
  worker="$python $here/celery_jobs.py work"
  ;;
arq)
  jobs="$python $here/arq_jobs.py"
  worker="$python -m arq arq_jobs.WorkerSettings"
  ;;
dramatiq | dramatiq-rabbitmq)
  jobs="$python $here/dramatiq_jobs.py"
  worker="$python -m dramatiq --processes 1 --threads 1 dramatiq_jobs"
  ;;
taskiq)
  jobs="$python $here/taskiq_jobs.py"
  worker="$python -m taskiq worker taskiq_jobs:broker --workers 1 --max-async-tasks 1 --max-prefetch 1"
  ;;
bullmq)
  jobs="node $here/bullmq_jobs.js"
  worker="node $here/bullmq_jobs.js work"
  ;;
lists)
  jobs="$python $here/lists_jobs.py"
  worker="$python $here/lists_jobs.py work"
  ;;
adieu-redis | adieu-nats | adieu-postgres)
  broker=${adapter#adieu-}
  jobs="${JOBS:-example-drill-workers}"
  worker="$jobs work"
  ;;
*) echo "$adapter: not an adapter; there are $all" >&2 && exit 2 ;;
esac
case $adapter in *-rabbitmq) broker=rabbitmq ;; esac

need() {
  command -v "$1" >/dev/null || PATH=$PATH:/usr/sbin command -v "$1" >/dev/null || [ -x "$1" ] || {
    echo "$1 is missing: apt-get install $2" >&2
    exit 2
  }
}

# A port that is free now.
free_port() {
  $python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits until the broker answers to the command, for as long as its process lives.
until_up() {
  until "$@" >/dev/null 2>&1; do
    kill -0 "$server" || exit 1
    sleep 0.1
  done
}

dir=$(mktemp -d)
export LEDGER="$dir/ledger"
: >"$LEDGER"
server=
finish() {
  [ -z "$server" ] || { kill "$server" && wait "$server"; } || true
  # The name service of this node, which nothing else uses.
  [ "$broker" != rabbitmq ] || epmd -kill >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT
case $broker in
redis)
  need redis-server redis-server
  export REDIS="$dir/redis.sock"
  port=0
  # The client of adieu has no Unix sockets.
  [ "$adapter" != adieu-redis ] || port=$(free_port)
  export QUEUE="redis://127.0.0.1:$port"
  redis-server --port "$port" --bind 127.0.0.1 --unixsocket "$REDIS" --save '' --dir "$dir" --loglevel warning >"$dir/broker.log" 2>&1 &
  server=$!
  until_up redis-cli -s "$REDIS" ping
  ;;
nats)
  need nats-server nats-server
  port=$(free_port)
  export QUEUE="nats://127.0.0.1:$port"
  nats-server --addr 127.0.0.1 --port "$port" --jetstream --store_dir "$dir/nats" >"$dir/broker.log" 2>&1 &
  server=$!
  until_up $python -c "import socket; socket.create_connection(('127.0.0.1', $port))"
  ;;
postgres)
  need pg_ctlcluster postgresql
  bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
  port=$(free_port)
  export QUEUE="postgres://postgres@127.0.0.1:$port/postgres"
  # PostgreSQL does not run as root.
  as=
  if [ "$(id -u)" = 0 ]; then
    as="setpriv --reuid postgres --regid postgres --clear-groups"
    chmod 711 "$dir"
    mkdir "$dir/postgres"
    chown postgres "$dir/postgres"
  fi
  # shellcheck disable=SC2086 # Words.
  LC_ALL=C $as "$bin/initdb" --auth trust --username postgres --pgdata "$dir/postgres/data" >"$dir/broker.log"
  # shellcheck disable=SC2086 # Words.
  $as "$bin/postgres" -D "$dir/postgres/data" -h 127.0.0.1 -p "$port" -k "$dir/postgres" >>"$dir/broker.log" 2>&1 &
  server=$!
  until_up psql "$QUEUE" -c 'select 1'
  ;;
rabbitmq)
  need /usr/lib/rabbitmq/bin/rabbitmq-server rabbitmq-server
  port=$(free_port) dist=$(free_port) ERL_EPMD_PORT=$(free_port)
  export ERL_EPMD_PORT AMQP="amqp://guest:guest@127.0.0.1:$port"
  # A node of its own, whose files, name service and cookie are in the directory.
  (
    export HOME="$dir" ERL_EPMD_ADDRESS=127.0.0.1
    export RABBITMQ_NODENAME=drill@localhost RABBITMQ_MNESIA_BASE="$dir/rabbitmq" RABBITMQ_LOGS=-
    export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$port" RABBITMQ_DIST_PORT="$dist"
    export RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" RABBITMQ_CONFIG_FILE="$dir/none" RABBITMQ_PID_FILE="$dir/pid"
    exec setsid /usr/lib/rabbitmq/bin/rabbitmq-server >"$dir/broker.log" 2>&1
  ) &
  server=$!
  until_up $python -c "import socket; socket.create_connection(('127.0.0.1', $port))"
  ;;
esac
