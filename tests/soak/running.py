"""running.py - the history checker for runs of hours: jobs are judged and forgotten as they end.

A life of which nothing was heard for a while, and whose end was said, is judged and dropped. If such a job ran again
later, it would be a life without a submit, which is a complaint too. What has not ended is kept, and is held against the
store when all is over. `Latencies` are those of the events since they were last taken.

Waits are as long as the wall clock says: one during which it was set may be shorter by that much (wallclock.py).
"""
import collections
import dataclasses
import json
import subprocess

from tests.history import checker


@dataclasses.dataclass
class Latencies:
    """Seconds: from a submit to its answer, and from then, or from the time lock, to the first start."""

    submit: list = dataclasses.field(default_factory=list)
    start: list = dataclasses.field(default_factory=list)


class Follower:
    """Reads logs as they grow, and gives the disk back what has been read."""

    def __init__(self, folder):
        self.folder = folder
        self.done = collections.Counter()  # path -> bytes

    def read(self):
        events = []
        for path in sorted(self.folder.glob("*.log")):
            with open(path, "rb") as log:
                log.seek(self.done[path])
                text = log.read()
            text = text[:text.rfind(b"\n") + 1]
            events += map(json.loads, text.splitlines())
            self.done[path] += len(text)
        return sorted(events, key=lambda event: event["mono"])

    def free(self):
        for path, size in self.done.items():
            subprocess.run(["fallocate", "--punch-hole", "--offset", "0", "--length", str(size), str(path)],
                           check=False, capture_output=True)


def span_of(life):
    """The times of its first and of its last event."""
    kinds = [events for events in life.events.values() if events]
    return min(events[0]["mono"] for events in kinds), max(events[-1]["mono"] for events in kinds)


class RunningJudge:
    """`moved` says by how much the wall clock was set from one time to another; `attempts` is how many a job has."""

    def __init__(self, contract, moved=lambda begin, end: 0.0, attempts=None):
        self.contract = contract
        self.moved = moved
        self.attempts = attempts
        self.lives = {}
        self.counts = collections.Counter()
        self.complaints = []
        self.times = []  # of each complaint: the last event of its job
        self.histories = {}  # of each job with a complaint, by its id: lines of text
        self.excused = 0  # lives during which the clock was set, and which would have had a complaint
        self.latencies = Latencies()

    def feed(self, events):
        """In the order of time, but for a moment: logs are read one after the other."""
        for event in events:
            if event["id"] is None:
                continue
            life = self.lives.setdefault(event["id"], checker.Life(event["id"]))
            life.of(event["event"]).append(event)
            self.counts[event["event"]] += 1
            if event["event"] == "acknowledged":
                self.latencies.submit.append(event["mono"] - life.first("submit"))
            elif event["event"] == "start" and len(life.of("start")) == 1:
                self.add_start(life, event)

    def add_start(self, life, start):
        """A job may start before its submitter is answered: it has not waited at all."""
        submit = life.of("submit")[0] if life.of("submit") else None
        if submit:
            ready = max(life.first("acknowledged") or submit["mono"], submit.get("not_before") or 0)
            self.latencies.start.append(max(0.0, start["mono"] - ready))

    def take_latencies(self):
        taken, self.latencies = self.latencies, Latencies()
        return taken

    def judge(self, life):
        for events in life.events.values():
            events.sort(key=lambda event: event["mono"])
        first, last = span_of(life)
        moved = self.moved(first, last)
        contract = dataclasses.replace(self.contract, slack_s=self.contract.slack_s + moved)
        found = self.complaints_of(life, contract)
        self.excused += moved > 0 and not found and bool(self.complaints_of(life, self.contract))
        self.complaints += found
        self.times += [last] * len(found)
        if found:
            self.histories[life.id] = checker.witness([event for events in life.events.values() for event in events], life.id)

    @staticmethod
    def complaints_of(life, contract):
        return [checker.Complaint(kind, life.id, text) for check in checker.CHECKS for kind, text in check(life, contract)]

    def has_ended(self, life):
        """By what its handlers said. One that failed may be a dead letter by now, which a purge has removed."""
        if life.successes() or (life.of("end:SUCCESS") and not life.of("settled")):
            return True
        if "dead_letter" not in self.contract.removed or not life.of("acknowledged"):
            return False
        taken = life.of("settled") if life.of("settled") + life.of("refused") else life.ends
        return any(event["attempt"] == self.attempts or "PERMANENT_FAIL" in (event["event"][4:], event.get("status")) for event in taken)

    def drop_before(self, mono):
        """Judges and forgets what has ended and was silent since."""
        for job_id, life in list(self.lives.items()):
            if span_of(life)[1] < mono and self.has_ended(life):
                self.judge(self.lives.pop(job_id))

    def finish(self, state_of):
        """Judges the rest; `state_of` gives the state in which the store has a job in the end, None if it has not."""
        for life in self.lives.values():
            state = state_of(life.id)
            if state:
                life.of("final").append({"event": "final", "id": life.id, "mono": span_of(life)[1], "state": state})
            self.judge(life)
        self.lives = {}
