#!/bin/sh
# check-install.sh BUILD_DIR EXAMPLE QUEUE_EXAMPLE CC... - what `meson install` puts down is enough to
# build and run programs, against the shared libraries and the static ones.
set -eu
build=$1 example=$2 queue_example=$3
shift 3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

meson install -C "$build" --no-rebuild --quiet --destdir "$dir/root" >"$dir/log" 2>&1 ||
    { cat "$dir/log"; exit 1; }
header=$(find "$dir/root" -name redrive.h)
pc=$(find "$dir/root" -name redrive.pc)
archive=$(find "$dir/root" -name libredrive.a)
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$dir/root"
libdir=${archive%/*}

pkg-config --exists redrive
# Each minor version is an interface of its own until 1.0, and so is its name.
version=$(pkg-config --modversion redrive)
case $version in
0.*) so=${version%.*} ;;
*) so=${version%%.*} ;;
esac
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -o "$dir/shared" "$example" $(pkg-config --cflags --libs redrive)
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -o "$dir/static" "$example" $(pkg-config --cflags redrive) \
    "$archive" $(pkg-config --libs --static redrive | sed 's/-lredrive//')

# A program with names like ours of its own.
cat >"$dir/clash.c" <<'END'
#include <redrive.h>
int map_get(void) { return 7; }
int decide(void) { return 8; }
static int fn(struct redrive_run *run, void *arg) { (void)run; (void)arg; return 0; }
int main(void) { return redrive_call(NULL, "t", fn, NULL, NULL) + map_get() + decide() - 15; }
END
"$@" -I"${header%/*}" -o "$dir/clash" "$dir/clash.c" "$archive" -lm -pthread
"$dir/clash"

if ldd "$dir/static" | grep -q libredrive; then
    echo "the static program needs the shared library"
    exit 1
fi
LD_LIBRARY_PATH="$libdir" ldd "$dir/shared" | grep -qF "libredrive.so.$so =>"
LD_LIBRARY_PATH="$libdir" "$dir/shared" >"$dir/shared.out"
"$dir/static" >"$dir/static.out"
for out in "$dir/shared.out" "$dir/static.out"; do
    grep -q 'breaker fetch-rates is now closed' "$out"
    grep -q 'convert: redriven' "$out"
done

# The queue, whose static library must not clash with the other one beside it.
pkg-config --exists redrive-queue
[ "$(pkg-config --print-requires redrive-queue)" = "redrive = $version" ]
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -o "$dir/queue-shared" "$queue_example" \
    $(pkg-config --cflags --libs redrive-queue)
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -o "$dir/queue-static" "$queue_example" \
    $(pkg-config --cflags redrive-queue) "$libdir/libredrive-queue.a" "$archive" \
    $(pkg-config --libs --static redrive-queue | sed 's/-lredrive-queue//; s/-lredrive//')
if ldd "$dir/queue-static" | grep -q libredrive; then
    echo "the static program needs the shared libraries"
    exit 1
fi
LD_LIBRARY_PATH="$libdir" ldd "$dir/queue-shared" >"$dir/ldd"
grep -qF "libredrive-queue.so.$so =>" "$dir/ldd"
grep -qF "libredrive.so.$so =>" "$dir/ldd"
for program in queue-shared queue-static; do
    LD_LIBRARY_PATH="$libdir" "$dir/$program" "sqlite:$dir/$program.db" >"$dir/$program.out" \
        2>"$dir/$program.err"
    grep -q 'attempt 1 of 6: {"to":"dan"' "$dir/$program.out"
    grep -q 'dead_letter .* task=letter .*reason=not_retriable' "$dir/$program.err"
done
# libredrive must go on needing nothing but libc.
if ldd "$dir/shared" | grep -q 'sqlite\|yaml\|libredrive-queue'; then
    echo "libredrive has come to need more than libc"
    exit 1
fi
