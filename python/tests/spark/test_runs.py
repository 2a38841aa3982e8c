"""What is kept of each batch, and what is done after it."""

import dataclasses
import datetime as dt
import logging

import pytest
from conftest import START, at
from delta.tables import DeltaOptimizeBuilder, DeltaTable
from handlers import flaky
from pyspark.sql import types as T
from test_pipeline import everything

from redrive.spark import RetryQueue, TableError, tables

GIVEN = [("a", "ok"), ("b", "ok"), ("c", "ok"), ("d", "down"), ("e", "bad")]


def runs_of(spark, config):
    return spark.read.format("delta").load(config.runs_table).orderBy("batch_id").collect()


def test_the_success_rate_and_the_duration_are_in_the_result_and_in_the_runs(spark, queue, config, frame):
    results = [queue.process_batch(frame(GIVEN), flaky, now=START), queue.process_batch(None, flaky, now=START)]
    assert [result.success_rate for result in results] == [0.6, None]
    assert all(result.duration == dt.timedelta(seconds=result.seconds) > dt.timedelta() for result in results)
    rows = [(row["success_rate"], row["seconds"]) for row in runs_of(spark, config)]
    assert rows == [(result.success_rate, result.seconds) for result in results]


def test_a_table_of_runs_of_an_earlier_version_gets_the_new_columns(spark, queue, config, frame):
    old = T.StructType([field for field in tables.RUNS.fields if field.name not in tables.RUNS_ADDED])
    assert len(old) == len(tables.RUNS) - 1
    tables.create(spark, config.runs_table, old, {"redrive.queue_id": "a"})
    row = [{"batch_id": 7, "succeeded": 3, "seconds": 1.5}]
    spark.createDataFrame(row, old).write.format("delta").mode("append").save(config.runs_table)
    assert queue.process_batch(frame(GIVEN), flaky, now=START).batch_id == 8
    before, after = runs_of(spark, config)
    assert (before["succeeded"], before["seconds"], before["success_rate"]) == (3, 1.5, None)
    assert (after["succeeded"], after["success_rate"]) == (3, 0.6)


def test_other_columns_must_be_there(spark, queue, config):
    old = T.StructType([field for field in tables.RUNS.fields if field.name != "held"])
    tables.create(spark, config.runs_table, old, {"redrive.queue_id": "a"})
    with pytest.raises(TableError, match="no column held"):
        queue.process_batch(None, flaky, now=START)


@pytest.fixture
def compactions(monkeypatch):
    """Whether compactions are to fail; and how many files each of them has found."""
    asked = {"fails": False, "n": 0}
    compact = DeltaOptimizeBuilder.executeCompaction

    def execute(self):
        asked["n"] += 1
        if asked["fails"]:
            raise RuntimeError("no space left on device\nat some line")
        return compact(self)

    monkeypatch.setattr(DeltaOptimizeBuilder, "executeCompaction", execute)
    return asked


def files_of(spark, config):
    return DeltaTable.forPath(spark, config.runs_table).detail().collect()[0]["numFiles"]


def test_a_compaction_that_fails_is_no_failure_of_the_batch_and_is_tried_again(
    spark, config, frame, compactions, caplog
):
    config = dataclasses.replace(config, compact_every_batches=2)
    queue = RetryQueue(spark, config)
    results = [queue.process_batch(frame(GIVEN), flaky, now=START)]
    compactions["fails"] = True
    with caplog.at_level(logging.WARNING, "redrive.spark"):
        results += [queue.process_batch(frame([("f", "ok")]), flaky, now=START)]
    assert [result.maintenance_error for result in results] == [None, "no space left on device"]
    assert [(one.message, one.batch_id, one.error) for one in caplog.records] == [
        ("maintenance_failed", 2, "no space left on device")
    ]
    assert compactions["n"] == 3, "the tables do not wait for each other"
    assert [sorted(rows) for rows in everything(spark, config)] == [["a", "b", "c", "f"], ["d"], ["e"]]
    with pytest.raises(RuntimeError, match="no space"):
        queue.maintain()
    # The next batch tries it again, also one of another driver.
    for again in (queue, RetryQueue(spark, config)):
        assert again.process_batch(None, flaky, now=START).maintenance_error == "no space left on device"
    compactions["fails"] = False
    assert files_of(spark, config) == 4
    assert RetryQueue(spark, config).process_batch(None, flaky, now=START).maintenance_error is None
    assert files_of(spark, config) == 1
    compactions["n"] = 0
    RetryQueue(spark, dataclasses.replace(config, compact_every_batches=4)).process_batch(None, flaky, now=at(0))
    assert compactions["n"] == 0, "nothing was missed"
