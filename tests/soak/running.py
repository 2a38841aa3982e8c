"""running.py - the history checker for runs of hours: jobs are judged and forgotten as they end.

A life of which nothing was heard for a while, and whose success was said, is judged and dropped. If such a job ran again
later, it would be a life without a submit, which is a complaint too. What has not ended is kept, and is held against the
store when all is over. `Latencies` are those of the events since they were last taken.
"""
import collections
import dataclasses
import json
import subprocess

import checker


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


class RunningJudge:
    def __init__(self, contract):
        self.contract = contract
        self.lives = {}
        self.counts = collections.Counter()
        self.complaints = []
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
        self.complaints += [checker.Complaint(kind, life.id, text)
                            for check in checker.CHECKS for kind, text in check(life, self.contract)]

    def drop_before(self, mono):
        """Judges and forgets what has succeeded and was silent since."""
        for job_id, life in list(self.lives.items()):
            last = max(events[-1]["mono"] for events in life.events.values() if events)
            if last < mono and (life.successes() or (life.of("end:SUCCESS") and not life.of("settled"))):
                self.judge(self.lives.pop(job_id))

    def finish(self, state_of):
        """Judges the rest; `state_of` gives the state in which the store has a job in the end, None if it has not."""
        for life in self.lives.values():
            state = state_of(life.id)
            if state:
                last = max(events[-1]["mono"] for events in life.events.values() if events)
                life.of("final").append({"event": "final", "id": life.id, "mono": last, "state": state})
            self.judge(life)
        self.lives = {}
