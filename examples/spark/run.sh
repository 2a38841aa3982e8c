#!/bin/sh
# run.sh ENVIRONMENT FOLDER - the example on this machine: a virtual environment with pyspark, delta-spark and redrive,
# and the two jars of Delta in ENVIRONMENT/jars.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
env=$(cd "$1" && pwd)
rm -rf "$2"
mkdir -p "$2"
folder=$(cd "$2" && pwd)
unset SPARK_HOME
export PYSPARK_PYTHON="$env/bin/python" SPARK_LOCAL_IP=127.0.0.1 PYTHONDONTWRITEBYTECODE=1
PATH="$env/bin:$PATH" nice -n 5 "$env/bin/spark-submit" \
    --master 'local[2]' --driver-memory 1g --driver-java-options '-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m' \
    --jars "$(printf '%s\n' "$env"/jars/*.jar | paste -sd,)" --py-files "$here/chart.py" \
    --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \
    --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog \
    --conf spark.databricks.delta.snapshotPartitions=2 \
    --conf spark.sql.shuffle.partitions=2 \
    --conf spark.sql.session.timeZone=UTC \
    --conf spark.sql.warehouse.dir="$folder/warehouse" \
    --conf spark.log.level=ERROR --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false \
    "$here/pipeline.py" "$folder" 2>"$folder/spark.log" || {
    tail -n 30 "$folder/spark.log" >&2
    exit 1
}
