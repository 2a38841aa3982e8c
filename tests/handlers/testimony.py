"""testimony.py - what handlers, clients and the rig write down while they are at it, in logs that the
program under test neither reads nor writes.

A line is written by one call, and says what is known at that moment:

    submit        id, payload (sha256)    is about to be submitted; with a time lock not_before, with an order
                                          queue and priority
    acknowledged  id                      the submit was answered: the job must never be lost
    start         id, attempt, payload    was handed out; to a client with claimed, when it asked, and lease
    extended      id, attempt, asked, lease   a heartbeat, sent at that time, was answered
    gone          id, attempt             the handler ends before its first answer: the start may be
                                          taken back, and its number given again
    end:STATUS    id, attempt             the work was done, and no program has been told yet; DIED: the handler dies
    settled       id, attempt, status     the end was taken; over HTTP with token and new state
    refused       id, attempt, status     the end was not taken: the job is another worker's by now
    held                                  a client submits nothing now, and waits for no answer to a submit; of no job
    fault         fault, of               what the rig does to a process, likewise

`at` is the wall clock, with which the times of a store are compared. `mono` is CLOCK_MONOTONIC, one clock for
all processes of the machine; the times above are of this clock too. tests/history/checker.py judges by it.
"""
import hashlib
import json
import os
import pathlib
import time

HANDLERS = pathlib.Path(__file__).resolve().parent


class Log:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, event, job_id, **facts):
        line = json.dumps({"at": time.time(), "mono": time.monotonic(), "event": event, "id": job_id, **facts})
        os.write(self.file, line.encode() + b"\n")

    def close(self):
        os.close(self.file)


KNOWN = {}  # path -> the bytes that were read, and their entries: logs grow, and are read again and again


def read(directory):
    """All that was written down in a directory, in the order in which it happened."""
    entries = []
    for path in sorted(directory.glob("*.log")):
        done, known = KNOWN.setdefault(path, (0, []))
        with open(path, "rb") as log:
            log.seek(done)
            text = log.read()
        text = text[:text.rfind(b"\n") + 1]  # the last line may be half written
        known += [json.loads(line) for line in text.splitlines()]
        KNOWN[path] = (done + len(text), known)
        entries += known
    return sorted(entries, key=lambda entry: entry["at"])


def digest(payload):
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


def fate(job_id, attempt):
    """What happens is drawn from job and attempt alone, so that every run of them agrees."""
    return int(hashlib.sha256(f"{job_id}/{attempt}".encode()).hexdigest()[:8], 16) % 100


def status(number):
    """How work of this fate ends."""
    if 20 <= number < 40:
        return "TRANSIENT_FAIL"
    return "PERMANENT_FAIL" if 40 <= number < 45 else "SUCCESS"
