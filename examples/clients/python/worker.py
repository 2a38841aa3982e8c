#!/usr/bin/env python3
"""worker.py - sends mails until it is ended."""
import json
import os
import signal
import time
import urllib.request

URL = os.environ.get("JOBS_URL", "http://127.0.0.1:7070")
HEADERS = {"Authorization": "Bearer " + os.environ.get("JOBS_TOKEN", "")}


class Busy(Exception):
    """The other side asks us to come back later."""


def send(mail, attempt):
    """The work: gives its result, or raises what went wrong."""
    if "@" not in mail["to"]:
        raise ValueError("not an address: " + mail["to"])
    if "@busy." in mail["to"] and attempt == 1:
        raise Busy("451 try again later")
    return {"sent": mail["to"]}


def outcome(job):
    """How a job has ended. The type of an error has a class: a ValueError is 'validation', and not retried."""
    try:
        return {"status": "SUCCESS", "result": send(job["payload"], job["attempt"])}
    except Busy as error:
        return {"class": "rate_limited", "message": str(error), "retry_after": "2s"}
    except Exception as error:
        return {"error_type": type(error).__name__, "message": str(error)}


def post(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
while True:
    try:
        for job in post("/claim", {"tasks": ["mail"], "worker": f"python-{os.getpid()}", "wait": "30s"})["jobs"]:
            end = {"id": job["id"], "token": job["token"], **outcome(job)}
            print(post("/settle", {"items": [end]})["items"][0], flush=True)
    except OSError as error:  # the server is away; a job in hand is given out again when its lease ends
        print(error, flush=True)
        time.sleep(1)
