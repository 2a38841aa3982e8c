"""A driver that is killed after any write, and two drivers at once: every record ends exactly once."""

import collections
import json
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import START, at
from handlers import Noted, flaky
from test_pipeline import everything

from redrive.spark import BatchConflictError, ExecutorError, RetryQueue, RetryQueueConfig

HERE = pathlib.Path(__file__).resolve().parent
OLD = [(f"old-{i}", ["flaky:1", "down", "flaky:2", "ok", "bad"][i % 5]) for i in range(50)]
NEW = [(f"new-{i}", ["ok", "down", None, "flaky:1"][i % 4]) for i in range(40)]


def queue_in(spark, folder):
    names = ("retry_queue", "final_results", "dead_letter_queue")
    return RetryQueue(spark, RetryQueueConfig(*(f"{folder}/{name}" for name in names)))


@pytest.fixture(scope="module")
def half_way(spark, tmp_path_factory):
    """A folder with a queue after its first batch, and the records of the second."""
    folder = tmp_path_factory.mktemp("half") / "queue"
    (folder / "calls").mkdir(parents=True)
    columns = "sample_id string, payload string"
    first = queue_in(spark, folder).process_batch(
        spark.createDataFrame(OLD, columns), Noted(folder / "calls"), now=START
    )
    assert (first.succeeded, first.retried, first.dead) == (10, 30, 10)
    lines = [json.dumps({"sample_id": name, "payload": payload}) for name, payload in NEW]
    (folder / "new.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture
def folder(half_way, tmp_path):
    shutil.copytree(half_way, tmp_path / "queue")
    return tmp_path / "queue"


def second_batch(spark, folder):
    new = spark.read.schema("sample_id string, payload string").json(f"{folder}/new.jsonl")
    return queue_in(spark, folder).process_batch(new, Noted(folder / "calls"), now=at(2))


def facts(spark, folder):
    """What must not depend on crashes: where each record is, after how many retries, and when it is due."""
    found = everything(spark, queue_in(spark, folder).config)
    return [
        {name: (row["retry_count"], row.get("process_after"), row["batch_id"]) for name, row in rows.items()}
        for rows in found
    ]


@pytest.fixture(scope="module")
def expected(spark, half_way, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "queue"
    shutil.copytree(half_way, folder)
    second_batch(spark, folder)
    return facts(spark, folder)


WRITES = ("outcomes", "success", "dead", "waiting", "runs")


def calls_in(folder):
    """How often each record was called with each number of retries."""
    return collections.Counter(path.name.rsplit(".", 1)[0] for path in (folder / "calls").iterdir())


class Cut(BaseException):
    """Ends a batch where it stands, without a process to start and to kill."""


@pytest.mark.parametrize("write", WRITES)
def test_a_batch_that_is_cut_short_loses_and_repeats_nothing(spark, folder, expected, write):
    def cut():
        raise Cut

    queue = hooked(queue_in(spark, folder), write, cut)
    queue._writers = 1  # in order: the writes that follow are not done
    new = spark.read.schema("sample_id string, payload string").json(f"{folder}/new.jsonl")
    with pytest.raises(Cut):
        queue.process_batch(new, Noted(folder / "calls"), now=at(2))
    check_second_batch(spark, folder, expected, write)


# Each of these starts a JVM. The one that is always run is killed after the write that decides a batch.
@pytest.mark.parametrize(
    "write", [pytest.param(write, marks=[] if write == "success" else pytest.mark.long) for write in WRITES]
)
def test_a_killed_driver_loses_and_repeats_nothing(spark, folder, expected, write):
    command = [sys.executable, str(HERE / "crash_driver.py"), str(folder), write, "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    check_second_batch(spark, folder, expected, write)


def check_second_batch(spark, folder, expected, write):
    """The second batch, which was cut off after the given write, is run again."""
    before = calls_in(folder)
    result = second_batch(spark, folder)
    if write == "outcomes":
        # The results were not written: nothing has happened. The batch is run again, under the next number.
        assert (result.batch_id, result.recovered) == (3, None)
        assert (result.new_records, result.due_records) == (40, 30)
        assert facts(spark, folder) == renumbered(expected, 2, 3)
        assert set(calls_in(folder).values()) == {1, 2}
    else:
        assert result.recovered == (None if write == "runs" else 2)
        assert (result.new_records, result.due_records) == (0, 0)
        assert facts(spark, folder) == expected
        assert calls_in(folder) == before, "the batch was decided: no record runs again"
        assert set(before.values()) == {1}


def renumbered(found, old, new):
    return [{name: (*row[:2], new if row[2] == old else row[2]) for name, row in rows.items()} for rows in found]


def test_of_two_drivers_at_once_one_is_refused(spark, folder, expected):
    late = queue_in(spark, folder)
    catch_up = late._catch_up

    def catch_up_and_wait():
        answer = catch_up()
        second_batch(spark, folder)  # the other driver, from its begin to its end
        return answer

    late._catch_up = catch_up_and_wait
    with pytest.raises(BatchConflictError, match="nothing of this batch was written"):
        one = spark.createDataFrame([("x", "ok")], "sample_id string, payload string")
        late.process_batch(one, flaky, now=at(2))
    assert facts(spark, folder) == expected


def hooked(queue, write, function):
    """Calls a function once, after the given write of the queue."""

    def after_write(name):
        if name == write:
            queue._after_write = lambda name: None
            function()

    queue._after_write = after_write
    return queue


@pytest.mark.long
def test_a_driver_that_has_slept_over_its_number_changes_nothing(spark, folder, expected):
    """It has written the outcomes of batch 2 and then slept. Another one could not know that it was alive."""
    slow = hooked(queue_in(spark, folder), "outcomes", lambda: second_batch(spark, folder))
    one = spark.createDataFrame([("x", "ok")], "sample_id string, payload string")
    with pytest.raises(BatchConflictError, match="nothing of this batch was written"):
        slow.process_batch(one, flaky, now=at(2))
    assert facts(spark, folder) == renumbered(expected, 2, 3)


def test_records_that_are_processed_again_between_two_writes_stop_the_batch(spark, folder, expected):
    """What an executor kept is lost with it. The second run could come to other outcomes than those written."""
    queue = hooked(queue_in(spark, folder), "outcomes", spark.catalog.clearCache)
    new = spark.read.schema("sample_id string, payload string").json(f"{folder}/new.jsonl")
    before = facts(spark, folder)
    with pytest.raises(ExecutorError, match="died between two writes of a batch\nhint: nothing of the batch counts"):
        queue.process_batch(new, flaky, now=at(2))
    assert facts(spark, folder) == before
    queue.process_batch(new, flaky, now=at(2))
    assert facts(spark, folder) == renumbered(expected, 2, 3)


@pytest.mark.long
def test_a_driver_that_comes_back_late_changes_nothing(spark, folder):
    """It has decided batch 2 and then slept, while another one carried out batches 2 and 3."""

    def others():
        second_batch(spark, folder)
        queue_in(spark, folder).process_batch(None, flaky, now=at(6))

    slow = hooked(queue_in(spark, folder), "success", others)
    new = spark.read.schema("sample_id string, payload string").json(f"{folder}/new.jsonl")
    slow.process_batch(new, flaky, now=at(2))
    final, waiting, dead = facts(spark, folder)
    assert (len(final), len(waiting), len(dead)) == (50, 20, 20)
    assert {row[1] for row in waiting.values()} == {14, 10}
