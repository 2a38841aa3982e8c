"""A session as small as Spark allows: two cores, no page, few partitions."""

import os
import pathlib

from pyspark.sql import SparkSession

JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    # 50 by default: tasks that read the log of a table. For small tables they are most of a batch's time.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Short queries cost more to compile than to run.
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "America/New_York",  # times must not depend on it
    # With another zone than UTC Delta reads the whole log of a table twice for each commit, to check its checksum.
    "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
}


def build(master, folder, **more):
    jars = ",".join(str(jar) for jar in sorted(pathlib.Path(os.environ["SPARK_JARS"]).glob("*.jar")))
    builder = SparkSession.builder.master(master).appName("redrive-test").config("spark.jars", jars)
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": f"{folder}/warehouse", **more}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
