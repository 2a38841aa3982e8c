#!/bin/sh
# Jobs against the flaky server: one that needs three attempts, one whose worker is killed, one of
# the cron entries. Takes about ten seconds. Or a command of yours, such as a shell, while both sides run:
#
#     ./run.sh [COMMAND...]
#
# PORT and BACKEND_PORT choose where Redrive and the flaky server listen; without them the ports are
# free ones.
set -eu
cd "$(dirname "$0")"
export PATH="${REDRIVE:+${REDRIVE%/*}:}$PATH:$PWD/../../build"
export REDRIVE_STORE="${REDRIVE_STORE:-sqlite:webhooks.db}"
export REDRIVE_LISTEN_HTTP="127.0.0.1:${PORT:-0}"

running=
stop() {
    # shellcheck disable=SC2086
    [ -z "$running" ] || kill $running 2>/dev/null || true
    wait
}
trap stop EXIT
trap 'exit 130' INT TERM HUP PIPE

# until_true WHAT COMMAND...: waits for it, but not for ever.
until_true() {
    what=$1 tries=0
    shift
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -le 200 ] || { echo "run.sh: waited in vain for $what" >&2; exit 1; }
        sleep 0.2
    done
}

is() { redrive jobs show "$1" --json | grep -q "\"state\":\"$2\""; }
says() { grep -q "$1" "$2" || { kill -0 "$pid" 2>/dev/null || { cat "$2" >&2; exit 1; }; false; }; }

# start LOG WORD COMMAND...: in the background, until its log has the word.
start() {
    log=$1 word=$2
    shift 2
    : >"$log"
    "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    running="$running $pid"
    until_true "$word in $log" says "$word" "$log"
}

# The address that a log tells.
address() { sed -n 's/.*listening .*\(127\.0\.0\.1:[0-9]*\).*/\1/p' "$1"; }

start_redrive() {
    start redrive.log serving redrive serve --worker api
    API=http://$(address redrive.log)
    export API
    echo "API: $API"
}

start server.log listening ./flaky-server "${BACKEND_PORT:-0}"
export FLAKY="$pid"
sed "s/127\.0\.0\.1:8700/$(address server.log)/" redrive.yaml >running.yaml
export REDRIVE_CONFIG=running.yaml
if [ $# -gt 0 ]; then
    start_redrive
    "$@"
    exit
fi

report=report-$(date +%s)
echo "1. A worker takes $report, waits for the answer, and is killed"
start doomed.log worker_started redrive work --worker doomed
redrive enqueue report '{"kind":"monthly"}' --id "$report"
until_true "the start of $report" is "$report" running
kill -9 "$pid"
redrive jobs list --task report

printf '\n2. The server starts, with workers of its own, and is given a job over HTTP\n'
start_redrive
echo "\$ curl -X POST $API/tasks/fetch-joke -H 'Idempotency-Key: joke-1' -d '{\"topic\":\"queues\"}'"
curl -sS -X POST "$API/tasks/fetch-joke" -H 'Idempotency-Key: joke-1' -d '{"topic":"queues"}'
echo

printf '\n3. A periodic task that does not wait for its time\n'
redrive cron list
redrive cron run digest-every-two-minutes

printf '\n4. Refused, failed, done: three attempts\n'
until_true "the end of joke-1" is joke-1 completed
echo "\$ curl $API/jobs/joke-1"
curl -sS "$API/jobs/joke-1"
echo
redrive jobs show joke-1

printf "\n5. The job of the dead worker was taken back when its lease of two seconds had ended\n"
until_true "the end of $report" is "$report" completed
redrive jobs show "$report"
