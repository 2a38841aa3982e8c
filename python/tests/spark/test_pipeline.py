"""A batch from its records to the three tables, under a moving clock."""

import dataclasses
import datetime as dt

import pytest
from conftest import START, at
from delta.tables import DeltaTable
from handlers import flaky, parity
from pyspark.sql import functions as F

import redrive
from redrive.spark import RetryQueue, RetryQueueConfig

DUE = [0, 2, 6, 14, 30, 62]  # minutes: waits of 2, 4, 8, 16 and 32 after the first run


def rows_of(spark, table):
    """The rows of a table by id; times as minutes since the start."""
    frame = spark.read.format("delta").load(table)
    for name, kind in frame.dtypes:
        if kind == "timestamp":
            frame = frame.withColumn(name, (F.unix_micros(name) - F.lit(int(START.timestamp() * 1e6))) / 60e6)
    rows = [row.asDict() for row in frame.collect()]
    by_id = {row["sample_id"]: row for row in rows}
    assert len(by_id) == len(rows), f"an id is twice in {table}"
    return by_id


def everything(spark, config):
    final = rows_of(spark, config.final_table_path)
    waiting = rows_of(spark, config.retry_table_path)
    dead = rows_of(spark, config.dlq_table_path)
    assert not (final.keys() & waiting.keys() | final.keys() & dead.keys() | waiting.keys() & dead.keys())
    return final, waiting, dead


def thousand():
    kinds = [None] * 4 + ["bad"] * 3 + ["down"] * 3 + [f"flaky:{n}" for n in (1, 1, 2, 3, 4, 5)] + ["ok"] * 84
    return [(f"S-{i:04}", kinds[i % 100]) for i in range(1000)]


def test_thousand_records_end_exactly_once_and_none_early(spark, queue, config, frame):
    first = queue.process_batch(frame(thousand()), flaky, now=START)
    assert (first.new_records, first.succeeded, first.retried, first.dead) == (1000, 840, 90, 70)
    assert (first.waiting, first.next_ready_time) == (90, at(2))

    early = queue.process_batch(None, flaky, now=at(2) - dt.timedelta(microseconds=1))
    assert (early.due_records, early.waiting) == (0, 90)

    for minutes, due, succeeded in ((2, 90, 20), (6, 70, 10), (14, 60, 10), (30, 50, 10), (62, 40, 10)):
        result = queue.process_batch(None, flaky, now=at(minutes))
        assert (result.due_records, result.succeeded) == (due, succeeded), minutes
    assert (result.dead, result.waiting, result.next_ready_time) == (30, 0, None)

    final, waiting, dead = everything(spark, config)
    assert (len(final), len(waiting), len(dead)) == (900, 0, 100)
    for sample_id, payload in thousand():
        row = final.get(sample_id) or dead[sample_id]
        if payload is None:
            assert (row["error_class"], row["retry_count"], row["failed_at"]) == ("validation", 0, 0)
        elif payload == "bad":
            facts = (row["error_msg"], row["error_type"], row["error_class"], row["reason"])
            assert facts == ("ValueError: bad record", "builtins.ValueError", "validation", "not_retriable")
        elif payload == "down":
            assert (row["reason"], row["retry_count"], row["failed_at"]) == ("exhausted", 5, 62)
        else:
            retries = 0 if payload == "ok" else int(payload[6:])
            assert (row["retry_count"], row["processed_at"], row["created_at"]) == (retries, DUE[retries], 0)

    again = queue.process_batch(frame(thousand()), flaky, now=at(63))
    assert (again.new_records, again.due_records) == (0, 0)
    assert everything(spark, config) == (final, waiting, dead)
    runs = spark.read.format("delta").load(config.runs_table).orderBy("batch_id").collect()
    assert [row["batch_id"] for row in runs] == list(range(1, 9))
    assert sum(row["succeeded"] for row in runs) == 900


def test_records_that_need_no_processing(spark, queue, config):
    """A record without an id is dead, one that may not start yet waits, one that is there twice counts once."""
    columns = "sample_id string, payload string, retry_count int, process_after timestamp"
    given = [
        (None, "2", None, None),
        ("null", None, None, None),
        ("later", "4", 3, at(5)),
        ("twice", "6", 0, at(0)),
        ("twice", "6", 0, at(-1)),
    ]
    result = queue.process_batch(spark.createDataFrame(given, columns), parity, now=START)
    assert (result.new_records, result.succeeded, result.retried, result.dead) == (4, 1, 1, 2)
    final, waiting, dead = everything(spark, config)
    assert final["twice"]["result"] == "6 is even"
    assert (waiting["later"]["retry_count"], waiting["later"]["process_after"]) == (3, 5)
    assert sorted(row["error_msg"] for row in dead.values()) == ["the payload is null", "the record has no sample_id"]
    assert [row["payload"] for name, row in dead.items() if name.startswith("no-id-")] == ["2"]
    assert queue.process_batch(spark.createDataFrame(given, columns), parity, now=at(5)).succeeded == 1
    status = queue.status()
    assert (status.completed, status.waiting, status.dead, status.next_ready_time) == (2, 0, 2, None)
    assert queue.alerts(dead=1) == [f"2 dead letters (limit 1): review {config.dlq_table_path}"]


def test_ids_that_are_repeated_many_times_are_processed_once(spark, config):
    """Also where Spark would like to split the partition that they fill."""
    skew = "spark.sql.adaptive.skewJoin.skewedPartition"
    settings = {f"{skew}ThresholdInBytes": "1", f"{skew}Factor": "1", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    settings["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = "1"
    settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = "7"  # repeated ids cross the edges of Arrow batches
    before = {name: spark.conf.get(name) for name in settings}
    rows = spark.range(0, 3000, 1, 6).selectExpr("concat('S-', id % 3) AS sample_id", "'2' AS payload")
    rows = rows.union(spark.range(50).selectExpr("concat('T-', id) AS sample_id", "'2' AS payload"))
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        assert RetryQueue(spark, config).process_batch(rows, parity, now=START).succeeded == 53
        assert RetryQueue(spark, config).process_batch(rows, parity, now=START).new_records == 0
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert len(everything(spark, config)[0]) == 53


@pytest.mark.long
def test_a_policy_and_rows_of_ones_own(spark, config, frame):
    own = redrive.RetryPolicy(profile="records", delays=[60, 600], max_retries=2, jitter=False)
    more = {"policy": own, "classify": [redrive.Row("message", "bad", "rate_limited")], "max_due_per_batch": 1}
    paths = (config.retry_table_path, config.final_table_path, config.dlq_table_path)
    queue = RetryQueue(spark, RetryQueueConfig(*paths, **more))
    queue.process_batch(frame([("a", "bad"), ("b", "down")]), flaky, now=START)
    _, waiting, _ = everything(spark, config)
    assert {name: (row["error_class"], row["process_after"]) for name, row in waiting.items()} == {
        "a": ("rate_limited", 1),
        "b": ("network", 1),
    }
    assert queue.process_batch(None, flaky, now=at(1)).due_records == 1
    assert {name: row["process_after"] for name, row in everything(spark, config)[1].items()} == {"a": 11, "b": 1}


@pytest.mark.long
def test_setup_runs_once_in_each_partition_and_is_closed(spark, queue, frame, tmp_path):
    log = tmp_path / "log"
    log.mkdir()

    class Connection:
        def __init__(self):
            self.path = log / f"{id(self)}-{__import__('os').getpid()}"
            self.path.write_text("open")

        def close(self):
            self.path.write_text("closed")

    def send(record, connection):
        return "SUCCESS", connection.path.name

    result = queue.process_batch(frame([(str(n), "x") for n in range(100)]), send, setup=Connection, now=START)
    assert result.succeeded == 100
    states = [path.read_text() for path in log.iterdir()]
    assert states and set(states) == {"closed"} and len(states) <= 2


@pytest.mark.long
def test_files_do_not_grow_in_number(spark, config, frame):
    """A batch adds one file to a table; compaction joins them. `make bench-spark BATCHES=10` has the times."""
    queue = RetryQueue(spark, dataclasses.replace(config, compact_every_batches=5))
    tables = (config.retry_table_path, config.final_table_path, config.dlq_table_path, config.runs_table)
    files = []
    for n in range(5):
        rows = [(f"{n}-{i}", (["ok"] * 8 + ["flaky:1", "bad"])[i % 10]) for i in range(200)]
        queue.process_batch(frame(rows), flaky, now=at(2 * n))
        files.append([DeltaTable.forPath(spark, table).detail().collect()[0]["numFiles"] for table in tables])
    assert files[:4] == [[1, n, n, n] for n in range(1, 5)]
    assert files[4] == [1, 1, 1, 1]


@pytest.mark.parametrize("now", [dt.datetime(2030, 1, 1), "2030-01-01", 5])
def test_a_time_without_zone_is_refused(queue, now):
    with pytest.raises(redrive.InvalidArgumentError, match="hint: datetime"):
        queue.process_batch(None, flaky, now=now)
