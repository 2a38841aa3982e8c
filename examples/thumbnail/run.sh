#!/bin/sh
# Four pictures, of which one is missing. Takes about ten seconds: two waits of five.
set -eu
cd "$(dirname "$0")"
export PATH="${REDRIVE:+${REDRIVE%/*}:}$PATH:$PWD/../../build"
export REDRIVE_STORE="${REDRIVE_STORE:-sqlite:thumbnails.db}"

# What the store answers in SQL, which Redis does not speak.
query() {
    case $REDRIVE_STORE in
    sqlite:*) sqlite3 -readonly -line "${REDRIVE_STORE#sqlite:}" "$1" ;;
    postgres*) PGOPTIONS='-c search_path=redrive' psql -X -x -d "$REDRIVE_STORE" -c "$1" ;;
    *) false ;;
    esac
}

# The log goes to the terminal; it is what there is to see.
redrive work &
worker=$!
trap 'kill $worker 2>/dev/null || true; wait' EXIT
trap 'exit 130' INT TERM HUP PIPE

./make-pictures
for picture in dawn rings stripes missing; do
    redrive enqueue thumbnail --id "thumbnail-$picture" \
        "{\"input\":\"pictures/$picture.ppm\",\"output\":\"thumbnails/$picture.png\",\"width\":160}"
done

tries=0
until redrive jobs show thumbnail-missing --json | grep -q '"state":"dead_letter"'; do
    tries=$((tries + 1))
    [ $tries -le 120 ] || { echo "run.sh: thumbnail-missing has not ended" >&2; exit 1; }
    sleep 0.5
done

echo
redrive jobs list
echo
query "SELECT job_id, job_type, status, attempts, max_attempts, last_error, input_data, error_stacktrace
       FROM failed_jobs WHERE job_id = 'thumbnail-missing'" || redrive dlq show thumbnail-missing
