#!/bin/sh
# The handler of enrich.py with nothing but a shell and sed. Jobs come with their keys in one order
# and without spaces around colons at the outermost level; what is looked for here is plain numbers
# and words, so no reader of JSON is needed. For anything more, use a language that has one.

field() { # NAME: the number or word of a field in $job, or nothing
    printf '%s\n' "$job" | sed -n 's/.*"'"$1"'": *"\{0,1\}\([^",}]*\).*/\1/p'
}

while IFS= read -r job; do
    id=$(printf '%s\n' "$job" | sed 's/^{"id":\("[^"]*"\).*/\1/')
    attempt=$(field attempt)
    fails=$(field fails)
    value=$(field value)
    if [ "$attempt" -le "${fails:-0}" ]; then
        printf '{"id":%s,"status":"TRANSIENT_FAIL","message":"the service answers 503"}\n' "$id"
    elif [ "$(field unit)" != mg ]; then
        printf '{"id":%s,"status":"PERMANENT_FAIL","message":"unknown unit"}\n' "$id"
    else
        printf '{"id":%s,"status":"SUCCESS","result":{"milligrams":%s}}\n' "$id" "$value"
    fi
done
