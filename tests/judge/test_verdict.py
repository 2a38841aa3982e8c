"""A judge who is fed as jobs end sees what one sees who is given the whole history, and forgets what has ended."""
import json

from tests.judge.events import Follower
from tests.judge.promises import Contract
from tests.judge.verdict import Judge
from tests.judge.wallclock import Offsets

KEPT = Contract(removed=frozenset({"completed"}))


def job(job_id, at, end="SUCCESS"):
    return [{"event": "submit", "id": job_id, "mono": at}, {"event": "acknowledged", "id": job_id, "mono": at + 0.1},
            {"event": "start", "id": job_id, "mono": at + 0.4, "attempt": 1},
            {"event": f"end:{end}", "id": job_id, "mono": at + 0.5, "attempt": 1}]


def test_ended_jobs_are_judged_and_forgotten():
    judge = Judge(KEPT)
    judge.feed(job("a", 0.0) + job("b", 9.0))
    judge.drop_before(5.0)
    assert list(judge.lives) == ["b"]
    judge.finish(lambda job_id: None)
    assert judge.complaints == [] and judge.counts["start"] == 2


def test_job_that_was_forgotten_and_runs_again_is_a_complaint():
    judge = Judge(KEPT)
    judge.feed(job("a", 0.0))
    judge.drop_before(5.0)
    judge.feed([{"event": "start", "id": "a", "mono": 20.0, "attempt": 2}])
    judge.finish(lambda job_id: None)
    assert [found.kind for found in judge.complaints] == ["phantom"]
    assert [line.split()[1:] for line in judge.stories["a"]] == [["start", "attempt=2"]]


def test_acknowledged_job_that_is_nowhere_in_the_end_is_lost():
    judge = Judge(KEPT)
    judge.feed(job("a", 0.0)[:2] + job("b", 0.0)[:2] + job("c", 0.0)[:2])
    judge.drop_before(5.0)
    judge.finish({"b": {"state": "dead_letter"}, "c": {"state": "queued"}}.get)
    assert [(found.kind, found.id) for found in judge.complaints] == [("lost", "a"), ("unfinished", "c")]


def test_logs_are_followed_and_given_back(tmp_path):
    log, follower = tmp_path / "one.log", Follower(tmp_path)
    lines = [json.dumps(event) + "\n" for event in job("a", 0.0)]
    log.write_text(lines[0] + lines[1][:5])
    assert [event["event"] for event in follower.read()] == ["submit"], "half a line is read when it is whole"
    follower.free()
    with open(log, "a", encoding="utf-8") as more:
        more.write(lines[1][5:] + lines[2])
    assert [event["event"] for event in follower.read()] == ["acknowledged", "start"]


def test_dead_letter_that_may_be_purged_is_forgotten():
    judge = Judge(Contract(removed=frozenset({"completed", "dead_letter"}), attempts=2))
    again = [{"event": "start", "id": "b", "mono": 1.0, "attempt": 2}, {"event": "end:TRANSIENT_FAIL", "id": "b", "mono": 1.1, "attempt": 2}]
    judge.feed(job("a", 0.0, "PERMANENT_FAIL") + job("b", 0.0, "TRANSIENT_FAIL") + again + job("c", 0.0, "TRANSIENT_FAIL"))
    refused = {"event": "refused", "id": "d", "mono": 0.6, "attempt": 1, "status": "PERMANENT_FAIL"}
    judge.feed([*job("d", 0.0, "PERMANENT_FAIL"), refused])
    judge.drop_before(5.0)
    assert list(judge.lives) == ["c", "d"], "one has an attempt left, the other waits for its next one"
    assert judge.complaints == []


def locked(job_id, at, lock, waited):
    events = job(job_id, at)
    events[0]["not_before"] = at + lock
    for event in events[2:]:
        event["mono"] += waited - 0.4
    return events


def test_start_is_early_but_for_what_the_clock_was_set_by():
    offsets = Offsets()
    offsets.note(0.0, 100.0)
    offsets.note(10.1, 100.25)
    judge = Judge(KEPT, offsets.moved)
    judge.feed(locked("still", 5.0, 0.4, 0.3) + locked("set", 10.0, 0.4, 0.16) + locked("more", 10.0, 0.4, 0.1))
    judge.drop_before(20.0)
    assert [(found.kind, found.id) for found in judge.complaints] == [("early", "still"), ("early", "more")]
    assert judge.excused == 1 and [found.at for found in judge.complaints] == [5.4, 10.2]
