"""Runs a batch on a cluster of two executors, one of which is killed by the first record that it gets.

cluster_driver.py FOLDER
"""

import os
import signal
import sys

from conftest import START
from spark_session import build

from redrive.spark import RetryQueue, RetryQueueConfig


def executor_of_this_process():
    """This is forked by a daemon, which the executor has started."""
    with open(f"/proc/{os.getppid()}/stat", encoding="utf-8") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def main(folder):
    spark = build("local-cluster[2,1,1024]", folder)

    def kill_once(record):
        try:
            os.close(os.open(f"{folder}/killed", os.O_CREAT | os.O_EXCL))
            os.kill(executor_of_this_process(), signal.SIGKILL)
        except FileExistsError:
            pass
        return ("SUCCESS", None) if int(record["payload"]) % 10 else ("TRANSIENT_FAIL", "a tenth")

    config = RetryQueueConfig(f"{folder}/retry_queue", f"{folder}/final_results", f"{folder}/dead_letter_queue")
    rows = [(f"r-{n}", str(n)) for n in range(200)]
    new = spark.createDataFrame(rows, "sample_id string, payload string")
    RetryQueue(spark, config).process_batch(new, kill_once, now=START)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
