"""What callers get wrong: a clear exception with a hint, and no record lost or charged."""

import subprocess
import sys
import threading

import handlers
import pyarrow as pa
import pytest
from cluster_driver import VICTIMS
from conftest import HERE, START
from handlers import flaky, parity
from test_pipeline import everything

import redrive
from redrive.failure import Classifier
from redrive.spark import ExecutorError, HandlerError, RetryQueue, RetryQueueConfig, TableError
from redrive.spark.worker import INPUT_COLUMNS, Partition, Report

LOCK = threading.Lock()


async def coroutine(record):
    return "SUCCESS"


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda record, lock=LOCK: lock, HandlerError, "hint: it refers to something that cannot be pickled"),
        ("parity", redrive.InvalidArgumentError, "process_record is not a function"),
        (lambda: None, redrive.InvalidArgumentError, "hint: process_record"),
        (coroutine, redrive.InvalidArgumentError, "coroutine"),
    ],
)
def test_functions_that_cannot_be_sent(queue, function, error, words):
    with pytest.raises(error, match=words):
        queue.process_batch(None, function, now=START)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("sample_id string", "no column payload"),
        ("id string, payload string", "no column sample_id"),
        ("sample_id long, payload string", "sample_id is bigint, not string"),
        ("sample_id string, payload struct<a:int>", "hint: .*to_json"),
        ("sample_id string, payload string, retry_count long", "retry_count is bigint, not int"),
        ("sample_id string, payload string, colour string", "put it into the payload"),
    ],
)
def test_records_with_wrong_columns(spark, queue, columns, words):
    with pytest.raises(redrive.InvalidArgumentError, match=words):
        queue.process_batch(spark.createDataFrame([], columns), parity, now=START)


def test_records_that_are_no_frame(queue):
    with pytest.raises(redrive.InvalidArgumentError, match="give a DataFrame"):
        queue.process_batch([("a", "1")], parity, now=START)


def only_the_driver_has_it(record):
    return "SUCCESS"


@pytest.mark.long
def test_a_batch_that_stops_changes_nothing(spark, queue, config, frame):
    given = frame([(str(n), "ok") for n in range(10)])
    for function, setup, error, words in (
        (handlers.returns_a_number, None, HandlerError, "returned 5\nhint: return"),
        (handlers.returns_an_object, None, HandlerError, "json.dumps"),
        (handlers.imports_what_is_not_there, None, HandlerError, "cannot run: ModuleNotFoundError"),
        (handlers.with_resource, handlers.fails, HandlerError, "setup failed: builtins.ConnectionError"),
        (only_the_driver_has_it, None, HandlerError, "cannot import test_bad_input"),
        (handlers.dies, None, ExecutorError, "hint: no record was charged"),
    ):
        with pytest.raises(error) as caught:
            queue.process_batch(given, function, setup=setup, now=START)
        assert words in str(caught.value)
    assert [len(rows) for rows in everything(spark, config)] == [0, 0, 0]
    assert queue.process_batch(given, flaky, now=START).succeeded == 10


def test_a_table_of_another_schema_is_refused_and_left_alone(spark, config, tmp_path):
    spark.range(3).write.format("delta").save(config.dlq_table_path)
    with pytest.raises(TableError, match="no column sample_id string") as caught:
        RetryQueue(spark, config).process_batch(None, parity, now=START)
    assert "hint: give another path" in str(caught.value)
    assert spark.read.format("delta").load(config.dlq_table_path).count() == 3
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "notes.txt").write_text("not a table")
    other = RetryQueueConfig(f"{tmp_path}/file", f"{tmp_path}/a", f"{tmp_path}/b")
    with pytest.raises(TableError, match="cannot be used"):
        RetryQueue(spark, other).initialize_tables()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"final_results": ""}, "final_table_path is empty"),
        ({"final_results": "/q/retry/"}, "two of the three tables are the same"),
        ({"retry_quue": "/x"}, "did you mean retry_queue"),
    ],
)
def test_paths_that_cannot_be_meant(change, words):
    paths = {"retry_queue": "/q/retry", "final_results": "/q/final", "dead_letter_queue": "/q/dead"}
    with pytest.raises(redrive.InvalidArgumentError, match=words):
        RetryQueueConfig.from_dict({"paths": {**paths, **change}})


@pytest.mark.parametrize("retry", [{"max_retries": -1}, {"max_retries": True}, {"base_backoff_minutes": 0}])
def test_numbers_that_cannot_be_meant(retry):
    paths = {"retry_queue": "/q/retry", "final_results": "/q/final", "dead_letter_queue": "/q/dead"}
    with pytest.raises(redrive.InvalidArgumentError):
        RetryQueueConfig.from_dict({"paths": paths, "retry": retry})


def test_a_configuration_file(tmp_path):
    (tmp_path / "queue.yaml").write_text(
        "paths: {retry_queue: /q/retry, final_results: /q/final, dead_letter_queue: /q/dead}\n"
        "retry: {max_retries: 3, base_backoff_minutes: 1}\nbatch: {partitions: 8}\n"
    )
    config = RetryQueueConfig.from_file(str(tmp_path / "queue.yaml"))
    assert (config.retry_table_path, config.max_retries, config.partitions) == ("/q/retry", 3, 8)
    policy = config.retry_policy()
    assert [policy.delay(n) for n in (1, 2, 3)] == [60, 120, 240]


def test_text_that_no_column_can_hold_is_mended(config):
    """Half a character, in a result or in an exception, ends no batch."""

    def half(record):
        if record["payload"] == "fail":
            raise ValueError("\ud800 is bad")
        return "SUCCESS", "\ud800 is good"

    now_us = int(START.timestamp() * 1e6)
    rows = [("a", "ok"), ("b", "fail")]
    columns = [[row[0] for row in rows], [row[1] for row in rows], [None] * 2, [0] * 2, [now_us] * 2, [now_us] * 2]
    columns += [[False] * 2, [None] * 2, [2**63 - 1, 3]]
    kinds = (*[pa.string()] * 3, pa.int32(), pa.int64(), pa.int64(), pa.bool_(), pa.string(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds)]
    partition = Partition(half, None, config.retry_policy(), Classifier(()), now_us)
    processed, report = partition.run([pa.RecordBatch.from_arrays(arrays, names=INPUT_COLUMNS)])
    assert processed.column(3).to_pylist() == ["? is good", "ValueError: ? is bad"]
    found = Report.from_json(report.column(3)[0].as_py())
    assert found.counts == {("success", False): 1, ("dead", False): 1}
    assert found.ids == (2, 2**63 + 2)


@pytest.mark.long
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_process_costs_no_record(spark, cluster_run, victim):
    """It is killed while it processes records. Spark runs its task again: each record is in one table, once."""
    killed = (cluster_run / f"killed-{victim}").read_text()
    calls = (cluster_run / f"calls-{victim}").read_text().split()
    assert calls.count(killed) == 2, "its task was run again"
    names = ("retry_queue", "final_results", "dead_letter_queue")
    rows = everything(spark, RetryQueueConfig(*(str(cluster_run / name) for name in names)))
    final, waiting, dead = ([name for name in found if name.startswith(victim)] for found in rows)
    assert sorted(waiting) == sorted(f"{victim}-{n}" for n in range(0, 100, 10))
    assert (len(final), len(dead)) == (90, 0)
    assert set(calls) == {*final, *waiting}


@pytest.fixture(scope="module")
def cluster_run(tmp_path_factory):
    """The folder of a run of cluster_driver.py: a cluster of two executors, with a process killed in each batch."""
    folder = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, str(HERE / "cluster_driver.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder
