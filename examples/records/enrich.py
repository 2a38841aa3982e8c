#!/usr/bin/env python3
"""A handler that lives as long as the run: a job is a line in, its outcome is a line out.

    in   {"id": ..., "task": ..., "attempt": 1, "max_attempts": 6, "payload": {...}}
    out  {"id": ..., "status": "SUCCESS", "result": {...}}

Statuses are SUCCESS, TRANSIENT_FAIL (again later), PERMANENT_FAIL (dead), or a failure class such as
rate_limited. Connections that are opened before the loop serve every record.
"""

import json
import sys


class ServiceDown(Exception):
    """Worth another try."""


def process_record(payload, attempt):
    """Stands for your own work. A record says how often it fails."""
    if attempt <= payload.get("fails", 0):
        raise ServiceDown("the service answers 503")
    if payload["unit"] != "mg":
        raise ValueError(f"unknown unit {payload['unit']!r}")
    return {"grams": payload["value"] / 1000}


def answer(job):
    try:
        return {"status": "SUCCESS", "result": process_record(job["payload"], job["attempt"])}
    except ServiceDown as error:
        return {"status": "TRANSIENT_FAIL", "error_type": "ServiceDown", "message": str(error)}
    except (KeyError, TypeError, ValueError) as error:
        kind = type(error).__name__
        return {"status": "PERMANENT_FAIL", "error_type": kind, "message": str(error)}


def main():
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps({"id": job["id"], **answer(job)}), flush=True)


if __name__ == "__main__":
    main()
