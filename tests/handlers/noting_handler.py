"""noting_handler.py LOG: runs jobs as a stream handler and writes down when each started and ended. A job sleeps
for `sleep` seconds."""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.judge.events import Log  # noqa: E402


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
