"""Dead letters that are put back into the queue."""

import dataclasses

import pytest
from conftest import START, at
from handlers import flaky, parity
from test_pipeline import everything, rows_of

import redrive
from redrive.spark import RetryQueue

GIVEN = [("odd", "1"), ("even", "2"), ("word", "three"), ("null", None)]


@pytest.fixture
def with_dead(queue, frame):
    assert queue.process_batch(frame(GIVEN), parity, now=START).dead == 3
    return queue


def places(spark, config):
    return [sorted(rows) for rows in everything(spark, config)]


@pytest.mark.long
def test_dead_letters_run_again_with_all_their_retries(spark, with_dead, config):
    result = with_dead.redrive("error_msg = 'odd'", now=at(5))
    assert (result.redriven, result.new_records, result.due_records, result.waiting) == (1, 0, 0, 1)
    assert places(spark, config) == [["even"], ["odd"], ["null", "word"]]
    waiting = everything(spark, config)[1]["odd"]
    assert (waiting["retry_count"], waiting["process_after"], waiting["created_at"]) == (0, 5, 0)
    assert with_dead.process_batch(None, lambda record: "SUCCESS", now=at(5)).succeeded == 1
    assert places(spark, config) == [["even", "odd"], [], ["null", "word"]]


@pytest.mark.parametrize(
    "choice", [{}, {"payload": "'8'"}, {"all": False}, {"where": "true", "all": True}, {"where": "true", "ids": ["a"]}]
)
def test_a_redrive_says_which_dead_letters_it_is_for(queue, choice):
    with pytest.raises(redrive.InvalidArgumentError, match="where, ids and all") as caught:
        queue.redrive(**choice)
    assert "all=True" in caught.value.hint
    with pytest.raises(redrive.InvalidArgumentError, match="ids is a text"):
        queue.redrive(ids="odd")


@pytest.mark.long
def test_dead_letters_are_chosen_by_their_ids(spark, with_dead, config):
    assert with_dead.redrive(ids=[], now=at(5)).redriven == 0
    assert with_dead.redrive(ids=(name for name in ("word", "even", "none")), now=at(5)).redriven == 1
    assert places(spark, config) == [["even"], ["word"], ["null", "odd"]]


@pytest.mark.long
def test_payloads_are_mended_on_the_way(spark, with_dead, config):
    assert with_dead.redrive(all=True, now=at(5)).redriven == 2, "what is null would only die again"
    assert with_dead.process_batch(None, parity, now=at(5)).dead == 2
    assert with_dead.redrive("error_class = 'validation'", payload="coalesce(payload, '8')", now=at(6)).redriven == 2
    result = with_dead.process_batch(None, parity, now=at(6))
    assert (result.succeeded, result.dead) == (1, 1)
    assert places(spark, config) == [["even", "null"], [], ["odd", "word"]]
    with pytest.raises(redrive.InvalidArgumentError, match="SQL over the columns sample_id"):
        with_dead.redrive("colour = 'red'")


@pytest.mark.long
def test_an_id_that_has_died_twice_or_waits_already_is_redriven_once(spark, config, frame):
    queue = RetryQueue(spark, dataclasses.replace(config, known_ids_days=1))
    later = 2 * 24 * 60
    assert queue.process_batch(frame([("twice", "bad"), ("waits", "bad")]), flaky, now=START).dead == 2
    again = queue.process_batch(frame([("twice", "bad"), ("waits", "down")]), flaky, now=at(later))
    assert (again.dead, again.retried) == (1, 1)

    assert queue.redrive(all=True, payload="'ok'", now=at(later)).redriven == 1
    assert list(rows_of(spark, config.dlq_table_path)) == ["waits"]
    waiting = rows_of(spark, config.retry_table_path)
    assert {name: row["payload"] for name, row in waiting.items()} == {"twice": "ok", "waits": "down"}
    assert waiting["twice"]["created_at"] == later, "the latest of two"

    for minutes, succeeded in ((2, 1), (6, 0)):
        result = queue.process_batch(None, flaky, now=at(later + minutes))
        assert (result.succeeded, result.retried, result.waiting) == (succeeded, 1, 1)
    assert list(rows_of(spark, config.final_table_path)) == ["twice"]


@pytest.mark.long
def test_a_later_dead_letter_that_is_not_chosen_stays(spark, config, frame):
    queue = RetryQueue(spark, dataclasses.replace(config, known_ids_days=1))
    later = 2 * 24 * 60
    for minutes in (0, later):
        assert queue.process_batch(frame([("a", "bad")]), flaky, now=at(minutes)).dead == 1
    assert queue.redrive("batch_id = 1", payload="'ok'", now=at(later)).redriven == 1
    assert rows_of(spark, config.dlq_table_path)["a"]["created_at"] == later
    assert rows_of(spark, config.retry_table_path)["a"]["created_at"] == 0
    assert queue.process_batch(None, flaky, now=at(later)).succeeded == 1


class Killed(BaseException):
    pass


@pytest.mark.long
def test_a_redrive_that_is_cut_short_is_completed_by_the_next_batch(spark, queue, config, frame):
    writes = ["outcomes", "waiting", "redriven", "runs"]
    queue.process_batch(frame([(write, "bad") for write in writes]), flaky, now=START)

    def cut_after(write):
        def after_write(name):
            if name == write:
                raise Killed

        return after_write

    for done, write in enumerate(writes, 1):
        cut = RetryQueue(spark, config)
        cut._writers = 1
        cut._after_write = cut_after(write)
        with pytest.raises(Killed):
            cut.redrive(f"sample_id = '{write}'", now=at(5))
        result = queue.process_batch(None, flaky, now=START)
        assert result.recovered == (None if write == "runs" else 2 * done), write
        assert places(spark, config) == [[], sorted(writes[:done]), sorted(writes[done:])]
