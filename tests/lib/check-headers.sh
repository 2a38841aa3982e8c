#!/bin/sh
# check-headers.sh INCLUDE_DIR SOURCE CXX... - the headers are fit for C++, old and new.
set -eu
include=$1 source=$2
shift 2
for std in c++11 c++14 c++17 c++20; do
    "$@" -std=$std -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" "$source"
done
