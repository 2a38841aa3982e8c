"""evidence.py - holds a store against the handler's own log.

The store says what became of each job; the log says what was really done. `complaints` gives every
way in which the two, and the list of jobs that were acknowledged, cannot all be true.
"""
import json
import sqlite3

ENDED = ("completed", "dead_letter", "failed")

# Clocks are read a moment apart by two programs, and the store keeps milliseconds.
SLACK_S = 0.002


class Evidence:
    def __init__(self, store, log):
        self.jobs = {}  # id -> row
        self.payloads = {}
        self.attempts = {}  # id -> rows of the history, oldest first
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30) as db:
            db.row_factory = sqlite3.Row
            for row in db.execute("""SELECT s.id, n.name AS state, j.attempts, s.max_attempts, s.unique_key
                                     FROM jobs j JOIN specs s ON s.seq = j.seq
                                     JOIN states n ON n.state = j.state"""):
                self.jobs.setdefault(row["id"], []).append(row)
            for row in db.execute("""SELECT s.id, h.number, n.name AS outcome, h.started_ms, h.next_ms
                                     FROM history h JOIN specs s ON s.seq = h.seq
                                     JOIN states n ON n.state = h.outcome ORDER BY h.history_id"""):
                self.attempts.setdefault(row["id"], []).append(row)
            self.health = db.execute("PRAGMA integrity_check").fetchone()[0]
        db.close()
        self.log = []
        with open(log, encoding="utf-8") as lines:
            self.log = [json.loads(line) for line in lines]

    def starts(self):
        by_job = {}
        for entry in self.log:
            if entry["event"] == "start":
                by_job.setdefault(entry["id"], []).append(entry)
        return by_job


def lost_or_invented(evidence, acknowledged):
    for job_id in acknowledged:
        if job_id not in evidence.jobs:
            yield f"{job_id}: acknowledged, but not in the store"
    for job_id, rows in evidence.jobs.items():
        if len(rows) > 1:
            yield f"{job_id}: {len(rows)} times in the store"
        if rows[0]["state"] not in ENDED:
            yield f"{job_id}: still {rows[0]['state']}"
    for job_id in evidence.starts():
        if job_id not in evidence.jobs:
            yield f"{job_id}: was run, but is not in the store"


def finished_twice(evidence):
    for job_id, rows in evidence.attempts.items():
        ends = [row for row in rows if row["outcome"] in ENDED]
        if len(ends) > 1:
            yield f"{job_id}: ended {len(ends)} times in the store"
        if ends and rows[-1] is not ends[0]:
            yield f"{job_id}: went on after its end"
        if ends and evidence.jobs[job_id][0]["state"] != ends[0]["outcome"]:
            yield f"{job_id}: ended as {ends[0]['outcome']}, is {evidence.jobs[job_id][0]['state']}"


def completed_for_nothing(evidence):
    done = {entry["id"] for entry in evidence.log if entry["event"] == "end:SUCCESS"}
    for job_id, rows in evidence.jobs.items():
        if rows[0]["state"] == "completed" and job_id not in done:
            yield f"{job_id}: completed, but its work was never done"


def wrong_attempts(evidence, stops):
    """A worker that was stopped between its claim and its handler wakes up and starts an attempt whose
    lease is over: no queue can prevent that, it can only refuse the answer."""
    for job_id, starts in evidence.starts().items():
        numbers = [entry["attempt"] for entry in starts]
        if len(set(numbers)) != len(numbers):
            yield f"{job_id}: an attempt was started twice: {numbers}"
        if numbers != sorted(numbers) and stops == 0:
            yield f"{job_id}: attempts out of order: {numbers}"
        if max(numbers) > starts[0]["max_attempts"]:
            yield f"{job_id}: attempt {max(numbers)} of {starts[0]['max_attempts']}"
        for row in evidence.jobs.get(job_id, []):
            if row["attempts"] > row["max_attempts"] or row["attempts"] < max(numbers):
                yield f"{job_id}: {row['attempts']} attempts in the store, {max(numbers)} in the log"


def started_early(evidence):
    for job_id, starts in evidence.starts().items():
        locks = {row["number"] + 1: row["next_ms"] / 1000 for row in evidence.attempts.get(job_id, [])
                 if row["outcome"] == "retrying"}
        for entry in starts:
            due = locks.get(entry["attempt"], 0)
            if entry["at"] < due - SLACK_S:
                yield f"{job_id}: attempt {entry['attempt']} started {due - entry['at']:.3f} s early"


def changed_payloads(evidence, payloads):
    for job_id, starts in evidence.starts().items():
        for entry in starts:
            if payloads and job_id in payloads and entry["payload"] != payloads[job_id]:
                yield f"{job_id}: another payload than was submitted"


def complaints(evidence, acknowledged, payloads=None, stops=0):
    found = [] if evidence.health == "ok" else [f"the store is damaged: {evidence.health}"]
    for check in (lost_or_invented(evidence, acknowledged), finished_twice(evidence),
                  completed_for_nothing(evidence), wrong_attempts(evidence, stops), started_early(evidence),
                  changed_payloads(evidence, payloads)):
        found.extend(check)
    return found
