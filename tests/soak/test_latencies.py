"""The latencies of a soak, as the events tell them."""
from tests.judge.promises import Contract
from tests.soak.latencies import TimedJudge


def test_latencies_are_taken_once():
    judge = TimedJudge(Contract())
    judge.feed([{"event": kind, "id": "a", "mono": at, "attempt": 1} for kind, at in (("submit", 0.0), ("acknowledged", 0.1), ("start", 0.4))])
    taken = judge.take_latencies()
    assert [round(s, 3) for s in taken.submit + taken.start] == [0.1, 0.3]
    assert judge.take_latencies().submit == []
