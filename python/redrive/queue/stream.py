"""A stream handler: ``python -m redrive stream MODULE:APP`` under ``redrive work``, with no server.

Jobs come as JSON lines on standard input, answers go to standard output. What tasks print goes to standard
error: it would not be an answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from redrive.queue import runner
from redrive.queue._limits import dump
from redrive.queue.app import App
from redrive.queue.context import Context


class Stream:
    """Reads jobs until the input ends, and answers each, in any order."""

    def __init__(self, app: App, source: IO[str], target: IO[str], concurrency: int) -> None:
        self._app = app
        self._source = source
        self._target = target
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="redrive")

    def run(self) -> None:
        asyncio.run(self._read_all())

    async def _read_all(self) -> None:
        loop = asyncio.get_running_loop()
        running: set[asyncio.Task[None]] = set()
        while True:
            line = await loop.run_in_executor(None, self._source.readline)
            if not line:
                break
            task = loop.create_task(self._answer(json.loads(line)))
            running.add(task)
            task.add_done_callback(running.discard)
        if running:
            await asyncio.gather(*running)
        self._pool.shutdown()

    async def _answer(self, job: dict[str, Any]) -> None:
        context = Context.of_job(job)
        try:
            task = self._app.find_task(context.task)
        except Exception as exc:
            self._write(context.job_id, runner.failed(exc))
            return
        if task.is_async:
            answer = await runner.run_async(task, context)
        else:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._pool, runner.run_sync, task, context)
        self._write(context.job_id, answer)

    def _write(self, id_: str, answer: dict[str, Any]) -> None:
        line = dump({"id": id_, **answer}).decode()
        with self._lock:
            self._target.write(line + "\n")
            self._target.flush()


def serve(app: App, concurrency: int) -> None:
    """Answers on the standard output that the process was started with; prints go to standard error.

    The standard input of tasks is empty: a program that a task starts would read the lines of other jobs. Such programs
    do not inherit the descriptors that os.dup() returns.
    """
    jobs = os.dup(sys.stdin.fileno())
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="\n")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with answers, open(jobs, encoding="utf-8") as source:
        Stream(app, source, answers, concurrency).run()
