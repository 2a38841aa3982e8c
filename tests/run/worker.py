"""A program for the stream runner that does what each job's payload tells it to."""
import json
import os
import signal
import subprocess
import sys
import time

held = []


def say(**answer):
    print(json.dumps(answer), flush=True)


for line in sys.stdin:
    job = json.loads(line)
    do = job["payload"] or {}
    what = do.get("do", "ok")
    if what == "ok":
        say(id=job["id"], status="SUCCESS", result={"pid": os.getpid(), "job": job})
    elif what == "answer":
        say(id=job["id"], **do["answer"])
    elif what == "sleep":
        time.sleep(do["s"])
        say(id=job["id"], status="SUCCESS")
    elif what == "hold":  # answered together with the next one, in the opposite order
        held.append(job["id"])
        if len(held) == do["n"]:
            for job_id in reversed(held):
                say(id=job_id, status="SUCCESS")
            held = []
    elif what == "exit":
        print("last words", file=sys.stderr, flush=True)
        os._exit(do["code"])
    elif what == "leave":  # behind a process that holds the pipes open
        left = subprocess.Popen(["sleep", "5"], start_new_session=True)
        say(id=job["id"], status="SUCCESS", result={"pid": os.getpid(), "left": left.pid})
        os._exit(0)
    elif what == "signal":
        os.kill(os.getpid(), getattr(signal, do["name"]))
    elif what == "raw":
        sys.stdout.write(do["text"])
        sys.stdout.flush()
    elif what == "flood":
        sys.stdout.write("x" * do["n"])
        sys.stdout.flush()
    elif what == "big":
        say(id=job["id"], status="SUCCESS", result="x" * do["n"])
    elif what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(0)
        say(id=job["id"], status="SUCCESS")
        time.sleep(30)
