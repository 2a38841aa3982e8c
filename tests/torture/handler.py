"""handler.py - the work of the torture rig: does what its payload's number says, and writes down
what it did in a log that the program under test neither reads nor writes.

A line of the log is written by one call before and after the work:

    {"at": wall time in s, "event": "start" | "end", "id": …, "attempt": …, "payload": sha256}
"""
import hashlib
import json
import os
import sys
import time


def fate(job_id, attempt):
    """What happens is drawn from job and attempt alone, so that every run of them agrees."""
    return int(hashlib.sha256(f"{job_id}/{attempt}".encode()).hexdigest()[:8], 16) % 100


def main():
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(event, job, payload):
        line = json.dumps({"at": time.time(), "event": event, "id": job["id"], "attempt": job["attempt"],
                           "max_attempts": job["max_attempts"], "payload": payload})
        os.write(log, line.encode() + b"\n")

    for line in sys.stdin:
        job = json.loads(line)
        payload = hashlib.sha256(json.dumps(job["payload"], sort_keys=True).encode()).hexdigest()
        note("start", job, payload)
        number = fate(job["id"], job["attempt"])
        if number < 5:
            os._exit(70)
        if number < 20:
            time.sleep(number / 100)
        answer = {"id": job["id"], "status": "SUCCESS", "result": payload}
        if 20 <= number < 40:
            answer = {"id": job["id"], "status": "TRANSIENT_FAIL", "message": "try again"}
        elif 40 <= number < 45:
            answer = {"id": job["id"], "status": "PERMANENT_FAIL", "message": "never"}
        note("end:" + answer["status"], job, payload)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
