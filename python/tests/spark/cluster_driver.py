"""Runs two batches on a cluster of two executors. An executor is killed in the first, a Python process in the second.

cluster_driver.py FOLDER
"""

import os
import signal
import sys

from conftest import START
from spark_session import build

from redrive.spark import RetryQueue, RetryQueueConfig

VICTIMS = ("executor", "worker")


def executor_of_this_process():
    """This process was forked by a daemon, which the executor has started."""
    with open(f"/proc/{os.getppid()}/stat", encoding="utf-8") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def killer(folder, victim):
    """A handler that notes each call, and kills with the first one."""

    def process_record(record):
        with open(f"{folder}/calls-{victim}", "a", encoding="utf-8") as calls:
            calls.write(f"{record['sample_id']}\n")
        try:
            with open(f"{folder}/killed-{victim}", "x", encoding="utf-8") as note:
                note.write(record["sample_id"])
            os.kill(os.getpid() if victim == "worker" else executor_of_this_process(), signal.SIGKILL)
        except FileExistsError:
            pass
        return ("SUCCESS", None) if int(record["payload"]) % 10 else ("TRANSIENT_FAIL", "a tenth")

    return process_record


def main(folder):
    spark = build("local-cluster[2,1,1024]", folder)
    config = RetryQueueConfig(f"{folder}/retry_queue", f"{folder}/final_results", f"{folder}/dead_letter_queue")
    queue = RetryQueue(spark, config)
    for victim in VICTIMS:
        new = spark.createDataFrame([(f"{victim}-{n}", str(n)) for n in range(100)], "sample_id string, payload string")
        queue.process_batch(new, killer(folder, victim), now=START)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
