"""The same pipeline as a PySpark programmer writes it from a description of the three tables.

A batch is what is new and what is due; a UDF processes it; the frame is kept in memory, and written to the tables by
two appends and one MERGE. No loop runs on the driver. Two things that redrive.spark has are left out: it does not
survive a driver that dies between two writes, and with `checks_ids=False` it does not see that a record is known.
"""

from delta.tables import DeltaTable
from pyspark.sql import functions as F

QUEUE = "sample_id string, payload string, error_msg string, retry_count int, process_after timestamp"
FINAL = "sample_id string, payload string, result string, retry_count int, processed_at timestamp"
DEAD = "sample_id string, payload string, error_msg string, retry_count int, failed_at timestamp"


class Straightforward:
    def __init__(self, spark, folder, *, checks_ids=False, max_retries=5, base_backoff_minutes=2):
        self.spark = spark
        self.checks_ids = checks_ids
        self.max_retries = max_retries
        self.base_s = 60 * base_backoff_minutes
        self.queue, self.final, self.dead = (f"{folder}/{name}" for name in ("queue", "final", "dead"))
        for path, columns in ((self.queue, QUEUE), (self.final, FINAL), (self.dead, DEAD)):
            spark.createDataFrame([], columns).write.format("delta").save(path)

    def read(self, path):
        return self.spark.read.format("delta").load(path)

    def process_batch(self, new, process_record, now):
        time = F.lit(now).cast("timestamp")
        done = self.process(new, process_record, time).persist()
        try:
            counts = dict(done.groupBy("outcome").count().collect())
            success, dead = (done.where(F.col("outcome") == name) for name in ("success", "dead"))
            self.append(success, self.final, F.col("message").alias("result"), time.alias("processed_at"))
            self.append(dead, self.dead, F.col("message").alias("error_msg"), time.alias("failed_at"))
            self.merge(done, time)
        finally:
            done.unpersist()
        return counts, self.read(self.queue).count()

    def process(self, new, process_record, time):
        def answer(sample_id, payload, error_msg, retry_count):
            if payload is None:
                return "PERMANENT_FAIL", "the payload is null"
            record = {"sample_id": sample_id, "payload": payload, "error_msg": error_msg, "retry_count": retry_count}
            return process_record(record)

        names = ("sample_id", "payload", "error_msg", "retry_count")
        due = self.read(self.queue).where(F.col("process_after") <= time).select(*names)
        if self.checks_ids:
            ids = [self.read(path).select("sample_id") for path in (self.queue, self.final, self.dead)]
            new = new.dropDuplicates(["sample_id"]).join(ids[0].union(ids[1]).union(ids[2]), "sample_id", "left_anti")
        first = (F.lit(None).cast("string").alias("error_msg"), F.lit(0).alias("retry_count"))
        batch = new.select("sample_id", "payload", *first).unionByName(due)
        batch = batch.withColumn("answer", F.udf(answer, "status string, message string")(*names))
        is_last = F.col("retry_count") >= self.max_retries
        outcome = (
            F.when(F.col("answer.status") == "SUCCESS", "success")
            .when((F.col("answer.status") == "PERMANENT_FAIL") | is_last, "dead")
            .otherwise("retry")
        )
        return batch.withColumn("outcome", outcome).withColumn("message", F.col("answer.message"))

    def append(self, rows, path, message, time):
        rows.select("sample_id", "payload", message, "retry_count", time).write.format("delta").mode("append").save(
            path
        )

    def merge(self, done, time):
        wait = F.lit(self.base_s) * F.pow(F.lit(2), F.col("retry_count"))
        rows = done.select(
            "outcome",
            "sample_id",
            "payload",
            F.col("message").alias("error_msg"),
            (F.col("retry_count") + 1).alias("retry_count"),
            F.timestamp_seconds(F.unix_seconds(time) + wait).alias("process_after"),
        )
        rows = rows.where((F.col("outcome") == "retry") | (F.col("retry_count") > 1))
        columns = {name: f"s.{name}" for name in ("sample_id", "payload", "error_msg", "retry_count", "process_after")}
        (
            DeltaTable.forPath(self.spark, self.queue)
            .alias("t")
            .merge(rows.alias("s"), "t.sample_id = s.sample_id")
            .whenMatchedUpdate("s.outcome = 'retry'", columns)
            .whenMatchedDelete()
            .whenNotMatchedInsert("s.outcome = 'retry'", columns)
            .execute()
        )
