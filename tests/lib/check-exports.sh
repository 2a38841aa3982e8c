#!/bin/sh
# check-exports.sh NM LIBRARY... - a library exports redrive_* and nothing else, so that no name of
# ours can clash with one of a program's own.
set -eu
nm=$1
shift
failed=0
for library in "$@"; do
    case $library in
    *.so*) names=$("$nm" -D --defined-only "$library") ;;
    *) names=$("$nm" -g --defined-only "$library") ;;
    esac
    names=$(printf '%s\n' "$names" | awk 'NF >= 2 { print $NF }')
    foreign=$(printf '%s\n' "$names" | grep -v '^redrive_' || true)
    ours=$(printf '%s\n' "$names" | grep -c '^redrive_' || true)
    if [ -n "$foreign" ]; then
        echo "$library exports more than it should:" $foreign
        failed=1
    fi
    # A library that exports nothing would pass the test above.
    if [ "$ours" -lt 50 ]; then
        echo "$library exports only $ours functions"
        failed=1
    fi
done
exit $failed
