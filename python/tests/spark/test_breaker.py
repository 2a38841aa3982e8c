"""The breaker of a queue: its state outlives a batch, and records that it holds back use no attempt."""

import dataclasses

import pytest
from conftest import START, at
from handlers import Service
from test_pipeline import everything

import redrive
from redrive.spark import RetryQueue, RetryQueueConfig
from redrive.spark.breaker import PartitionBreaker, SavedBreaker, join

NOW_US = int(START.timestamp() * 1e6)
MINUTE_US = 60_000_000
CONFIG = redrive.BreakerConfig(
    failure_threshold=5, recovery_timeout=600, recovery_multiplier=2, recovery_max=3600, recovery_jitter=0
)


CLOSED = SavedBreaker()


def after_failures(n, start=CLOSED):
    breaker = PartitionBreaker(CONFIG, start, NOW_US)
    for _ in range(n):
        breaker.record(breaker.allow(), "failure", 0.0)
    return breaker


def minutes_until_probe(state):
    return round((state.next_probe_us - NOW_US) / MINUTE_US)


def test_a_row_of_failures_goes_on_in_the_next_batch():
    assert after_failures(3).state() == SavedBreaker("closed", 3)
    state = after_failures(2, start=SavedBreaker("closed", 3)).state()
    assert (state.state, minutes_until_probe(state)) == ("open", 10)
    assert after_failures(1, start=SavedBreaker("closed", 3)).allow() is not None


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"failure_threshold": 0},
        {"failure_threshold": 0, "window_calls": 10},
        {"failure_threshold": 0, "failure_rate": 0, "slow_call": 1},
        {"half_open_rate": 0.5, "half_open_max": 4},
    ],
)
def test_a_probe_decides_whether_it_closes(rule):
    config = dataclasses.replace(CONFIG, **rule)
    for reopened, minutes in ((0, 20), (1, 40), (2, 60), (40, 60)):
        saved = SavedBreaker("open", 0, reopened, NOW_US)
        breaker = PartitionBreaker(config, saved, NOW_US)
        while (permit := breaker.allow()) is not None:
            breaker.record(permit, "failure", 0.0)
        state = breaker.state()
        assert (state.state, state.reopened, minutes_until_probe(state)) == ("open", reopened + 1, minutes)
    breaker = PartitionBreaker(config, SavedBreaker("open", 0, 3, NOW_US), NOW_US)
    for _ in range(4):
        breaker.record(breaker.allow(), "success", 0.0)
    assert breaker.state() == SavedBreaker()


def test_failures_that_are_the_records_own_do_not_open_it():
    breaker = PartitionBreaker(CONFIG, SavedBreaker(), NOW_US)
    for _ in range(20):
        breaker.record(breaker.allow(), "neutral", 0.0)
    assert breaker.state() == SavedBreaker()


def test_of_several_partitions_the_worst_counts():
    closed, open_ = SavedBreaker("closed", 3), SavedBreaker("open", 0, 1, 700)
    assert join([SavedBreaker(), closed]) == closed
    assert join([closed, open_, SavedBreaker("open", 0, 0, 900), SavedBreaker("half_open")]) == SavedBreaker(
        "open", 0, 1, 900
    )


@pytest.fixture
def service(tmp_path):
    (tmp_path / "calls").mkdir()
    return Service(tmp_path)


def calls(tmp_path):
    return len(list((tmp_path / "calls").iterdir()))


@pytest.mark.long
def test_an_open_breaker_leaves_records_waiting_without_using_an_attempt(spark, config, frame, tmp_path, service):
    paths = (config.retry_table_path, config.final_table_path, config.dlq_table_path)
    own = RetryQueueConfig(*paths, breaker=CONFIG, partitions=1)
    (tmp_path / "down").touch()

    first = RetryQueue(spark, own).process_batch(frame([(f"a{n}", "x") for n in range(20)]), service, now=START)
    assert (first.retried, first.held, first.dead, calls(tmp_path)) == (5, 15, 0, 5)
    _, waiting, _ = everything(spark, own)
    assert sorted((row["retry_count"], round(row["process_after"])) for row in waiting.values()) == (
        [(0, 10)] * 15 + [(1, 2)] * 5
    )

    # Another driver, while it is open: those that are due stay, new ones join them, null is dead as ever.
    queue = RetryQueue(spark, own)
    second = queue.process_batch(frame([("b", "x"), ("null", None)]), service, now=at(3))
    assert (second.due_records, second.held, second.dead, calls(tmp_path)) == (0, 1, 1, 5)
    assert round((second.next_ready_time - START).total_seconds() / 60) == 10
    assert (queue.status().breaker, len(queue.alerts())) == ("open", 1)

    # The probe fails: it stays open, for longer.
    third = queue.process_batch(None, service, now=at(11))
    assert (third.retried, third.held, calls(tmp_path)) == (1, 20, 6)
    assert round((third.next_ready_time - START).total_seconds() / 60) == 31

    (tmp_path / "down").unlink()
    fourth = queue.process_batch(None, service, now=at(32))
    assert (fourth.succeeded, fourth.held, fourth.waiting, queue.status().breaker) == (21, 0, 0, "closed")
    final, waiting, dead = everything(spark, own)
    assert (len(final), len(waiting), len(dead)) == (21, 0, 1)
    assert sum(row["retry_count"] for row in final.values()) == 6, "one for each call that failed"
    runs = spark.read.format("delta").load(own.runs_table).orderBy("batch_id").collect()
    assert [row["held"] for row in runs] == [15, 1, 20, 0]


@pytest.mark.long
def test_a_breaker_moved_by_hand(spark, queue, config, frame, tmp_path, service):
    with pytest.raises(redrive.InvalidArgumentError, match="has no breaker"):
        queue.trip_breaker()
    with pytest.raises(redrive.InvalidArgumentError, match="on_open='park'"):
        dataclasses.replace(config, breaker=redrive.BreakerConfig(on_open="dead_letter"))
    guarded = RetryQueue(spark, dataclasses.replace(config, breaker=CONFIG))
    guarded.trip_breaker()
    assert guarded.process_batch(frame([("a", "x")]), service, now=START).held == 1
    assert calls(tmp_path) == 0
    guarded.reset_breaker()
    assert guarded.process_batch(None, service, now=START).succeeded == 1


@pytest.mark.long
@pytest.mark.parametrize("has_outcomes", [False, True])
def test_a_breaker_tripped_during_a_batch_stays_so(spark, config, frame, service, monkeypatch, has_outcomes):
    own = dataclasses.replace(config, breaker=CONFIG)
    queue, other = RetryQueue(spark, own), RetryQueue(spark, own)
    decide = queue._decide_batch

    def trip_and_decide(*arguments):
        other.trip_breaker()
        return decide(*arguments)

    if has_outcomes:
        monkeypatch.setattr(queue, "_after_write", lambda name: other.trip_breaker() if name == "outcomes" else None)
    else:
        monkeypatch.setattr(queue, "_decide_batch", trip_and_decide)
    assert queue.process_batch(frame([("a", "x")]), service, now=START).succeeded == 1
    monkeypatch.undo()
    assert queue.status().breaker == "forced_open"
    assert queue.process_batch(frame([("b", "x")]), service, now=START).held == 1
    other.reset_breaker()
    assert queue.process_batch(None, service, now=START).succeeded == 1
    final, waiting, dead = everything(spark, own)
    assert (sorted(final), waiting, dead) == (["a", "b"], {}, {})


class Killed(BaseException):
    pass


@pytest.mark.long
def test_a_reset_is_not_undone_by_a_batch_that_is_completed_after_it(spark, config, frame, tmp_path, service):
    own = dataclasses.replace(config, breaker=CONFIG, partitions=1)
    (tmp_path / "down").touch()

    def killed_after_outcomes(name):
        if name == "outcomes":
            raise Killed

    cut = RetryQueue(spark, own)
    cut._after_write = killed_after_outcomes
    with pytest.raises(Killed):
        cut.process_batch(frame([(f"a{n}", "x") for n in range(20)]), service, now=START)
    (tmp_path / "down").unlink()
    queue = RetryQueue(spark, own)
    queue.reset_breaker()
    result = queue.process_batch(None, service, now=at(3))
    assert (result.recovered, result.due_records, result.succeeded, result.waiting) == (1, 5, 5, 15)
    assert queue.status().breaker == "closed"
