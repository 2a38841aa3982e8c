"""checker.py - decides from a history alone whether the queue kept its promises, in the manner of Jepsen's queue tests.

    python3 -m tests.history.checker HISTORY.jsonl      judges a history that a run has kept

A history is a list of events. Clients, handlers and the rig write them (testimony.py), never the program under test,
but for the last two kinds, which are what the store says when all is over. An event is a dict with `event`, `id` (of
the job) and `mono`, the time: CLOCK_MONOTONIC in seconds, which is the same clock for all processes of a machine and which no
test sets.

    submit        a client is about to ask; payload (digest); not_before: it asked for a start no earlier than this;
                  queue and priority where the order counts
    acknowledged  the answer: the job is kept
    rejected      the answer: no job was made. A submit without either answer is unknown: it may be there or not
    start         a handler has the job: attempt, payload; from a client that claims by itself also `claimed`, the time
                  at which it asked, and `lease` in seconds
    extended      a heartbeat was answered: attempt; asked, the time at which it was sent; lease
    gone          the handler ends without an answer; the start does not count, unless the job is blamed for it
    end:STATUS    the handler has done its work, and is about to say so: attempt
    settled       the answer to that: it was taken; attempt, status
    refused       the answer to that: it was not taken
    record        the store's word on an attempt that has ended: attempt (0: taken back), outcome, error (its type), and by
                  its own clock `ended` and `next`, before which it is not tried again, as times of CLOCK_MONOTONIC
    final         the store's word on the job in the end: state

A complaint is made only where no order of events within the times that were recorded is allowed: a request takes effect
at some moment between its invocation and its answer.
"""
import bisect
import collections
import dataclasses
import json
import sys

LIVE = ("scheduled", "retrying", "queued", "running", "parked")
LEASE_LOST = "LeaseExpired"  # the error type of an attempt whose lease has ended
POISON = 3  # a job that has lost so many leases in a row becomes a dead letter
BLAMED = 2  # a job with which so many handlers died before their first answer may be blamed for it


@dataclasses.dataclass(frozen=True)
class Contract:
    """What was promised in this run."""

    backoff_s: float = 0  # no retry starts earlier than this after its failure
    ordered: frozenset = frozenset()  # queues whose jobs only clients claim, and which nothing holds back
    reserved_s: float = 0  # how long another process may have set a job aside for its own claim
    removed: frozenset = frozenset()  # ended states whose jobs retention may have removed
    slack_s: float = 0.002  # stores keep milliseconds, and clocks are read one after the other


@dataclasses.dataclass(frozen=True)
class Complaint:
    kind: str  # lost, unfinished, undone, duplicated, stale, phantom, early, out of priority, lease overlap
    id: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.id}: {self.text}"


class Life:
    """The events of one job by their kind, each kind in the order of time."""

    def __init__(self, job_id):
        self.id = job_id
        self.events = collections.defaultdict(list)

    def of(self, kind):
        return self.events[kind]

    def first(self, kind):
        """The time of the first; None: there is none."""
        return self.events[kind][0]["mono"] if self.events[kind] else None

    @property
    def ends(self):
        return [event for kind, events in self.events.items() if kind.startswith("end:") for event in events]

    def end_of(self, attempt):
        """The time at which the handler of this attempt was about to answer or to die; None: it was never heard of."""
        times = [event["mono"] for event in self.ends + self.of("gone") if event["attempt"] == attempt]
        return min(times, default=None)

    def records_of(self, attempt):
        return [event for event in self.of("record") if event["attempt"] == attempt]

    def successes(self):
        """Answers that said: this attempt has completed the job."""
        return [event for event in self.of("settled") if event["status"] == "SUCCESS"]

    @property
    def state(self):
        return self.of("final")[-1]["state"] if self.of("final") else None


def lives_of(history):
    lives = {}
    for event in sorted(history, key=lambda event: event["mono"]):
        if event["id"] is not None:
            lives.setdefault(event["id"], Life(event["id"])).of(event["event"]).append(event)
    return lives


# ---- Lost, unfinished, undone --------------------------------------------------------------------


def may_be_removed(life, contract):
    """Its handlers have said something, or died so often, that the job may have ended, and retention removes such jobs."""
    if "completed" in contract.removed and life.of("end:SUCCESS"):
        return True
    silent = {event["attempt"] for event in life.of("start")} - {event["attempt"] for event in life.ends}
    has_failed = (any(event["event"] != "end:SUCCESS" for event in life.ends) or len(silent) >= POISON
                  or len(life.of("gone")) >= BLAMED)
    return bool(contract.removed - {"completed"}) and has_failed


def lost(life, contract):
    if life.state is None:
        if life.of("acknowledged") and not may_be_removed(life, contract):
            yield "lost", "acknowledged, but not in the store"
        return
    if life.state in LIVE:
        yield "unfinished", f"still {life.state} when all was over"
    if life.successes() and life.state not in ("completed", *LIVE):
        yield "undone", f"its success was acknowledged, and it is {life.state}"


# ---- Duplicated ----------------------------------------------------------------------------------


def claimed_after(start, success):
    """Whether this start was certainly handed out after that answer. The handler of an older attempt may begin late, if
    its process was stopped after the claim; a queue cannot prevent that."""
    if "claimed" in start:
        return start["claimed"] > success["mono"]
    return start["attempt"] > success["attempt"] and start["mono"] > success["mono"]


def duplicated(life, contract):
    winners = {event["attempt"] for event in life.successes()}
    if len(winners) > 1:
        yield "duplicated", f"attempts {sorted(winners)} were all acknowledged as its success"
    for success in life.successes()[:1]:
        for start in life.of("start"):
            if claimed_after(start, success):
                yield "duplicated", f"attempt {start['attempt']} was handed out after the success of attempt {success['attempt']}"
    taken_back = collections.Counter(event["attempt"] for event in life.of("gone"))
    for attempt, n in collections.Counter(event["attempt"] for event in life.of("start")).items():
        if n - taken_back[attempt] > 1:
            yield "duplicated", f"attempt {attempt} was started {n} times"


# ---- Stale ---------------------------------------------------------------------------------------


def stale(life, contract):
    """An answer was taken that was sent after a later attempt had been handed out: its lease had ended by then."""
    for settled in life.of("settled"):
        sent = [event["mono"] for event in life.ends if event["attempt"] == settled["attempt"]]
        later = [start for start in life.of("start") if start["attempt"] > settled["attempt"] and start["mono"] < min(sent, default=0)]
        for start in later[:1]:
            yield "stale", (f"the answer of attempt {settled['attempt']} was taken, though attempt {start['attempt']} had been handed "
                            f"out {min(sent) - start['mono']:.3f} s before it was sent")


# ---- Phantom -------------------------------------------------------------------------------------


def phantom(life, contract):
    asked = life.first("submit")
    if asked is None:
        if life.of("start") or life.of("final"):
            yield "phantom", "no client has submitted it"
        return
    if len(life.of("rejected")) >= len(life.of("submit")) and not life.of("acknowledged") and life.of("start"):
        yield "phantom", "it was run though its submit was rejected"
    payloads = {event.get("payload") for event in life.of("submit")} - {None}
    for start in life.of("start"):
        if start["mono"] < asked:
            yield "phantom", "it was run before it was submitted"
        if payloads and start.get("payload") not in payloads | {None}:
            yield "phantom", f"attempt {start['attempt']} had another payload"


# ---- Early ---------------------------------------------------------------------------------------


def failures(life, attempt):
    """The times at which the handler of this attempt was about to report that it failed."""
    return [event["mono"] for event in life.ends if event["attempt"] == attempt and event["event"] != "end:SUCCESS"]


def was_taken(life, attempt):
    """Whether the store has certainly taken what the handler of this attempt reported; else its lease may have ended."""
    answers = [event for event in life.of("settled") + life.of("refused") if event["attempt"] == attempt]
    if answers:
        return all(event["event"] == "settled" for event in answers)
    return any(event["outcome"] == "retrying" and event.get("error") != LEASE_LOST for event in life.records_of(attempt))


def retry_is_due(life, attempt, contract):
    """The time before which the attempt after this one must not start, by the clock of its handler; None: nothing is known."""
    failed = failures(life, attempt)
    return min(failed) + contract.backoff_s if failed and was_taken(life, attempt) else None


def early_by_handlers(life, contract):
    locks = [event["not_before"] for event in life.of("submit") if event.get("not_before")]
    for start in life.of("start"):
        retry = retry_is_due(life, start["attempt"] - 1, contract) if start["attempt"] > 1 else None
        due = max(locks + ([retry] if retry else []), default=start["mono"])
        if due - start["mono"] > contract.slack_s:
            yield "early", f"attempt {start['attempt']} started {due - start['mono']:.3f} s before its time"


def early_by_the_store(life, contract):
    """The store's own times: a delay is whole, counts from no moment before the report, and no start comes before its end."""
    for record in life.of("record"):
        if record["outcome"] != "retrying" or record.get("error") == LEASE_LOST or "next" not in record:
            continue
        attempt, reported = record["attempt"], failures(life, record["attempt"])
        due = min(reported, default=0) + contract.backoff_s
        if reported and was_taken(life, attempt) and due - record["next"] > contract.slack_s:
            yield "early", (f"the delay that the store gave after attempt {attempt} ends {due - record['next']:.3f} s too early "
                            "after its report")
        if record["next"] - record["ended"] < contract.backoff_s - 0.0005:
            yield "early", f"the store gave a delay of {record['next'] - record['ended']:.3f} s after attempt {attempt}"
        for start in life.of("start"):
            if start["attempt"] == attempt + 1 and record["next"] - start["mono"] > contract.slack_s:
                yield "early", (f"attempt {attempt + 1} started {record['next'] - start['mono']:.3f} s before the time that "
                                "the store had set")


def early(life, contract):
    yield from early_by_handlers(life, contract)
    yield from early_by_the_store(life, contract)


# ---- Two valid leases ----------------------------------------------------------------------------


def valid_until(life, start, contract):
    """The time until which the lease of this start was certainly valid. The end of a handler's work may end it; then
    the time, counted from when the claim or the last heartbeat was sent. The program extends the leases of its own
    handlers: theirs last as long as the work, unless the store has written down that they ended."""
    attempt = start["attempt"]
    ended = life.end_of(attempt)
    if "claimed" not in start:
        was_lost = any(event.get("error") == LEASE_LOST for event in life.records_of(attempt))
        return start["mono"] if ended is None or was_lost else ended
    begun = [(start["claimed"], start["lease"])]
    begun += [(event["asked"], event["lease"]) for event in life.of("extended") if event["attempt"] == attempt]
    until = max(at + lease for at, lease in begun)
    return until if ended is None else min(until, ended)


def lease_overlap(life, contract):
    holds = [(start["mono"], valid_until(life, start, contract), start["attempt"]) for start in life.of("start")]
    last_until, last_attempt = 0, None
    for begin, until, attempt in sorted(holds):
        if begin >= until:  # nothing is certain of this one
            continue
        if begin < last_until - contract.slack_s and attempt != last_attempt:
            yield "lease overlap", (f"attempt {attempt} began {last_until - begin:.3f} s before the lease of attempt "
                                    f"{last_attempt} could end")
        if until > last_until:
            last_until, last_attempt = until, attempt


# ---- Priority ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Wait:
    """A job of an ordered queue, from when it was certainly ready to when it was first claimed."""

    id: str
    priority: int
    ready: float
    claimed: float  # when that claim was sent; for ever: it never was
    held: float  # when the answer had come


def waits_of(lives, contract):
    """By queue. A job whose first attempt went to a client that was not heard of is left out: for a while it was not ready,
    and no event says when."""
    waits = collections.defaultdict(list)
    for life in lives.values():
        submit = life.of("submit")[0] if life.of("submit") else {}
        if submit.get("queue") not in contract.ordered or not life.of("acknowledged") or life.records_of(0):
            continue
        start = life.of("start")[0] if life.of("start") else {"attempt": 1, "claimed": float("inf"), "mono": float("inf")}
        if start["attempt"] != 1 or "claimed" not in start:
            continue
        ready = max(life.first("acknowledged"), submit.get("not_before") or 0)
        waits[submit["queue"]].append(Wait(life.id, submit["priority"], ready, start["claimed"], start["mono"]))
    return waits


def out_of_priority(lives, contract):
    """A job was claimed, though another one of a higher priority had been ready for longer than a reservation lasts, and
    stayed so for as long after it."""
    margin = contract.reserved_s + contract.slack_s
    for waits in waits_of(lives, contract).values():
        waits.sort(key=lambda wait: wait.ready)
        readies = [wait.ready for wait in waits]
        for taken in waits:
            if taken.held == float("inf"):
                continue
            before = waits[:bisect.bisect_left(readies, taken.claimed - margin)]
            passed = [wait for wait in before if wait.priority > taken.priority and wait.claimed > taken.held + margin]
            if passed:
                worst = max(passed, key=lambda wait: wait.priority)
                yield Complaint("out of priority", taken.id, f"of priority {taken.priority}, it was claimed before {worst.id} "
                                f"of {worst.priority}, which had been ready for {taken.claimed - worst.ready:.3f} s")


# ---- All of it -----------------------------------------------------------------------------------


CHECKS = (lost, duplicated, stale, phantom, early, lease_overlap)  # of one job


def complaints(history, contract):
    lives = lives_of(history)
    found = [Complaint(kind, life.id, text) for life in lives.values()
             for check in CHECKS for kind, text in check(life, contract)]
    return found + list(out_of_priority(lives, contract))


def figures(history):
    """How much there was to judge."""
    lives = lives_of(history).values()
    return {"submitted": sum(bool(life.of("submit")) for life in lives),
            "acknowledged": sum(bool(life.of("acknowledged")) for life in lives),
            "unknown": sum(bool(life.of("submit")) and not life.of("acknowledged") and not life.of("rejected") for life in lives),
            "starts": sum(len(life.of("start")) for life in lives),
            "retries": sum(start["attempt"] > 1 for life in lives for start in life.of("start")),
            "successes": sum(bool(life.of("end:SUCCESS")) for life in lives)}


def witness(history, job_id):
    """The events of one job as lines of text, with the faults in between, by seconds since the first event."""
    begin = min(event["mono"] for event in history)
    own = [event for event in history if event["id"] == job_id or event["event"] == "fault"]
    ends = [event["mono"] for event in own if event["id"] == job_id]
    own = [event for event in own if min(ends) - 2 <= event["mono"] <= max(ends) + 2]
    return [f"{event['mono'] - begin:9.3f}  {event['event']}  " + " ".join(
        f"{key}={value}" for key, value in event.items() if key not in ("event", "id", "mono", "at", "payload"))
            for event in sorted(own, key=lambda event: event["mono"])]


def save(history, contract, path):
    facts = {**dataclasses.asdict(contract), "ordered": sorted(contract.ordered), "removed": sorted(contract.removed)}
    with open(path, "w", encoding="utf-8") as out:
        for line in ({"contract": facts}, *history):
            out.write(json.dumps(line) + "\n")


def load(path):
    """The history and the contract of a file."""
    with open(path, encoding="utf-8") as kept:
        facts, *history = map(json.loads, kept)
    facts = facts["contract"]
    return history, Contract(**{**facts, "ordered": frozenset(facts["ordered"]), "removed": frozenset(facts["removed"])})


def main():
    history, contract = load(sys.argv[1])
    found = complaints(history, contract)
    for complaint in found:
        print(complaint)
    for complaint in found[:3]:
        print(*witness(history, complaint.id), sep="\n")
    print(", ".join(f"{n} {name}" for name, n in figures(history).items()) + f": {len(found)} complaints")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
