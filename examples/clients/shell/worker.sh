#!/bin/sh
# worker.sh - sends mails until it is ended.
url=${JOBS_URL:-http://127.0.0.1:7070}

# The work, and how it has ended. An exit code has a class: 65 is 'validation', and not retried (sysexits.h).
send() { # PAYLOAD ATTEMPT
    to=${1#*'"to":'*'"'} to=${to%%'"'*}
    case $to,$2 in
    *@busy.*,1) echo '"class":"rate_limited","message":"451 try again later","retry_after":"2s"' ;;
    *@*) printf '"status":"SUCCESS","result":{"sent":"%s"}' "$to" ;;
    *) printf '"exit_code":65,"message":"not an address: %s"' "$to" ;;
    esac
}

# Waits for a server that is away; a job in hand is given out again when its lease ends.
post() { # PATH BODY
    curl -sSf --retry 3 --retry-connrefused ${JOBS_TOKEN:+-H "Authorization: Bearer $JOBS_TOKEN"} -d "$2" "$url$1"
}

# What is wanted of a claim, parted by quotes. Text stays as JSON writes it, and can go back so.
job='s/^{"jobs":\[{"id":"\([^"]*\)"[^{]*"payload":\(.*\),"attempt":\([0-9]*\),.*"token":"\([^"]*\).*/\1"\4"\3"\2/p'
while :; do
    { post /claim "{\"tasks\":[\"mail\"],\"worker\":\"shell-$$\",\"wait\":\"30s\"}" || sleep 1; echo; } |
        sed -n "$job" | while IFS='"' read -r id token attempt payload; do
            post /settle "{\"items\":[{\"id\":\"$id\",\"token\":\"$token\",$(send "$payload" "$attempt")}]}" && echo
        done
done
