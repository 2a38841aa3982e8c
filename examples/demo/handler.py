"""handler.py - the work of the demo: a JSON line in, a JSON line out.

What happens is drawn from the job and its attempt, so that every run of the demo tells the same
story. The service behind `sync` is down while there is a file called `down`; the parser has its
fault until there is one called `fixed`.
"""
import hashlib
import json
import os
import sys
import time


def chance(job, attempt):
    return int(hashlib.sha256(f"{job}/{attempt}".encode()).hexdigest()[:8], 16) % 100


def work(job):
    luck = chance(json.dumps(job["payload"]), job["attempt"])
    time.sleep(0.01 + luck / 4000)
    if job["task"] == "charge" and luck < 33:
        return {"status": "TRANSIENT_FAIL", "error_type": "GatewayTimeout", "message": "the bank did not answer in time"}
    if job["task"] == "sync" and os.path.exists("down"):
        return {"status": "network", "error_type": "ConnectionRefusedError",
                "message": "connect to inventory:443 refused"}
    if job["task"] == "parse" and job["payload"]["n"] % 3 == 0 and not os.path.exists("fixed"):
        return {"status": "validation", "error_type": "ValueError",
                "message": f"line {job['payload']['n']}: not a date: '31.02.2026'"}
    return {"status": "SUCCESS", "result": {"luck": luck}}


for line in sys.stdin:
    job = json.loads(line)
    print(json.dumps({"id": job["id"], **work(job)}), flush=True)
