#!/bin/sh
# combine.sh IN OUT PATTERNS OBJCOPY AR CC... - makes one object of an archive and hides what is not
# public, or is public but matches none of the patterns (with commas in between).
#
# In a static library every function is visible to the program that links it, whatever its
# visibility says: a program with its own map_get() could not use it. So the objects are joined,
# after which hidden symbols can be made local.
set -eu
in=$1 out=$2 patterns=$3 objcopy=$4 ar=$5
shift 5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$@" -r -nostdlib -o "$dir/redrive.o" -Wl,--whole-archive "$in" -Wl,--no-whole-archive
printf '%s\n' "$patterns" | tr ',' '\n' >"$dir/keep"
"$objcopy" --localize-hidden --wildcard --keep-global-symbols="$dir/keep" "$dir/redrive.o"
rm -f "$out"
"$ar" cr "$out" "$dir/redrive.o"
