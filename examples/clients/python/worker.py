#!/usr/bin/env python3
"""worker.py - sends mails until it is ended."""
import json
import os
import time
import urllib.request

URL = os.environ.get("JOBS_URL", "http://127.0.0.1:7070")
HEADERS = {"Authorization": "Bearer " + os.environ.get("JOBS_TOKEN", "")}


def post(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), HEADERS)
    return json.load(urllib.request.urlopen(request, timeout=60))


def send(to, attempt):  # the work, and how it has ended
    if "@busy." in to and attempt == 1:
        return {"class": "rate_limited", "message": "451 try again later", "retry_after": "2s"}
    if "@" not in to:
        raise ValueError("not an address: " + to)
    return {"status": "SUCCESS", "result": {"sent": to}}


while True:
    try:
        for job in post("/claim", {"tasks": ["mail"], "worker": f"python-{os.getpid()}", "wait": "30s"})["jobs"]:
            try:
                end = send(job["payload"]["to"], job["attempt"])
            except Exception as error:  # its type has a class: a ValueError is 'validation', and not retried
                end = {"error_type": type(error).__name__, "message": str(error)}
            print(post("/settle", {"items": [{"id": job["id"], "token": job["token"], **end}]}), flush=True)
    except OSError as error:  # the server is away; a job in hand is given out again when its lease ends
        print(error, flush=True)
        time.sleep(1)
