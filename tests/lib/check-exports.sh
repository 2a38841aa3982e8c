#!/bin/sh
# check-exports.sh NM NAMES LEAST LIBRARY... - a library exports what the expression says and nothing
# else, so that no name of ours can clash with one of a program's own, nor two of our libraries with
# each other; and at least so many functions.
set -eu
nm=$1 names_are=$2 least=$3
shift 3
failed=0
for library in "$@"; do
    case $library in
    *.so*) names=$("$nm" -D --defined-only "$library") ;;
    *) names=$("$nm" -g --defined-only "$library") ;;
    esac
    names=$(printf '%s\n' "$names" | awk 'NF >= 2 { print $NF }')
    foreign=$(printf '%s\n' "$names" | grep -Ev "$names_are" || true)
    ours=$(printf '%s\n' "$names" | grep -Ec "$names_are" || true)
    if [ -n "$foreign" ]; then
        echo "$library exports more than it should: $foreign"
        failed=1
    fi
    # A library that exports nothing would pass the test above.
    if [ "$ours" -lt "$least" ]; then
        echo "$library exports only $ours functions"
        failed=1
    fi
done
exit $failed
