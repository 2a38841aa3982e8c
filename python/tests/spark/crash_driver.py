"""A driver that runs one batch and kills itself with SIGKILL after a given write.

crash_driver.py FOLDER WRITE MINUTES    the queue is in FOLDER, new records in FOLDER/new.jsonl
"""

import os
import pathlib
import signal
import sys

from conftest import at
from handlers import Noted
from spark_session import build

from redrive.spark import RetryQueue, RetryQueueConfig


def main(folder, write, minutes):
    spark = build("local[2]", folder)
    config = RetryQueueConfig(f"{folder}/retry_queue", f"{folder}/final_results", f"{folder}/dead_letter_queue")
    queue = RetryQueue(spark, config)

    def after_write(name):
        if name == write:
            os.kill(os.getpid(), signal.SIGKILL)

    queue._writers = 1  # in order: the writes that follow are not done
    queue._after_write = after_write
    new = spark.read.schema("sample_id string, payload string").json(f"{folder}/new.jsonl")
    queue.process_batch(new, Noted(pathlib.Path(folder) / "calls"), now=at(float(minutes)))
    sys.exit(f"the batch never wrote {write}")


if __name__ == "__main__":
    main(*sys.argv[1:])
