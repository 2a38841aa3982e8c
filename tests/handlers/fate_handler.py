"""fate_handler.py LOG: the work of the torture rig, as a stream handler. Does what the fate of its job
says, and writes down what it did."""
import json
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from fate import fate, status  # noqa: E402
from tests.judge.events import Log, digest  # noqa: E402

MESSAGES = {"TRANSIENT_FAIL": "try again", "PERMANENT_FAIL": "never"}


def main():
    log = Log(sys.argv[1])
    has_answered = False
    for line in sys.stdin:
        job = json.loads(line)
        payload = digest(job["payload"])
        facts = {"attempt": job["attempt"], "max_attempts": job["max_attempts"], "payload": payload}
        log.note("start", job["id"], **facts)
        number = fate(job["id"], job["attempt"])
        # Before its first answer it dies only now and then: a handler that always did could not be told from
        # one that cannot run, and its last job would wait for ever.
        if number < 5 and (has_answered or random.random() < 0.5):
            log.note("end:DIED" if has_answered else "gone", job["id"], **facts)
            os._exit(70)
        if number < 20:
            time.sleep(number / 100)
        answer = {"id": job["id"], "status": status(number)}
        if answer["status"] == "SUCCESS":
            answer["result"] = payload
        else:
            answer["message"] = MESSAGES[answer["status"]]
        log.note("end:" + answer["status"], job["id"], **facts)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        has_answered = True


if __name__ == "__main__":
    main()
