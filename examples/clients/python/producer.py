#!/usr/bin/env python3
"""producer.py ADDRESS... - a mail for each. The id makes one job of it, however often it is submitted."""
import json
import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("JOBS_URL", "http://127.0.0.1:7070")
HEADERS = {"Authorization": "Bearer " + os.environ.get("JOBS_TOKEN", "")}

jobs = [{"task": "mail", "id": "mail-" + to, "payload": {"to": to}} for to in sys.argv[1:]]
request = urllib.request.Request(URL + "/jobs", json.dumps(jobs).encode(), HEADERS)
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        for job in json.load(answer)["items"]:
            print(job["id"], "was there" if job["existed"] else "submitted")
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())  # says what is wrong, and what was expected
except OSError as error:
    sys.exit(f"{URL}: {error}; run it again")
