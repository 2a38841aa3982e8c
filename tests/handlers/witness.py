"""witness.py LOG: runs jobs as a stream handler and writes down when each started and ended. A job sleeps
for `sleep` seconds."""
import json
import os
import sys
import time

from testimony import Log


def main():
    log = Log(sys.argv[1])
    for line in sys.stdin:
        job = json.loads(line)
        log.note("start", job["id"], attempt=job["attempt"], pid=os.getpid())
        time.sleep((job["payload"] or {}).get("sleep", 0))
        log.note("end", job["id"], attempt=job["attempt"], pid=os.getpid())
        sys.stdout.write(json.dumps({"id": job["id"], "status": "SUCCESS"}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
