"""evidence.py - holds a store against the testimony of handlers and clients.

The store says what became of each job; the logs say what was really done and what was promised.
`complaints` gives every way in which the two cannot both be true. It knows nothing of who was killed:
the same questions are asked of every kind of store, and of any number of workers and servers.
"""
import collections
import shutil

from tests.handlers import testimony

ENDED = ("completed", "dead_letter", "failed")
LEASE_LOST = "LeaseExpired"  # the type of the error of such an attempt

# Clocks are read a moment apart by two programs, and the store keeps milliseconds.
SLACK_S = 0.002


class Evidence:
    """`store` is one of stores.py; `log` is what testimony.read gives."""

    def __init__(self, store, log):
        self.rows = collections.defaultdict(list)  # id -> jobs of that id
        for job in store.jobs():
            self.rows[job["id"]].append(job)
        self.jobs = {job_id: rows[0] for job_id, rows in self.rows.items()}
        self.attempts = store.attempts(list(self.jobs))  # id -> its history, oldest first
        self.figures = store.figures()
        self.damage = store.health()
        self.log = log
        self.events = collections.defaultdict(dict)  # event -> id -> entries
        for entry in log:
            self.events[entry["event"]].setdefault(entry["id"], []).append(entry)

    def of(self, event):
        """(id, entries) of every job to which it happened."""
        return self.events[event].items()


def lost_or_invented(evidence):
    for job_id, _ in evidence.of("acknowledged"):
        if job_id not in evidence.jobs:
            yield f"{job_id}: acknowledged, but not in the store"
    for job_id, rows in evidence.rows.items():
        if len(rows) > 1:
            yield f"{job_id}: {len(rows)} times in the store"
        if job_id not in evidence.events["submit"]:
            yield f"{job_id}: nobody has submitted it"
        if rows[0]["state"] not in ENDED:
            yield f"{job_id}: still {rows[0]['state']}"
    for job_id, _ in evidence.of("start"):
        if job_id not in evidence.jobs:
            yield f"{job_id}: was run, but is not in the store"


def finished_twice(evidence):
    for job_id, rows in evidence.attempts.items():
        ends = [row for row in rows if row["outcome"] in ENDED]
        if len(ends) > 1:
            yield f"{job_id}: ended {len(ends)} times in the store"
        if ends and rows[-1] is not ends[0]:
            yield f"{job_id}: went on after its end"
        if ends and job_id in evidence.jobs and evidence.jobs[job_id]["state"] != ends[0]["outcome"]:
            yield f"{job_id}: ended as {ends[0]['outcome']}, is {evidence.jobs[job_id]['state']}"


def completed_for_nothing(evidence):
    for job_id, job in evidence.jobs.items():
        if job["state"] == "completed" and job_id not in evidence.events["end:SUCCESS"]:
            yield f"{job_id}: completed, but its work was never done"


def broken_promises(evidence):
    """What a client was told of the end of an attempt holds for ever."""
    for job_id, entries in evidence.of("settled"):
        job = evidence.jobs.get(job_id)
        if not job:
            yield f"{job_id}: was settled, but is not in the store"
            continue
        for entry in entries:
            if entry["status"] == "SUCCESS":
                yield from undone(evidence, job, entry)
            else:
                yield from forgotten_failure(evidence, job, entry)
        winners = {(entry["attempt"], entry.get("token")) for entry in entries if entry["status"] == "SUCCESS"}
        if len(winners) > 1:
            yield f"{job_id}: taken as completed {len(winners)} times"


def undone(evidence, job, entry):
    if job["state"] != "completed":
        yield f"{job['id']}: taken as completed, is {job['state']}"
    elif job["attempts"] != entry["attempt"]:
        yield f"{job['id']}: completed by attempt {entry['attempt']}, has {job['attempts']} attempts"
    for start in evidence.events["start"].get(job["id"], []):
        # A client that was stopped may begin late what it was given before.
        if start.get("claimed", start["mono"]) > entry["mono"]:
            yield f"{job['id']}: run again after it was taken as completed"


def forgotten_failure(evidence, job, entry):
    told = [row["outcome"] for row in evidence.attempts[job["id"]] if row["number"] == entry["attempt"]]
    wanted = entry.get("state")
    if not told or "completed" in told or (wanted and wanted not in told):
        yield f"{job['id']}: attempt {entry['attempt']} was taken as {wanted or entry['status']}, the history has {told}"


def wrong_attempts(evidence, stops):
    """A worker that was stopped between its claim and its handler, or that a busy machine did not let go on, starts an
    attempt whose lease is over: no queue can prevent that, it can only refuse the answer. The same holds for a client,
    whose answer may be long under way. A handler that dies before its first answer is taken for one that
    cannot run: that start is taken back."""
    for job_id, starts in evidence.of("start"):
        numbers = [entry["attempt"] for entry in starts]
        taken_back = collections.Counter(entry["attempt"] for entry in evidence.events["gone"].get(job_id, []))
        if any(n - taken_back[number] > 1 for number, n in collections.Counter(numbers).items()):
            yield f"{job_id}: an attempt was started twice: {numbers}"
        lost = {row["number"] for row in evidence.attempts.get(job_id, []) if row["error"] == LEASE_LOST}
        in_time = [number for number in numbers if number not in lost]
        if in_time != sorted(in_time) and stops == 0 and not any("interface" in entry for entry in starts):
            yield f"{job_id}: attempts out of order: {numbers}"
        for row in evidence.rows.get(job_id, []):
            if row["attempts"] < max(numbers):
                yield f"{job_id}: {row['attempts']} attempts in the store, {max(numbers)} in the log"
            if max(numbers) > row["max_attempts"]:
                yield f"{job_id}: attempt {max(numbers)} of {row['max_attempts']}"
    for job_id, job in evidence.jobs.items():
        numbers = [row["number"] for row in evidence.attempts[job_id] if row["number"] > 0]
        if len(set(numbers)) != len(numbers):
            yield f"{job_id}: an attempt is in the history twice: {numbers}"
        if job["attempts"] > job["max_attempts"]:
            yield f"{job_id}: {job['attempts']} of {job['max_attempts']} attempts in the store"


def started_early(evidence):
    for job_id, starts in evidence.of("start"):
        locks = {row["number"] + 1: row["next_ms"] / 1000 for row in evidence.attempts.get(job_id, [])
                 if row["outcome"] == "retrying"}
        for entry in starts:
            due = locks.get(entry["attempt"], 0)
            if entry["at"] < due - SLACK_S:
                yield f"{job_id}: attempt {entry['attempt']} started {due - entry['at']:.3f} s early"


def changed_payloads(evidence):
    submitted = {job_id: entries[0].get("payload") for job_id, entries in evidence.of("submit")}
    for job_id, starts in evidence.of("start"):
        for entry in starts:
            if submitted.get(job_id) and entry["payload"] != submitted[job_id]:
                yield f"{job_id}: another payload than was submitted"


def wrong_figures(evidence):
    """Nothing is ever removed while the rig is at it, so that counters can be had by counting."""
    counters = evidence.figures["counters"]
    states = collections.Counter(job["state"] for job in evidence.jobs.values())
    for state, size in evidence.figures["sizes"].items():
        if size != states[state]:
            yield f"figures: {size} jobs {state}, there are {states[state]}"
    facts = {"jobs_received": len(evidence.jobs), "jobs_completed": states["completed"],
             "jobs_dlq": states["dead_letter"], "jobs_failed": states["failed"],
             "jobs_started": sum(job["attempts"] for job in evidence.jobs.values()) + counters["jobs_released"],
             "jobs_retried": sum(row["outcome"] == "retrying" for rows in evidence.attempts.values() for row in rows)}
    for name, fact in facts.items():
        if counters[name] != fact:
            yield f"figures: {name} is {counters[name]}, should be {fact}"


def complaints(evidence, stops=0):
    found = [f"the store is damaged: {evidence.damage}"] if evidence.damage else []
    for check in (lost_or_invented(evidence), finished_twice(evidence), completed_for_nothing(evidence),
                  broken_promises(evidence), wrong_attempts(evidence, stops), started_early(evidence),
                  changed_payloads(evidence), wrong_figures(evidence)):
        found.extend(check)
    return found


def counts(log):
    """How often each event was written down, by interface where there is one: the load that there was."""
    return collections.Counter((entry.get("interface"), entry["event"]) for entry in log)


class Remains:
    """A store and logs, whoever has left them."""

    def __init__(self, store=None, logs=None, stops=0):
        self.store = store
        self.logs = logs
        self.stops = stops  # how often a worker was stopped for longer than its leases

    def testimony(self):
        return testimony.read(self.logs)

    def story_of(self, job_id):
        """What was written down about a job, as lines: seconds since the first event of all."""
        log = self.testimony()
        return [f"{entry['mono'] - log[0]['mono']:9.3f}  {entry['event']}  " + " ".join(
            f"{key}={value}" for key, value in entry.items() if key not in ("event", "id", "mono", "at", "payload"))
                for entry in log if entry["id"] == job_id]

    def judge(self):
        return complaints(Evidence(self.store, self.testimony()), self.stops)

    def copy(self, place):
        """For somebody to tamper with."""
        shutil.copytree(self.logs, place / "logs")
        store = self.store.copy(place / "jobs.db") if self.store.kind == "sqlite" else self.store.copy()
        return Remains(store, place / "logs", self.stops)
