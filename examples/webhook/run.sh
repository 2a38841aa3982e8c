#!/bin/sh
# One job against the flaky server: refused, failed, done. Takes about seven seconds.
set -eu
cd "$(dirname "$0")"
redrive=${REDRIVE:-redrive}

./flaky-server 8700 >server.log &
server=$!
until grep -q listening server.log; do sleep 0.1; done
"$redrive" work &
worker=$!
trap 'kill $worker $server; wait' EXIT

"$redrive" enqueue fetch-joke '{"topic":"queues"}' --id joke-1
"$redrive" cron run digest-every-two-minutes

until "$redrive" jobs show joke-1 --json | grep -q '"state":"completed"'; do sleep 0.5; done
"$redrive" jobs show joke-1
