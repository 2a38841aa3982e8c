"""A Celery application for worker.py: a task that does nothing, and a note of when the first and the last one ran.

BENCH_BROKER is the broker's URL, BENCH_JOBS how many jobs there are, BENCH_NOTE the file that has the seconds at the end.
"""

import itertools
import os
import pathlib
import time

from celery import Celery, signals

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
# A job that a worker holds when it dies is run again, as with the others; results are not kept.
app.conf.update(task_acks_late=True, task_ignore_result=True, worker_prefetch_multiplier=4)

_count = itertools.count(1)
_began = []


@signals.worker_ready.connect
def note_begin(**_details):
    _began.append(time.perf_counter())


@app.task(name="noop")
def noop():
    if next(_count) == int(os.environ["BENCH_JOBS"]):
        pathlib.Path(os.environ["BENCH_NOTE"]).write_text(str(time.perf_counter() - _began[0]))
