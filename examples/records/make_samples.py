#!/usr/bin/env python3
"""Writes made-up records, one JSON object a line, always the same ones.

    python3 make_samples.py [COUNT] > samples.jsonl

Of each hundred, 4 have no payload, 2 are malformed, 3 can never be processed, and 19 fail once or
twice before they can be: enrich.py says how.
"""

import json
import sys


def sample(n):
    slot = n % 100
    record = {"sample_id": f"S-{n:05d}", "source": f"probe-{n % 7}"}
    if slot in (0, 25, 50, 75):
        return {**record, "payload": None}
    payload = {"value": n * 37 % 1000, "unit": "mg"}
    if slot in (10, 60):
        payload["unit"] = "?"
    elif slot in (33, 66, 99):
        payload["fails"] = 1000
    elif slot % 5 == 3:
        payload["fails"] = 1 + slot % 2
    return {**record, "payload": payload}


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for n in range(count):
        print(json.dumps(sample(n)))


if __name__ == "__main__":
    main()
