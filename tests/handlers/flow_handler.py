"""flow_handler.py LOG MENDED: runs jobs as a stream handler and writes down when each started, and how it ended. A job
whose payload says `fails` fails for good until the file MENDED is there."""
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
        facts = {"attempt": job["attempt"], "pid": os.getpid()}
        log.note("start", job["id"], **facts)
        time.sleep(job["payload"].get("sleep", 0))
        fails = job["payload"].get("fails") and not os.path.exists(sys.argv[2])
        status = "PERMANENT_FAIL" if fails else "SUCCESS"
        log.note("end:" + status, job["id"], **facts)
        sys.stdout.write(json.dumps({"id": job["id"], "status": status}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
