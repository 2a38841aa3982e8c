"""A handler for tests of batches: does what the payload says, and writes down each run before it.

    python3 batch_handler.py LOG

Payload: {"fails": times that it fails before it works, "how": status of a failure, "sleep": seconds}.
A run is a line of the log: id, attempt, monotonic time, wall time.
"""

import json
import os
import sys
import time


def main():
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for line in sys.stdin:
        job = json.loads(line)
        payload = job["payload"] if isinstance(job["payload"], dict) else {}
        run = [job["id"], job["attempt"], time.monotonic(), time.time()]
        os.write(log, (json.dumps(run) + "\n").encode())
        time.sleep(payload.get("sleep", 0))
        answer = {"id": job["id"], "status": "SUCCESS", "result": job["payload"]}
        if job["attempt"] <= payload.get("fails", 0):
            answer = {"id": job["id"], "status": payload.get("how", "TRANSIENT_FAIL"), "message": "no"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
