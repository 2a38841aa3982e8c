"""Structured Streaming with foreachBatch: micro-batches that fail are delivered again, records end once."""

import json

import pytest
from conftest import START
from handlers import broken, parity
from test_pipeline import everything

from redrive.spark import HandlerError


def run_stream(spark, tmp_path, queue, process_record):
    source = spark.readStream.schema("sample_id string, payload string").option("maxFilesPerTrigger", 1)
    writer = source.json(f"{tmp_path}/in").writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{tmp_path}/checkpoint")
    query = writer.foreachBatch(queue.foreach_batch(process_record, clock=lambda: START)).start()
    try:
        query.awaitTermination(500)
    finally:
        query.stop()


@pytest.mark.long
def test_a_stream_that_fails_and_goes_on(spark, tmp_path, queue, config):
    (tmp_path / "in").mkdir()
    for file in range(2):
        rows = [json.dumps({"sample_id": f"{file}-{i}", "payload": str(i)}) for i in range(20)]
        (tmp_path / "in" / f"{file}.json").write_text("\n".join(rows))
    with pytest.raises(Exception, match="process_record cannot run: NameError"):
        run_stream(spark, tmp_path, queue, broken)
    assert [len(rows) for rows in everything(spark, config)] == [0, 0, 0]

    run_stream(spark, tmp_path, queue, parity)
    final, waiting, dead = everything(spark, config)
    assert (len(final), len(waiting), len(dead)) == (20, 0, 20)
    runs = spark.read.format("delta").load(config.runs_table).count()
    assert runs == 2

    # The same records once more, as if the checkpoint had been lost.
    new = spark.read.schema("sample_id string, payload string").json(f"{tmp_path}/in")
    assert queue.process_batch(new, parity, now=START).new_records == 0
    with pytest.raises(HandlerError, match="mend the function"):
        queue.process_batch(spark.createDataFrame([("z", "1")], new.schema), broken, now=START)
