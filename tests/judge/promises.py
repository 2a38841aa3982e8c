"""promises.py - what a queue has promised, one function a promise. A promise of one job is a function of its life (events.py) and the
contract of the run, and yields the texts of complaints; its name is their kind. A promise about all jobs is a function of Books, and
yields pairs: the id of a job, if there is one, and a text.

A complaint is made only where no order of events within the times that were recorded is allowed: a request takes effect
at some moment between its invocation and its answer.
"""
import bisect
import collections
import dataclasses
import typing

ENDED = ("completed", "dead_letter", "failed")
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
    attempts: typing.Optional[int] = None  # after so many a job that fails is a dead letter
    finished: bool = True  # all jobs had the time to end before the store was asked
    recorded: bool = False  # the store has been asked for its records too
    punctual: bool = False  # no process was stopped for longer than its leases


# ---- Nothing that was acknowledged is lost -------------------------------------------------------


def may_be_removed(life, contract):
    """Its handlers have said something, or died so often, that the job may have ended, and retention removes such jobs."""
    if "completed" in contract.removed and life.of("end:SUCCESS"):
        return True
    silent = {event["attempt"] for event in life.of("start")} - {event["attempt"] for event in life.ends}
    has_failed = (any(event["event"] != "end:SUCCESS" for event in life.ends) or len(silent) >= POISON
                  or len(life.of("gone")) >= BLAMED)
    return bool(contract.removed - {"completed"}) and has_failed


def lost(life, contract):
    said = [word for word in ("acknowledged", "settled", "start") if life.of(word)]
    if said and not life.state and (life.of("submit") or life.of("acknowledged")) and not may_be_removed(life, contract):
        yield f"{' and '.join(said)}, but not in the store".replace("start", "run")


def unfinished(life, contract):
    if contract.finished and life.state and life.state not in ENDED:
        yield f"still {life.state} when all was over"


def undone(life, contract):
    """An end that was acknowledged, or that the store has recorded, is the end."""
    for success in life.successes():
        if life.state not in ("completed", None):
            yield f"its success was acknowledged, and it is {life.state}"
        elif life.final.get("attempts", success["attempt"]) != success["attempt"]:
            yield f"completed by attempt {success['attempt']}, it has {life.final['attempts']} attempts"
    for record in life.of("record"):
        if record["outcome"] in ENDED and life.state not in (record["outcome"], None):
            yield f"it ended as {record['outcome']}, and is {life.state}"


def forgotten(life, contract):
    """A failure that was acknowledged stays in the records of the job."""
    for settled in life.of("settled"):
        if settled["status"] == "SUCCESS" or not contract.recorded or not life.state:
            continue
        told = [record["outcome"] for record in life.records_of(settled["attempt"])]
        wanted = settled.get("state")
        if not told or "completed" in told or (wanted and wanted not in told):
            yield f"attempt {settled['attempt']} was taken as {wanted or settled['status']}, its records are {told}"


def never_done(life, contract):
    if life.state == "completed" and not life.of("end:SUCCESS"):
        yield "completed, but its work was never done"


# ---- Nothing that has ended goes on --------------------------------------------------------------


def claimed_after(start, success):
    """Whether this start was certainly handed out after that answer. The handler of an older attempt may begin late, if
    its process was stopped after the claim; a queue cannot prevent that."""
    if "claimed" in start:
        return start["claimed"] > success["mono"]
    return start["attempt"] > success["attempt"] and start["mono"] > success["mono"]


def duplicated(life, contract):
    successes = life.successes()
    winners = {(event["attempt"], event.get("token")) for event in successes}
    if len(winners) > 1:
        yield f"{len(winners)} claims were acknowledged as its success, attempts {sorted(a for a, _ in winners)}"
    for success in successes[:1]:
        for start in life.of("start"):
            if claimed_after(start, success):
                yield f"attempt {start['attempt']} was handed out after the success of attempt {success['attempt']}"
    # A handler that dies before its first answer is taken for one that cannot run: that start is taken back.
    taken_back = collections.Counter(event["attempt"] for event in life.of("gone"))
    for attempt, n in collections.Counter(event["attempt"] for event in life.of("start")).items():
        if n - taken_back[attempt] > 1:
            yield f"attempt {attempt} was started {n} times"
    if len(life.of("final")) > 1:
        yield f"it is in the store {len(life.of('final'))} times"
    outcomes = [record["outcome"] for record in life.of("record")]
    ends = [i for i, outcome in enumerate(outcomes) if outcome in ENDED]
    if len(ends) > 1:
        yield f"by its records it ended {len(ends)} times"
    if ends and ends[0] != len(outcomes) - 1:
        yield "by its records it went on after its end"


def stale(life, contract):
    """An answer was taken that was sent after a later attempt had been handed out: its lease had ended by then."""
    for settled in life.of("settled"):
        sent = [event["mono"] for event in life.ends if event["attempt"] == settled["attempt"]]
        later = [start for start in life.of("start") if start["attempt"] > settled["attempt"] and start["mono"] < min(sent, default=0)]
        for start in later[:1]:
            yield (f"the answer of attempt {settled['attempt']} was taken, though attempt {start['attempt']} had been handed "
                   f"out {min(sent) - start['mono']:.3f} s before it was sent")


# ---- Nothing is invented or changed --------------------------------------------------------------


def phantom(life, contract):
    asked = life.first("submit")
    if asked is None:
        if life.of("start") or life.of("final"):
            yield "no client has submitted it"
        return
    if len(life.of("rejected")) >= len(life.of("submit")) and not life.of("acknowledged") and life.of("start"):
        yield "it was run though its submit was rejected"
    for start in life.of("start"):
        if start["mono"] < asked:
            yield "it was run before it was submitted"


def changed(life, contract):
    payloads = {event.get("payload") for event in life.of("submit")} - {None}
    for start in life.of("start"):
        if payloads and start.get("payload") not in payloads | {None}:
            yield f"attempt {start['attempt']} had another payload than was submitted"


# ---- Nothing starts before its time --------------------------------------------------------------


def by_wall(event):
    return event.get("at", event["mono"])


def failures(life, attempt):
    """The events with which the handler of this attempt was about to report that it failed."""
    return [event for event in life.ends if event["attempt"] == attempt and event["event"] != "end:SUCCESS"]


def was_taken(life, attempt):
    """Whether the store has certainly taken what the handler of this attempt reported; else its lease may have ended."""
    answers = [event for event in life.answers if event["attempt"] == attempt]
    if answers:
        return all(event["event"] == "settled" for event in answers)
    return any(event["outcome"] == "retrying" and event.get("error") != LEASE_LOST for event in life.records_of(attempt))


def retry_is_due(life, attempt, contract):
    """The time before which the attempt after this one must not start, by the clock of its handler; None: nothing is known."""
    failed = [event["mono"] for event in failures(life, attempt)]
    return min(failed) + contract.backoff_s if failed and was_taken(life, attempt) else None


def early_by_handlers(life, contract):
    locks = [event["not_before"] for event in life.of("submit") if event.get("not_before")]
    for start in life.of("start"):
        retry = retry_is_due(life, start["attempt"] - 1, contract) if start["attempt"] > 1 else None
        due = max(locks + ([retry] if retry else []), default=start["mono"])
        if due - start["mono"] > contract.slack_s:
            yield f"attempt {start['attempt']} started {due - start['mono']:.3f} s before its time"


def early_by_the_store(life, contract):
    """The store's own times: a delay is whole, counts from no moment before the report, and no start comes before its end."""
    for record in life.of("record"):
        if record["outcome"] != "retrying" or "next" not in record:
            continue
        attempt = record["attempt"]
        for start in life.of("start"):
            if start["attempt"] == attempt + 1 and record["next"] - by_wall(start) > contract.slack_s:
                yield (f"attempt {attempt + 1} started {record['next'] - by_wall(start):.3f} s before the time that "
                       "the store had set")
        if record.get("error") == LEASE_LOST:
            continue
        reported = [by_wall(event) for event in failures(life, attempt)]
        due = min(reported, default=0) + contract.backoff_s
        if reported and was_taken(life, attempt) and due - record["next"] > contract.slack_s:
            yield (f"the delay that the store gave after attempt {attempt} ends {due - record['next']:.3f} s too early "
                   "after its report")
        if record["next"] - record["ended"] < contract.backoff_s - 0.0005:
            yield f"the store gave a delay of {record['next'] - record['ended']:.3f} s after attempt {attempt}"


def early(life, contract):
    yield from early_by_handlers(life, contract)
    yield from early_by_the_store(life, contract)


# ---- No two leases of a job are valid at once ----------------------------------------------------


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
            yield (f"attempt {attempt} began {last_until - begin:.3f} s before the lease of attempt "
                   f"{last_attempt} could end")
        if until > last_until:
            last_until, last_attempt = until, attempt


# ---- Attempts are counted right ------------------------------------------------------------------


def miscounted(life, contract):
    started = max((start["attempt"] for start in life.of("start")), default=0)
    for final in life.of("final"):
        attempts, allowed = final.get("attempts", started), final.get("max_attempts")
        if attempts < started:
            yield f"{attempts} attempts in the store, {started} were started"
        if allowed and max(started, attempts) > allowed:
            yield f"{max(started, attempts)} of {allowed} attempts"
    recorded = [record["attempt"] for record in life.of("record") if record["attempt"] > 0]
    if len(set(recorded)) != len(recorded):
        yield f"an attempt is in the records twice: {recorded}"


def out_of_order(life, contract):
    """A worker that is stopped between its claim and its handler, or that a busy machine does not let go on, starts an attempt
    whose lease is over: no queue can prevent that, it can only refuse the answer. The same holds for a client, whose answer may
    be long under way."""
    lost_leases = {record["attempt"] for record in life.of("record") if record.get("error") == LEASE_LOST}
    starts = life.of("start")
    in_time = [start["attempt"] for start in starts if start["attempt"] not in lost_leases]
    if contract.punctual and in_time != sorted(in_time) and not any("interface" in start for start in starts):
        yield f"attempts out of order: {[start['attempt'] for start in starts]}"


OF_A_JOB = (lost, unfinished, undone, forgotten, never_done, duplicated, stale, phantom, changed, early, lease_overlap, miscounted, out_of_order)


# ---- Of all jobs ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Wait:
    """A job of an ordered queue, from when it was certainly ready to when it was first claimed."""

    id: str
    priority: int
    ready: float
    claimed: float  # when that claim was sent; for ever: it never was
    held: float  # when the answer had come


class Books:
    """What is kept of the lives that were judged, for the promises about all jobs."""

    def __init__(self):
        self.waits = collections.defaultdict(list)  # by ordered queue
        self.states = collections.Counter()
        self.totals = collections.Counter()
        self.said = []  # events of no job

    def add(self, life, contract):
        self.states[life.state] += 1
        self.totals.update({
            "submitted": bool(life.of("submit")), "acknowledged": bool(life.of("acknowledged")),
            "unknown": bool(life.of("submit")) and not life.of("acknowledged") and not life.of("rejected"),
            "starts": len(life.of("start")), "retries": sum(start["attempt"] > 1 for start in life.of("start")),
            "successes": bool(life.of("end:SUCCESS")), "in the store": bool(life.state), "attempts": life.final.get("attempts", 0),
            "retrying": sum(record["outcome"] == "retrying" for record in life.of("record"))})
        self.add_wait(life, contract)

    def add_wait(self, life, contract):
        """A job whose first attempt went to a client that was not heard of is left out: for a while it was not ready,
        and no event says when."""
        submit = life.of("submit")[0] if life.of("submit") else {}
        if submit.get("queue") not in contract.ordered or not life.of("acknowledged") or life.records_of(0):
            return
        start = life.of("start")[0] if life.of("start") else {"attempt": 1, "claimed": float("inf"), "mono": float("inf")}
        if start["attempt"] == 1 and "claimed" in start:
            ready = max(life.first("acknowledged"), submit.get("not_before") or 0)
            self.waits[submit["queue"]].append(Wait(life.id, submit["priority"], ready, start["claimed"], start["mono"]))


def out_of_priority(books, contract):
    """A job was claimed, though another one of a higher priority had been ready for longer than a reservation lasts, and
    stayed so for as long after it."""
    margin = contract.reserved_s + contract.slack_s
    for waits in books.waits.values():
        waits.sort(key=lambda wait: wait.ready)
        readies = [wait.ready for wait in waits]
        for taken in waits:
            if taken.held == float("inf"):
                continue
            before = waits[:bisect.bisect_left(readies, taken.claimed - margin)]
            passed = [wait for wait in before if wait.priority > taken.priority and wait.claimed > taken.held + margin]
            if passed:
                worst = max(passed, key=lambda wait: wait.priority)
                yield taken.id, (f"of priority {taken.priority}, it was claimed before {worst.id} of {worst.priority}, "
                                 f"which had been ready for {taken.claimed - worst.ready:.3f} s")


def figures(books, contract):
    """Of a store from which nothing is ever removed, so that counters can be had by counting."""
    states, totals = books.states, books.totals
    for said in books.said:
        if said["event"] != "figures":
            continue
        counters = said["counters"]
        for state, size in said["sizes"].items():
            if size != states[state]:
                yield None, f"{size} jobs {state}, there are {states[state]}"
        facts = {"jobs_received": totals["in the store"], "jobs_completed": states["completed"], "jobs_dlq": states["dead_letter"],
                 "jobs_failed": states["failed"], "jobs_started": totals["attempts"] + counters["jobs_released"],
                 "jobs_retried": totals["retrying"]}
        for name, fact in facts.items():
            if counters[name] != fact:
                yield None, f"{name} is {counters[name]}, should be {fact}"


def damaged(books, contract):
    for said in books.said:
        if said["event"] == "damaged":
            yield None, said["text"]


OF_ALL_JOBS = (out_of_priority, figures, damaged)
