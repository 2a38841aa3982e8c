"""The same pipeline as a PySpark programmer writes it from a description of the three tables.

A batch is what is new and what is due; a UDF processes it; the frame is kept in memory, and written to the tables by
two appends and one MERGE. No loop runs on the driver. Two things that redrive.spark has are left out: it does not
survive a driver that dies between two writes, and with `checks_ids=False` it does not see that a record is known.

`Safe` has both. It is what the documentation of Delta advises: the processed records are written to a table of their
own first, and from there to the others, with a number that makes Delta drop a write which is repeated (txnAppId,
txnVersion). A driver that finds a batch without its row in the table `done` writes it again.
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
        self.write(rows.select("sample_id", "payload", message, "retry_count", time), path, "append")

    def write(self, rows, path, mode):
        rows.write.format("delta").mode(mode).save(path)

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


class Safe(Straightforward):
    """Survives a driver that dies between two writes, and a batch that is given twice."""

    def __init__(self, spark, folder):
        super().__init__(spark, folder, checks_ids=True)
        self.staged, self.done = f"{folder}/staged", f"{folder}/done"
        spark.createDataFrame([], "batch long").write.format("delta").save(self.done)
        self.number = 0

    def process_batch(self, new, process_record, now):
        time = F.lit(now).cast("timestamp")
        done = self.read(self.done).agg(F.max("batch")).collect()[0][0] or 0
        if DeltaTable.isDeltaTable(self.spark, self.staged):
            for number, staged_at in self.read(self.staged).select("batch", "at").take(1):
                if number > done:  # its driver has died
                    self.number, done = number, number
                    self.complete(F.lit(staged_at))
        self.number = done + 1
        rows = self.process(new, process_record, time)
        names = ("sample_id", "payload", "retry_count", "outcome", "message")
        rows = rows.select(*names, F.lit(self.number).alias("batch"), time.alias("at"))
        self.write(rows, self.staged, "overwrite")
        counts = self.complete(time)
        return counts, self.read(self.queue).count()

    def complete(self, time):
        staged = self.read(self.staged)
        counts = dict(staged.groupBy("outcome").count().collect())
        success, dead = (staged.where(F.col("outcome") == name) for name in ("success", "dead"))
        self.append(success, self.final, F.col("message").alias("result"), time.alias("processed_at"))
        self.append(dead, self.dead, F.col("message").alias("error_msg"), time.alias("failed_at"))
        self.merge(staged, time)
        self.write(self.spark.range(1).select(F.lit(self.number).cast("long").alias("batch")), self.done, "append")
        return counts

    def write(self, rows, path, mode):
        numbered = rows.write.format("delta").mode(mode).option("txnAppId", "batches").option("txnVersion", self.number)
        numbered.save(path)
