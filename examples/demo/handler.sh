#!/bin/sh
# handler.sh - the work of the demo: a JSON line in, a JSON line out, with nothing but a shell.
#
# What happens is drawn from the job and its attempt, so that every run of the demo tells the same
# story. The service behind `sync` is down while there is a file called `down`; the parser has its
# fault until there is one called `fixed`.

answer() { # STATUS [TYPE MESSAGE]
    if [ $# -eq 1 ]; then
        printf '{"id":"%s","status":"%s","result":{"luck":%d}}\n' "$id" "$1" "$luck"
    else
        printf '{"id":"%s","status":"%s","error_type":"%s","message":"%s"}\n' "$id" "$@"
    fi
}

# What follows a key, up to what cannot be part of it.
text() {
    value=${line#*"\"$1\":\""}
    value=${value%%\"*}
}

number() {
    value=${line#*"\"$1\":"}
    value=${value%%[!0-9]*}
}

# One of a hundred numbers, by two turns of an old generator.
draw() {
    luck=$((($1 * 1103515245 + 12345) % 2147483648))
    luck=$(((luck * 1103515245 + 12345) % 2147483648 / 65536 % 100))
}

while read -r line; do
    text id && id=$value
    text task && task=$value
    number attempt && attempt=$value
    number n && n=$value
    draw $((n * 37 + attempt * 32))
    sleep "0.0$((1 + luck / 25))"
    if [ "$task" = charge ] && [ "$luck" -lt 33 ]; then
        answer TRANSIENT_FAIL GatewayTimeout "the bank did not answer in time"
    elif [ "$task" = sync ] && [ -e down ]; then
        answer network ConnectionRefusedError "connect to inventory:443 refused"
    elif [ "$task" = parse ] && [ $((n % 3)) -eq 0 ] && [ ! -e fixed ]; then
        answer validation ValueError "line $n: not a date: '31.02.2026'"
    else
        answer SUCCESS
    fi
done
