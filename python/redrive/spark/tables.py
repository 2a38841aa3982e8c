"""The Delta tables of a queue: their columns, and how they are read, written and checked.

A table is given as a path or as a name of the catalog. A write carries the id of the queue and the
number of the batch (txnAppId, txnVersion): Delta drops a write whose number the table has seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Optional

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import types as T

from redrive.spark.errors import TableError


def _struct(text: str) -> T.StructType:
    kinds = {"string": T.StringType(), "int": T.IntegerType(), "long": T.LongType()}
    kinds.update({"timestamp": T.TimestampType(), "boolean": T.BooleanType(), "double": T.DoubleType()})
    pairs = [word.split(":") for word in text.split()]
    return T.StructType([T.StructField(name, kinds[kind]) for name, kind in pairs])


RETRY_QUEUE = _struct(
    "sample_id:string payload:string error_msg:string retry_count:int process_after:timestamp "
    "error_type:string error_class:string created_at:timestamp updated_at:timestamp batch_id:long"
)
FINAL_RESULTS = _struct(
    "sample_id:string payload:string result:string retry_count:int processed_at:timestamp created_at:timestamp "
    "batch_id:long"
)
DEAD_LETTER_QUEUE = _struct(
    "sample_id:string payload:string error_msg:string retry_count:int failed_at:timestamp "
    "error_type:string error_class:string reason:string created_at:timestamp batch_id:long"
)
#: Of one batch: a row for each record, and one with the outcome "batch", which every batch has.
OUTCOMES = _struct(
    "outcome:string sample_id:string payload:string message:string retry_count:int due_us:long created_us:long "
    "from_queue:boolean error_type:string error_class:string reason:string batch_id:long token:string"
)
#: One row for each batch that is done.
RUNS = _struct(
    "batch_id:long token:string started_at:timestamp new_records:long due_records:long succeeded:long retried:long "
    "dead:long held:long redriven:long waiting:long next_ready_time:timestamp seconds:double success_rate:double"
)
#: Columns that tables of earlier versions do not have. The next row that is written brings them; old rows have null.
RUNS_ADDED = frozenset({"success_rate"})
#: One row.
BREAKER = _struct(
    "state:string failure_count:int reopened:int next_probe_at:timestamp updated_at:timestamp batch_id:long"
)

#: Delta keeps statistics of these columns, by which it leaves out files. Of payloads and messages they are of no use,
#: and cost time in each write.
_STATISTICS = "delta.dataSkippingStatsColumns"
RETRY_QUEUE_PROPERTIES = {_STATISTICS: "sample_id,process_after"}
FINAL_RESULTS_PROPERTIES = {_STATISTICS: "sample_id,processed_at,batch_id"}
DEAD_LETTER_QUEUE_PROPERTIES = {_STATISTICS: "sample_id,failed_at,batch_id"}
OUTCOMES_PROPERTIES = {_STATISTICS: "outcome,batch_id"}


#: Tasks in which Delta reads the log of a table; its default is 50.
_LOG_TASKS, _LOG_TASKS_MAX = "spark.databricks.delta.snapshotPartitions", 50


@contextmanager
def few_log_tasks(*sessions: SparkSession) -> Iterator[None]:
    """Meanwhile logs are read in a task for each core: a batch reads some twenty, which are small.

    A session that has the setting of its own keeps it. It changes how long a read takes, and nothing else.
    """
    changed = [spark for spark in sessions if spark.conf.get(_LOG_TASKS, None) is None]
    for spark in changed:
        spark.conf.set(_LOG_TASKS, str(min(spark.sparkContext.defaultParallelism, _LOG_TASKS_MAX)))
    try:
        yield
    finally:
        for spark in changed:
            spark.conf.unset(_LOG_TASKS)


def is_path(table: str) -> bool:
    return "/" in table


def read(spark: SparkSession, table: str) -> DataFrame:
    return spark.read.format("delta").load(table) if is_path(table) else spark.read.table(table)


def write(rows: DataFrame, table: str, mode: str, app_id: str, version: int, *, adds_columns: bool = False) -> None:
    """Appends or overwrites, once for each version."""
    writer = rows.write.format("delta").mode(mode).option("txnAppId", app_id).option("txnVersion", version)
    _save(writer.option("mergeSchema", "true") if adds_columns else writer, table)


def overwrite(rows: DataFrame, table: str) -> None:
    """At once, outside of any batch."""
    _save(rows.write.format("delta").mode("overwrite"), table)


def _save(writer: DataFrameWriter, table: str) -> None:
    if is_path(table):
        writer.save(table)
    else:
        writer.saveAsTable(table)


def delta_table(spark: SparkSession, table: str) -> DeltaTable:
    return DeltaTable.forPath(spark, table) if is_path(table) else DeltaTable.forName(spark, table)


def create(
    spark: SparkSession,
    table: str,
    schema: T.StructType,
    properties: Optional[dict[str, str]] = None,
    added: frozenset[str] = frozenset(),
) -> bool:
    """Makes the table if there is none, and checks the columns of one that is there. It may lack those of ``added``.

    False: the table was there. True: it was not when this looked; another driver may have made it since.
    """
    try:
        if _is_there(spark, table):
            check(table, read(spark, table).schema, schema, added)
            return False
        builder = DeltaTable.createIfNotExists(spark).addColumns(schema)
        builder = builder.location(table) if is_path(table) else builder.tableName(table)
        for name, value in (properties or {}).items():
            builder = builder.property(name, value)
        builder.execute()
        return True
    except AnalysisException as exc:
        raise TableError(
            f"{table} cannot be used as a Delta table",
            detail=first_line(exc),
            hint="is there something else at this path? Give an empty one",
        ) from exc


def _is_there(spark: SparkSession, table: str) -> bool:
    return bool(DeltaTable.isDeltaTable(spark, table) if is_path(table) else spark.catalog.tableExists(table))


def property_of(spark: SparkSession, table: str, name: str) -> Optional[str]:
    # Not by detail(): that adds up the files of the table, in jobs of its own.
    quoted = f"delta.`{table}`" if is_path(table) else table
    rows = spark.sql(f"SHOW TBLPROPERTIES {quoted}").collect()
    return next((row["value"] for row in rows if row["key"] == name), None)


def first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0][:300]


def check(table: str, found: T.StructType, wanted: T.StructType, added: frozenset[str] = frozenset()) -> None:
    """Every column of the queue must be there with its type, unless it is one of ``added``; a table may have more."""
    have = {field.name: field.dataType for field in found.fields}
    for field in wanted.fields:
        if field.name not in have and field.name in added:
            continue
        if field.name not in have:
            detail = f"no column {field.name} {field.dataType.simpleString()}"
        elif have[field.name] != field.dataType:
            detail = f"{field.name} is {have[field.name].simpleString()}, not {field.dataType.simpleString()}"
        else:
            continue
        raise TableError(
            f"{table} is not a table of this queue", detail=detail, hint="give another path, or move the table away"
        )
