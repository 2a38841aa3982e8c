#!/bin/sh
# producer.sh ADDRESS... - a mail for each. The key makes one job of it, however often it is submitted.
set -eu
url=${JOBS_URL:-http://127.0.0.1:7070}

for to in "$@"; do
    curl -sSf --retry 3 --retry-connrefused ${JOBS_TOKEN:+-H "Authorization: Bearer $JOBS_TOKEN"} \
        -H "Idempotency-Key: mail-$to" -d "{\"to\":\"$to\"}" "$url/tasks/mail"
    echo
done
