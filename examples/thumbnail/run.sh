#!/bin/sh
# Four pictures, of which one is missing. Takes about ten seconds: two waits of five.
set -eu
cd "$(dirname "$0")"
redrive=${REDRIVE:-redrive}

./make-pictures
for picture in dawn rings stripes missing; do
    "$redrive" enqueue thumbnail --id "thumbnail-$picture" \
        "{\"input\":\"pictures/$picture.ppm\",\"output\":\"thumbnails/$picture.png\",\"width\":160}"
done

# --until-idle does not wait for jobs that have to wait themselves, so it is called until none does.
for round in 1 2 3; do
    "$redrive" work --until-idle || [ $? -eq 3 ]
    [ "$round" = 3 ] || sleep 5.2
done

"$redrive" jobs list
echo
"$redrive" dlq show thumbnail-missing
