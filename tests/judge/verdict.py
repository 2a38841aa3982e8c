"""verdict.py - judges histories: lists of events (events.py), by the contract of the run (promises.py).

    python3 -m tests.judge.verdict HISTORY.jsonl      judges a history that a run has kept

A history that is complete is judged at once, by `complaints`. In runs of hours a Judge is fed with events as they are written: a life of
which nothing was heard for a while, and whose end was said, is judged and dropped. If such a job ran again later, it would be a life
without a submit, which is a complaint too. What has not ended is kept, and is held against the store when all is over.
"""
import collections
import dataclasses
import json
import sys

from tests.judge.events import Life, in_order, story
from tests.judge.promises import OF_A_JOB, OF_ALL_JOBS, Books, Contract

OF_NO_JOB = ("figures", "damaged")


@dataclasses.dataclass(frozen=True)
class Complaint:
    kind: str  # the name of the promise
    id: str  # None: of no job
    text: str
    at: float = 0  # the time of the last event of the job

    def __str__(self):
        return f"{self.kind}: {self.id}: {self.text}" if self.id else f"{self.kind}: {self.text}"


class Judge:
    """Waits are as long as the wall clock says: one during which it was set may be shorter by that much. `moved` says by how much it was
    set from one time to another."""

    def __init__(self, contract, moved=lambda begin, end: 0.0):
        self.contract = contract
        self.moved = moved
        self.lives = {}
        self.books = Books()
        self.counts = collections.Counter()  # of events, by kind
        self.complaints = []
        self.stories = {}  # of each job with a complaint, by its id: lines of text
        self.excused = 0  # lives during which the clock was set, and which would have had a complaint

    def hear(self, event):
        """In the order of time, but for a moment: logs are read one after the other. The life to which it belongs."""
        self.counts[event["event"]] += 1
        if event["id"] is None:
            if event["event"] in OF_NO_JOB:
                self.books.said.append(event)
            return None
        life = self.lives.setdefault(event["id"], Life(event["id"]))
        life.add(event)
        return life

    def feed(self, events):
        for event in events:
            self.hear(event)

    def judge(self, life):
        life.sort()
        first, last = life.span()
        moved = self.moved(first, last)
        contract = dataclasses.replace(self.contract, slack_s=self.contract.slack_s + moved)
        found = broken(life, contract)
        self.excused += moved > 0 and not found and bool(broken(life, self.contract))
        self.complaints += [Complaint(kind, life.id, text, last) for kind, text in found]
        if found:
            self.stories[life.id] = story(life.all(), life.id)
        self.books.add(life, contract)

    def has_ended(self, life):
        """By what its handlers said. One that failed may be a dead letter by now, which a purge has removed."""
        if life.successes() or (life.of("end:SUCCESS") and not life.of("settled")):
            return True
        if "dead_letter" not in self.contract.removed or not life.of("acknowledged"):
            return False
        taken = life.of("settled") if life.answers else life.ends
        return any(event["attempt"] == self.contract.attempts or "PERMANENT_FAIL" in (event["event"][4:], event.get("status"))
                   for event in taken)

    def drop_before(self, mono):
        """Judges and forgets what has ended and was silent since."""
        for job_id, life in list(self.lives.items()):
            if life.span()[1] < mono and self.has_ended(life):
                self.judge(self.lives.pop(job_id))

    def finish(self, final_of=lambda job_id: None):
        """Judges the rest; `final_of` gives what the store says of a job in the end, None if it has not. All complaints."""
        for life in self.lives.values():
            if final := final_of(life.id):
                life.add({"event": "final", "id": life.id, "mono": life.span()[1], **final})
            self.judge(life)
        self.lives = {}
        self.complaints += [Complaint(kind_of(promise), *found) for promise in OF_ALL_JOBS for found in promise(self.books, self.contract)]
        return self.complaints


def kind_of(promise):
    return promise.__name__.replace("_", " ")


def broken(life, contract):
    """Kinds and texts."""
    return [(kind_of(promise), text) for promise in OF_A_JOB for text in promise(life, contract)]


def judged(history, contract):
    """A judge who has heard all of it."""
    judge = Judge(contract)
    judge.feed(in_order(history))
    judge.finish()
    return judge


def complaints(history, contract):
    return judged(history, contract).complaints


def save(history, contract, path):
    facts = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in dataclasses.asdict(contract).items()}
    with open(path, "w", encoding="utf-8") as out:
        for line in ({"contract": facts}, *history):
            out.write(json.dumps(line) + "\n")


def load(path):
    """The history and the contract of a file."""
    with open(path, encoding="utf-8") as kept:
        facts, *history = map(json.loads, kept)
    return history, Contract(**{name: frozenset(value) if isinstance(value, list) else value for name, value in facts["contract"].items()})


def main():
    history, contract = load(sys.argv[1])
    judge = judged(history, contract)
    for complaint in judge.complaints:
        print(complaint)
    for job_id in list(dict.fromkeys(complaint.id for complaint in judge.complaints if complaint.id))[:3]:
        print(*story(history, job_id), sep="\n")
    print(", ".join(f"{n} {name}" for name, n in judge.books.totals.items()) + f": {len(judge.complaints)} complaints")
    sys.exit(1 if judge.complaints else 0)


if __name__ == "__main__":
    main()
