#!/bin/sh
# The whole system, and a tour of it; or a command of yours, such as a shell, while it runs:
#
#     ./run.sh [COMMAND...]
#
# Everything is stopped when the command has ended. PORT and BACKEND_PORT choose where the API and the
# backend listen; without them the ports are free ones. Waits are a tenth of those in redrive.yaml,
# unless REDRIVE_RETRY_INITIAL_DELAY and REDRIVE_RETRY_BACKOFF_FACTOR say otherwise.
set -eu
cd "$(dirname "$0")"
export PATH="${REDRIVE:+${REDRIVE%/*}:}$PATH:$PWD/../../build"
export REDRIVE_STORE="${REDRIVE_STORE:-sqlite:tasks.db}"
export REDRIVE_LISTEN_HTTP="127.0.0.1:${PORT:-0}"
export REDRIVE_RETRY_INITIAL_DELAY="${REDRIVE_RETRY_INITIAL_DELAY:-500ms}"
export REDRIVE_RETRY_BACKOFF_FACTOR="${REDRIVE_RETRY_BACKOFF_FACTOR:-0.5}"

running=
stop() {
    # shellcheck disable=SC2086
    [ -z "$running" ] || kill $running 2>/dev/null || true
    wait
}
trap stop EXIT
trap 'exit 130' INT TERM HUP PIPE

# start NAME WORD COMMAND...: in the background, its log in NAME.log, until that has the word.
start() {
    name=$1 word=$2
    shift 2
    : >"$name.log"
    "$@" >>"$name.log" 2>&1 </dev/null &
    pid=$!
    running="$running $pid"
    tries=0
    until grep -q "$word" "$name.log"; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ] || ! kill -0 "$pid" 2>/dev/null; then
            echo "run.sh: the $name did not start:" >&2
            cat "$name.log" >&2
            exit 1
        fi
        sleep 0.1
    done
}

# The address that a log tells.
address() { sed -n 's/.*listening .*\(127\.0\.0\.1:[0-9]*\).*/\1/p' "$1.log"; }

start backend listening ./backend "${BACKEND_PORT:-0}"
BACKEND=http://$(address backend)
export BACKEND
start server serving redrive serve --no-work
API=http://$(address server)
export API
start worker-1 worker_started redrive work --worker worker-1
start worker-2 worker_started redrive work --worker worker-2
echo "API: $API, backend: $BACKEND"

[ $# -gt 0 ] || set -- ./tour
"$@"
