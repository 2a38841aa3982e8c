"""The rows of a batch: what goes in, and what the outcomes become in each table. All of it lazy."""

from __future__ import annotations

import json
from typing import Any, Optional, Union

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from redrive.errors import InvalidArgumentError
from redrive.spark import ids
from redrive.spark.breaker import SavedBreaker
from redrive.spark.config import RetryQueueConfig
from redrive.spark.errors import HandlerFault
from redrive.spark.tables import read
from redrive.spark.worker import HELD, INPUT_COLUMNS, OUTPUT_SCHEMA, RETRY, SUCCESS

#: The outcome of the row that every batch has. Sorts before the others: Delta finds its file by that.
BATCH = "batch"
#: The outcome of a dead letter that waits again.
REDRIVEN = "redriven"
#: Outcomes of records that are in the retry queue afterwards.
WAITING = (RETRY, HELD, REDRIVEN)

_REQUIRED = {"sample_id": T.StringType(), "payload": T.StringType()}
_OPTIONAL = {"error_msg": T.StringType(), "retry_count": T.IntegerType(), "process_after": T.TimestampType()}
_INPUT_SCHEMA = (
    "sample_id string, payload string, error_msg string, retry_count int, due_us bigint, created_us bigint, "
    "from_queue boolean, fault string, hash bigint"
)
_PACK = "df.select('sample_id', to_json(struct('*')).alias('payload'))"


def check(new_records: DataFrame) -> None:
    """Refuses records that do not have the columns of the queue."""
    if not hasattr(new_records, "schema"):
        raise InvalidArgumentError(f"the records are a {type(new_records).__name__}", hint="give a DataFrame, or None")
    known: dict[str, T.DataType] = {**_REQUIRED, **_OPTIONAL}
    have = {field.name: field.dataType for field in new_records.schema.fields}
    for name in _REQUIRED:
        if name not in have:
            raise InvalidArgumentError(
                f"the records have no column {name}", detail=f"columns: {', '.join(have)}", hint=f"pack them: {_PACK}"
            )
    for name, kind in have.items():
        if name not in known:
            raise InvalidArgumentError(f"the queue has no column {name}", hint=f"put it into the payload: {_PACK}")
        if kind != known[name]:
            wanted = known[name].simpleString()
            raise InvalidArgumentError(
                f"the column {name} is {kind.simpleString()}, not {wanted}",
                hint=f"df.withColumn('{name}', col('{name}').cast('{wanted}')), or to_json(…) for a struct",
            )


def of_batch(
    spark: SparkSession,
    config: RetryQueueConfig,
    new: Optional[DataFrame],
    now_us: int,
    *,
    with_due: bool,
    is_joined: bool = True,
    has_known: bool = True,
) -> DataFrame:
    """The input of the executors: waiting records that are due, and new records that are not known.

    :param is_joined: False: all ids of the new records are known to be new, see ids.py.
    :param has_known: False: the tables are empty, so that no id is known.
    """
    partitions = _partitions(spark, config)
    due = _due(spark, config, now_us) if with_due else spark.createDataFrame([], _INPUT_SCHEMA)
    due = due.repartition(partitions, "sample_id")
    if new is None:
        return due
    fresh = _new(new, now_us)
    if not is_joined:
        return fresh.union(due)
    # Partitioned and sorted by id once: the join needs no further exchange, and repeated ids follow each other, so that
    # the executors see them. The sort is free: the join has it in this order. dropDuplicates takes as long as all this.
    fresh = fresh.repartition(partitions, "sample_id")
    if has_known:
        fresh = fresh.join(_known_ids(spark, config, now_us), "sample_id", "left_anti").select(*INPUT_COLUMNS)
    return fresh.sortWithinPartitions("sample_id").union(due)


def look_at_ids(config: RetryQueueConfig, new: DataFrame, now_us: int) -> Optional[ids.Fingerprint]:
    """See ids.look()."""
    spark = new.sparkSession
    return ids.look(new, _known_ids(spark, config, now_us), _partitions(spark, config))


def _partitions(spark: SparkSession, config: RetryQueueConfig) -> int:
    return config.partitions or spark.sparkContext.defaultParallelism


def _due(spark: SparkSession, config: RetryQueueConfig, now_us: int) -> DataFrame:
    due = read(spark, config.retry_table_path).where(F.col("process_after") <= _time(now_us))
    if config.max_due_per_batch is not None:
        due = due.orderBy("process_after", "sample_id").limit(config.max_due_per_batch)
    return due.select(
        "sample_id",
        "payload",
        "error_msg",
        "retry_count",
        F.unix_micros("process_after").alias("due_us"),
        F.unix_micros("created_at").alias("created_us"),
        F.lit(True).alias("from_queue"),
        _fault(F.col("sample_id")),
        F.lit(0).cast("long").alias("hash"),
    )


def _new(new: DataFrame, now_us: int) -> DataFrame:
    now = F.lit(now_us).cast("long")
    without_id = F.concat(F.lit("no-id-"), F.sha2(F.coalesce("payload", F.lit("")), 256))
    has = set(new.columns)
    return new.select(
        F.coalesce("sample_id", without_id).alias("sample_id"),
        "payload",
        F.col("error_msg") if "error_msg" in has else _null("string").alias("error_msg"),
        (F.coalesce("retry_count", F.lit(0)) if "retry_count" in has else F.lit(0)).alias("retry_count"),
        (F.coalesce(F.unix_micros("process_after"), now) if "process_after" in has else now).alias("due_us"),
        now.alias("created_us"),
        F.lit(False).alias("from_queue"),
        _fault(F.col("sample_id")),
        F.xxhash64("sample_id").alias("hash"),
    )


def _fault(sample_id: Column) -> Column:
    """Why a record cannot be processed at all."""
    no_id = F.when(sample_id.isNull(), F.lit("the record has no sample_id"))
    return no_id.when(F.col("payload").isNull(), F.lit("the payload is null")).alias("fault")


def _known_ids(spark: SparkSession, config: RetryQueueConfig, now_us: int) -> DataFrame:
    ended = [(config.final_table_path, "processed_at"), (config.dlq_table_path, "failed_at")]
    known = read(spark, config.retry_table_path).select("sample_id")
    for table, at in ended:
        rows = read(spark, table)
        if config.known_ids_days is not None:
            rows = rows.where(F.col(at) >= _time(now_us - config.known_ids_days * 86_400_000_000))
        known = known.union(rows.select("sample_id"))
    return known


def head_row(spark: SparkSession, now_us: int, new_ids: Optional[ids.Fingerprint]) -> DataFrame:
    """The row that says that there is a batch, also if it has no records."""
    return spark.range(1).select(
        F.lit(BATCH).alias("outcome"),
        F.lit(now_us).cast("long").alias("created_us"),
        F.lit(None if new_ids is None else json.dumps(new_ids)).cast("string").alias("message"),
    )


def redriven(dead: DataFrame, waiting: DataFrame, now_us: int, payload: Union[str, Column, None]) -> DataFrame:
    """Outcomes for dead letters that are to wait again. Without a payload they would only die again: they stay.

    An id that was given again after ``known_ids_days`` may have died twice, or wait already. It must not be twice in
    the retry queue, where a MERGE would fail. So the dead letter that was given last is taken, and none if it waits.

    :param waiting: has the column sample_id.
    """
    edited = F.col("payload") if payload is None else F.expr(payload) if isinstance(payload, str) else payload
    rows = dead.withColumn("payload", edited.cast("string")).where(F.col("payload").isNotNull())
    of_id = Window.partitionBy("sample_id").orderBy(F.col("created_at").desc(), F.col("failed_at").desc())
    rows = rows.withColumn("place", F.row_number().over(of_id)).where(F.col("place") == 1)
    rows = rows.join(waiting.select("sample_id"), "sample_id", "left_anti")
    values = {
        "outcome": F.lit(REDRIVEN),
        "message": F.col("error_msg"),
        "retry_count": F.lit(0),
        "due_us": F.lit(now_us).cast("long"),
        "created_us": F.unix_micros("created_at"),
        "from_queue": _null("boolean"),
        "reason": _null("string"),
    }
    return rows.select(*(values.get(name, F.col(name)).alias(name) for name in _OUTCOME_COLUMNS))


# ---- What processed records become -----------------------------------------------------------------

_OUTCOME_COLUMNS = [word.split()[0] for word in OUTPUT_SCHEMA.split(", ")][:-1]


def outcomes_of(processed: DataFrame) -> DataFrame:
    """All that is needed to complete a batch once its results are written.

    Those are not in it, nor are payloads that the retry queue has.
    """
    outcome = F.col("outcome")
    is_in_queue = F.col("from_queue") & outcome.isin(SUCCESS, RETRY, HELD)
    rows = processed.where((outcome != SUCCESS) | F.col("from_queue"))
    rows = rows.withColumn("payload", F.when(~F.coalesce(is_in_queue, F.lit(False)), F.col("payload")))
    return rows.withColumn("message", F.when(outcome != SUCCESS, F.col("message"))).select(*_OUTCOME_COLUMNS)


def results_of(processed: DataFrame, runs: list[str]) -> DataFrame:
    """Records that have succeeded in these runs of partitions.

    Spark runs a partition again if what it kept of it is lost with an executor. The second run may come to other
    outcomes than those that are written: then this fails.
    """
    lost = HandlerFault(
        "an executor died between two writes of a batch",
        "nothing of the batch counts; run it again",
        "ExecutorError",
    )
    is_of_run = F.col("run").isin(*runs)
    return processed.where(F.when(is_of_run, F.col("outcome") == SUCCESS).otherwise(F.raise_error(str(lost))))


def final_rows(results: DataFrame, now_us: int, number: int) -> DataFrame:
    return results.select(
        "sample_id",
        "payload",
        F.col("message").alias("result"),
        "retry_count",
        _time(now_us).alias("processed_at"),
        _created(),
        F.lit(number).cast("long").alias("batch_id"),
    )


def dead_rows(outcomes: DataFrame, now_us: int) -> DataFrame:
    return outcomes.select(
        "sample_id",
        "payload",
        F.col("message").alias("error_msg"),
        "retry_count",
        _time(now_us).alias("failed_at"),
        "error_type",
        "error_class",
        "reason",
        _created(),
        "batch_id",
    )


def waiting_rows(outcomes: DataFrame, now_us: int) -> DataFrame:
    """Rows for the MERGE into the retry queue: those that wait, and those that were in it and have ended."""
    concerned = F.col("outcome").isin(*WAITING) | F.col("from_queue")
    return outcomes.where(concerned).select(
        "outcome",
        "sample_id",
        "payload",
        F.col("message").alias("error_msg"),
        "retry_count",
        F.timestamp_micros("due_us").alias("process_after"),
        "error_type",
        "error_class",
        _created(),
        _time(now_us).alias("updated_at"),
        "batch_id",
    )


def run_row(spark: SparkSession, token: str, now_us: int, next_us: Optional[int], result: Any) -> DataFrame:
    numbers: tuple[str, ...] = ("batch_id", "new_records", "due_records", "succeeded", "retried", "dead", "held")
    numbers += ("redriven", "waiting")
    return spark.range(1).select(
        *(F.lit(getattr(result, name)).cast("long").alias(name) for name in numbers),
        F.lit(token).alias("token"),
        _time(now_us).alias("started_at"),
        (_null("timestamp") if next_us is None else _time(next_us)).alias("next_ready_time"),
        F.lit(result.seconds).alias("seconds"),
        F.lit(result.success_rate).cast("double").alias("success_rate"),
    )


def breaker_row(spark: SparkSession, saved: SavedBreaker, now_us: int, batch_id: Optional[int]) -> DataFrame:
    probe_us = saved.next_probe_us
    return spark.range(1).select(
        F.lit(saved.state).alias("state"),
        F.lit(saved.failure_count).alias("failure_count"),
        F.lit(saved.reopened).alias("reopened"),
        (_null("timestamp") if probe_us is None else _time(probe_us)).alias("next_probe_at"),
        _time(now_us).alias("updated_at"),
        F.lit(batch_id).cast("long").alias("batch_id"),
    )


def _time(us: int) -> Column:
    return F.timestamp_micros(F.lit(us).cast("long"))


def _created() -> Column:
    return F.timestamp_micros("created_us").alias("created_at")


def _null(kind: str) -> Column:
    return F.lit(None).cast(kind)
