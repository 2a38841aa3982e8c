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

from redrive.spark import BatchConflictError, RetryQueue, RetryQueueConfig

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


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "write",
    ["outcomes", "waiting", *(pytest.param(write, marks=LONG) for write in ("success", "dead", "runs"))],
)
def test_a_killed_driver_loses_and_repeats_nothing(spark, folder, expected, write):
    command = [sys.executable, str(HERE / "crash_driver.py"), str(folder), write, "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]

    result = second_batch(spark, folder)
    assert result.recovered == (None if write == "runs" else 2)
    assert (result.new_records, result.due_records) == (0, 0), "the batch was decided: no record runs again"
    assert facts(spark, folder) == expected
    calls = collections.Counter(path.name.rsplit(".", 1)[0] for path in (folder / "calls").iterdir())
    assert set(calls.values()) == {1}


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


@pytest.mark.long
def test_a_driver_that_comes_back_late_changes_nothing(spark, folder):
    """It has decided batch 2 and then slept, while another one carried out batches 2 and 3."""
    slow = queue_in(spark, folder)

    def sleep(name):
        if name == "outcomes":
            slow._after_write = lambda name: None
            second_batch(spark, folder)
            queue_in(spark, folder).process_batch(None, flaky, now=at(6))

    slow._after_write = sleep
    new = spark.read.schema("sample_id string, payload string").json(f"{folder}/new.jsonl")
    slow.process_batch(new, flaky, now=at(2))
    final, waiting, dead = facts(spark, folder)
    assert (len(final), len(waiting), len(dead)) == (50, 20, 20)
    assert {row[1] for row in waiting.values()} == {14, 10}
