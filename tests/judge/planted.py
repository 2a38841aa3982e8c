"""planted.py - bugs that are planted in a history, for each promise at least one: a judge that finds nothing has to be shown to look.

A bug looks for a job to which it can be done, so that the histories of real runs serve as well as a small one (test_planted.py).
"""
import dataclasses
import typing

from tests.judge.events import Life, in_order
from tests.judge.promises import ENDED, LEASE_LOST, was_taken


class Spoilt:
    """A copy of a history, to which things are done."""

    def __init__(self, history, contract):
        self.history = [{name: dict(fact) if isinstance(fact, dict) else fact for name, fact in event.items()} for event in history]
        self.contract = contract
        self.lives = {}
        for event in in_order(self.history):
            if event["id"] is not None:
                self.lives.setdefault(event["id"], Life(event["id"])).add(event)

    # ---- What it can be done to ------------------------------------------------------------------

    def pick(self, is_fit):
        return next(life for life in self.lives.values() if is_fit(life))

    def kept(self):
        """The store's word on a job that was run."""
        return self.pick(lambda life: life.state and life.of("acknowledged") and life.of("start")).final

    def started(self, *facts):
        """The submit, which has these facts, and the first start of a job."""
        def is_fit(life):
            submit, starts = life.of("submit")[:1], life.of("start")
            return (submit and all(submit[0].get(fact) is not None for fact in facts) and starts and starts[0]["attempt"] == 1
                    and life.of("acknowledged") and not life.of("gone") and not life.records_of(0))

        life = self.pick(is_fit)
        return life.of("submit")[0], life.of("start")[0]

    def recorded(self, *outcomes):
        """The records of a job of which the last has one of these outcomes."""
        return self.pick(lambda life: life.of("record") and life.of("record")[-1]["outcome"] in outcomes).of("record")

    def figures(self):
        return next(event for event in self.history if event["event"] == "figures")

    def winner(self):
        """The last start of a job, the report and the settlement of its success. A client had claimed it, and was answered soon."""
        for life in self.lives.values():
            for settled in life.successes() if life.state == "completed" else ():
                start, end = life.of("start")[-1], life.of("end:SUCCESS")[-1]
                if start["mono"] < start.get("claimed", 0) + start.get("lease", 0) / 2 and start["attempt"] == end["attempt"] == settled["attempt"]:
                    return start, end, settled
        raise LookupError("no client has completed a job")

    def retried(self):
        """The record of a failure that was certainly taken, the report of that and the next start."""
        for life in self.lives.values():
            for record in life.of("record"):
                ends = [end for end in life.ends if end["attempt"] == record["attempt"] and end["event"] != "end:SUCCESS"]
                starts = [start for start in life.of("start") if start["attempt"] == record["attempt"] + 1]
                if record["outcome"] == "retrying" and record["error"] != LEASE_LOST and ends and starts and was_taken(life, record["attempt"]):
                    return record, ends[0], starts[0]
        raise LookupError("no job was retried")

    # ---- What can be done ------------------------------------------------------------------------

    def add(self, like, **facts):
        self.history.append({**like, **facts})

    def start(self, like, at, more=1):
        """So many attempts after this start."""
        self.add(like, attempt=like["attempt"] + more, mono=at, **({"claimed": at} if "claimed" in like else {}))

    def remove(self, job_id, *kinds):
        self.history = [event for event in self.history if event["id"] != job_id or event["event"] not in kinds]

    def promise(self, **facts):
        self.contract = dataclasses.replace(self.contract, **facts)

    def forget_a_failure(self):
        self.promise(recorded=True)
        self.remove(self.pick(lambda life: life.of("record") and any(said["status"] != "SUCCESS" for said in life.of("settled"))).id, "record")

    def hand_out_under_a_lease(self):
        start, _, _ = self.winner()
        self.remove(start["id"], "end:SUCCESS", "settled")
        self.start(start, (start["mono"] + start["claimed"] + start["lease"]) / 2)

    def swap_attempts(self):
        """An attempt that has lost its lease may come late, also one whose handler never heard of it: these come after all of them."""
        self.promise(punctual=True)
        life = self.pick(lambda life: life.of("start") and not any("interface" in start for start in life.of("start")))
        start = life.of("start")[-1]
        behind = max(event["attempt"] for event in life.of("start") + life.of("record")) - start["attempt"]
        self.start(start, start["mono"] + 10, behind + 2)
        self.start(start, start["mono"] + 20, behind + 1)

    def pass_a_job_by(self):
        """It comes in long before another one of its queue is claimed, and is claimed long after that."""
        submit, start = self.started("priority")
        self.promise(ordered=frozenset({submit["queue"]}))
        before, after = start["claimed"] - self.contract.reserved_s - 1, start["mono"] + self.contract.reserved_s + 1
        self.add(submit, id="passed by", mono=before - 0.1, not_before=None, priority=submit["priority"] + 1)
        self.add(submit, id="passed by", mono=before, event="acknowledged")
        self.add(start, id="passed by", mono=after, claimed=after)


@dataclasses.dataclass(frozen=True)
class Bug:
    name: str
    kind: str  # of the complaint that it must bring
    act: typing.Callable

    def plant(self, history, contract):
        """Another history and its contract."""
        spoilt = Spoilt(history, contract)
        self.act(spoilt)
        return spoilt.history, spoilt.contract


NEVER = 1e12  # later than any time of a history

BUGS = [
    Bug("forget a job", "lost", lambda spoilt: spoilt.remove(spoilt.kept()["id"], "final", "record")),
    Bug("leave a job", "unfinished", lambda spoilt: spoilt.kept().update(state="queued")),
    Bug("undo a success", "undone", lambda spoilt: spoilt.lives[spoilt.winner()[0]["id"]].final.update(state="dead_letter")),
    Bug("end otherwise than recorded", "undone", lambda spoilt: spoilt.recorded("completed")[-1].update(outcome="failed")),
    Bug("forget a failure", "forgotten", Spoilt.forget_a_failure),
    Bug("complete without work", "never done", lambda spoilt: spoilt.remove(spoilt.winner()[0]["id"], "end:SUCCESS")),
    Bug("acknowledge two winners", "duplicated", lambda spoilt: spoilt.add(spoilt.winner()[2], token="another")),
    Bug("run after the success", "duplicated", lambda spoilt: spoilt.start(spoilt.winner()[0], NEVER)),
    Bug("start an attempt twice", "duplicated", lambda spoilt: spoilt.start(spoilt.started()[1], NEVER, 0)),
    Bug("keep a job twice", "duplicated", lambda spoilt: spoilt.add(spoilt.kept())),
    Bug("end twice", "duplicated", lambda spoilt: spoilt.add(spoilt.recorded(*ENDED)[-1], attempt=0)),
    Bug("go on after the end", "duplicated", lambda spoilt: spoilt.add(spoilt.recorded(*ENDED)[-1], attempt=0, outcome="queued")),
    Bug("take an answer too late", "stale", lambda spoilt: spoilt.start(spoilt.winner()[0], spoilt.winner()[1]["mono"] - 1e-5)),
    Bug("invent a job", "phantom", lambda spoilt: spoilt.add(spoilt.kept(), id="invented")),
    Bug("run a rejected job", "phantom", lambda spoilt: spoilt.lives[spoilt.kept()["id"]].of("acknowledged")[0].update(event="rejected")),
    Bug("run before the submit", "phantom", lambda spoilt: spoilt.started()[0].update(mono=NEVER)),
    Bug("change a payload", "changed", lambda spoilt: spoilt.started("payload")[1].update(payload="another")),
    Bug("open a time lock", "early", lambda spoilt: spoilt.started("not_before")[0].update(not_before=NEVER)),
    Bug("retry at once", "early", lambda spoilt: spoilt.retried()[2].update(mono=spoilt.retried()[1]["mono"] + 0.001)),
    Bug("start before the time of the store", "early", lambda spoilt: spoilt.retried()[0].update(next=NEVER)),
    Bug("shorten a delay", "early", lambda spoilt: spoilt.retried()[0].update(ended=NEVER)),
    Bug("count a delay from long ago", "early", lambda spoilt: spoilt.retried()[0].update(ended=0.0, next=spoilt.contract.backoff_s)),
    Bug("hand out under a lease", "lease overlap", Spoilt.hand_out_under_a_lease),
    Bug("give an attempt back", "miscounted", lambda spoilt: spoilt.kept().update(attempts=0)),
    Bug("try too often", "miscounted", lambda spoilt: spoilt.kept().update(attempts=1000)),
    Bug("record an attempt twice", "miscounted", lambda spoilt: spoilt.add(spoilt.retried()[0])),
    Bug("swap attempts", "out of order", Spoilt.swap_attempts),
    Bug("pass a job by", "out of priority", Spoilt.pass_a_job_by),
    Bug("count a job twice", "figures", lambda spoilt: spoilt.figures()["counters"].update(jobs_completed=-1)),
    Bug("miscount a state", "figures", lambda spoilt: spoilt.figures()["sizes"].update(completed=-1)),
    Bug("damage the store", "damaged", lambda spoilt: spoilt.add(spoilt.figures(), event="damaged", text="a page is broken")),
]
