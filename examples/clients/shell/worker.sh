#!/bin/sh
# worker.sh - sends mails until it is ended.
url=${JOBS_URL:-http://127.0.0.1:7070}

# The work: says what happened, and with its exit code what that means (see sysexits.h).
send() { # ADDRESS ATTEMPT
    case $1,$2 in
    *@busy.*,1) echo "451 try again later" && return 75 ;;
    *@*) printf "sent to %s\n" "$1" ;;
    *) printf "not an address: %s\n" "$1" && return 65 ;;
    esac
}

post() { # PATH BODY
    curl -sSf --retry 3 --retry-connrefused ${JOBS_TOKEN:+-H "Authorization: Bearer $JOBS_TOKEN"} \
        -d "$2" "$url$1"
}

# What a pattern finds in the answer of a claim. Text stays as JSON writes it, and can go back so.
field() { # PATTERN
    printf '%s\n' "$answer" | sed -n "s/$1.*/\1/p"
}

while :; do
    answer=$(post /claim "{\"tasks\":[\"mail\"],\"worker\":\"shell-$$\",\"wait\":\"30s\"}") || sleep 1
    id=$(field '^{"jobs":\[{"id":"\([^"]*\)"')
    [ -n "$id" ] || continue
    token=$(field '.*"token":"\([^"]*\)"')
    attempt=$(field '.*"attempt":\([0-9]*\)')
    to=$(field '.*"payload":{"to": *"\([^"]*\)"')
    said=$(send "$to" "$attempt")
    code=$?
    case $code in
    0) end="\"status\":\"SUCCESS\",\"result\":\"$said\"" ;;
    75) end="\"class\":\"rate_limited\",\"message\":\"$said\",\"retry_after\":\"2s\"" ;;
    *) end="\"exit_code\":$code,\"message\":\"$said\"" ;;
    esac
    post /settle "{\"items\":[{\"id\":\"$id\",\"token\":\"$token\",$end}]}" && echo
done
