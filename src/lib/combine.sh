#!/bin/sh
# combine.sh IN OUT OBJCOPY AR CC... - makes one object of an archive and hides what is not public.
#
# In a static library every function is visible to the program that links it, whatever its
# visibility says: a program with its own map_get() could not use it. So the objects are joined,
# after which hidden symbols can be made local.
set -eu
in=$1 out=$2 objcopy=$3 ar=$4
shift 4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$@" -r -nostdlib -o "$dir/redrive.o" -Wl,--whole-archive "$in" -Wl,--no-whole-archive
"$objcopy" --localize-hidden "$dir/redrive.o"
rm -f "$out"
"$ar" cr "$out" "$dir/redrive.o"
