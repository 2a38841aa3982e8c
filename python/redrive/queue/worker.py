"""A worker: asks the server for jobs by long poll and carries them out, in threads and in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Optional, Union

from redrive.errors import InvalidArgumentError, NotFoundError, RedriveError
from redrive.queue import runner
from redrive.queue._held import Held, HeldJobs
from redrive.queue._leases import AWAY
from redrive.queue.app import App
from redrive.queue.client import Client, is_temporary
from redrive.queue.context import Context
from redrive.queue.task import Task

logger = logging.getLogger("redrive")

#: The server takes so many names in one claim.
_TASKS_MAX = 1000
#: A job that cannot be started here and now comes back after so long, at no cost of an attempt.
_SNOOZE_S = 1
#: How long a worker that stops waits for the answer to its last claim.
_LAST_ANSWER_S = 2.0


class Worker:
    """Works the tasks of an application until it is stopped.

    Functions run in ``concurrency`` threads, coroutine functions in one event loop, as many at a time. A
    job that is being worked on has a lease, which is renewed; if the worker dies, the job comes back when
    it ends.

    :param queues: in the order of preference; all, unless given.
    :param lease: seconds for which the server waits for a sign of life.
    :param shutdown_timeout: seconds that a graceful stop waits for running jobs; then they are given back.
    :param until_idle: return when there is nothing to do.
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Optional[Sequence[str]] = None,
        concurrency: int = 8,
        name: Optional[str] = None,
        lease: float = 30.0,
        poll: float = 20.0,
        shutdown_timeout: Optional[float] = None,
        until_idle: bool = False,
    ) -> None:
        self.app = app
        self.client: Client = app.client
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.concurrency = concurrency
        self._poll = poll
        self._shutdown_timeout = shutdown_timeout
        self._until_idle = until_idle
        self._body: dict[str, Any] = {"worker": self.name, "lease": f"{int(lease * 1000)}ms"}
        if queues:
            self._body["queues"] = list(queues)
        if len(app.tasks) > _TASKS_MAX:  # without their names it would be given jobs of other applications
            raise InvalidArgumentError(
                f"the application has {len(app.tasks)} tasks, and a worker can have {_TASKS_MAX}",
                hint="make several applications of it",
            )
        self._body["tasks"] = sorted(app.tasks)
        self._lease = lease
        self._held = HeldJobs(self.client, lease)
        self._stopping = threading.Event()
        self._giving_back = threading.Event()
        self._socket: Optional[socket.socket] = None
        self._error: Optional[BaseException] = None

    # ---- Life -----------------------------------------------------------------------------------

    def run(self, *, signals: bool = False) -> None:
        """Works until stop(). With ``signals`` SIGTERM and SIGINT stop it, and a second one gives the jobs back.

        Raises what keeps it from working: no task, a server that refuses it. A server that is away is
        waited for.
        """
        if not self.app.tasks:
            raise NotFoundError("the application has no tasks", hint="is the module that has them imported?")
        with contextlib.ExitStack() as stack:
            if signals:
                stack.enter_context(self._signal_handlers())
            loop = stack.enter_context(_loop_in_thread())
            pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="redrive")
            self._held.start()
            claimer = threading.Thread(target=self._claim_all, args=(pool, loop), name="redrive-claim", daemon=True)
            claimer.start()
            declarer = threading.Thread(target=self._declare, name="redrive-declare", daemon=True)
            declarer.start()
            logger.info("working worker=%s tasks=%d concurrency=%d", self.name, len(self.app.tasks), self.concurrency)
            try:
                self._wait_for_claimer(claimer)
                while declarer.is_alive() and not self._stopping.is_set():
                    declarer.join(0.2)
            except BaseException:
                self.stop()
                self._giving_back.set()
                claimer.join(5)  # what its last answer has is given back as well
                raise
            finally:
                self._drain()
                pool.shutdown(wait=False)
        if self._error is not None:
            raise self._error

    def _wait_for_claimer(self, claimer: threading.Thread) -> None:
        stopped_at: Optional[float] = None
        while claimer.is_alive():
            claimer.join(0.2)  # signals come through
            if stopped_at is None and self._stopping.is_set():
                stopped_at = time.monotonic()
            if stopped_at is not None and time.monotonic() > stopped_at + _LAST_ANSWER_S:
                self._hang_up(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Takes no more jobs; run() returns when those in hand have ended. Any thread may call it.

        A long poll is closed on the side of this worker only, and its answer is waited for: the server would give jobs
        that are released meanwhile to a poll that it believes to be open.
        """
        self._stopping.set()
        self._hang_up(socket.SHUT_WR)

    def _hang_up(self, how: int) -> None:
        claiming = self._socket
        if claiming is not None:
            with contextlib.suppress(OSError):
                claiming.shutdown(how)

    def give_back(self) -> None:
        """Stops, and does not wait for what is running."""
        self._giving_back.set()
        self.stop()

    @contextlib.contextmanager
    def _signal_handlers(self) -> Any:
        """A thread acts on signals. Their handler may interrupt code that holds a lock, and must not wait for any."""
        arrived: queue.SimpleQueue[Optional[int]] = queue.SimpleQueue()  # its put() is reentrant
        thread = threading.Thread(target=self._act_on, args=(arrived,), name="redrive-signals", daemon=True)
        thread.start()
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, lambda number, _frame: arrived.put(number)) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            arrived.put(None)
            thread.join()

    def _act_on(self, arrived: queue.SimpleQueue[Optional[int]]) -> None:
        """The first signal stops the worker; one after that gives back what is running."""
        while (number := arrived.get()) is not None:
            logger.info("stopping signal=%s running=%d", signal.Signals(number).name, self._held.running())
            if self._stopping.is_set():
                self.give_back()
            self.stop()

    def _drain(self) -> None:
        """Waits for the jobs in hand, as long as that is allowed, and gives back the rest."""
        until = None if self._shutdown_timeout is None else time.monotonic() + self._shutdown_timeout
        while not self._held.wait_until_empty(0.05):
            if self._giving_back.is_set() or (until is not None and time.monotonic() > until):
                logger.info("gave_back jobs=%d", self._held.give_back())
                break
        self._held.close()
        self.client.close()

    # ---- Declaring ------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Tells the server queues, policies and the timetable; in a thread of its own, while jobs are worked."""
        try:
            self._until_answered(lambda: self.client.declare_tasks(self._sections()), is_needed=False)
            timetable = {entry.name: entry.as_json() for entry in self.app.timetable}
            # Without a timetable: entries of an earlier version of the program are to be removed.
            self._until_answered(lambda: self.client.declare_cron(self.app.name, timetable), is_needed=bool(timetable))
        except BaseException as exc:
            self._error = exc
            self.stop()
        finally:
            self.client.close()

    def _sections(self) -> dict[str, Any]:
        sections: dict[str, Any] = {}
        for name, task in self.app.tasks.items():
            try:
                sections[name] = task.section()
            except RedriveError:  # a function as strategy cannot be sent
                sections[name] = {} if task.queue is None else {"queue": task.queue}
        return sections

    def _until_answered(self, declare: Callable[[], Any], *, is_needed: bool) -> None:
        """Waits for a server that is away. What is not needed may be refused: a worker needs no scope for it."""
        failures = 0
        while not self._stopping.is_set():
            try:
                declare()
                return
            except RedriveError as exc:
                if is_temporary(exc):
                    failures += 1
                    self._wait_for_server(failures, exc)
                elif is_needed:
                    raise
                else:
                    logger.info("not_declared application=%s error=%s", self.app.name, exc)
                    return

    def _wait_for_server(self, failures: int, exc: RedriveError) -> None:
        if failures == 1:
            logger.warning("server_away url=%s error=%s", self.client.url, exc)
        self._stopping.wait(AWAY.delay(failures))

    # ---- Claiming -------------------------------------------------------------------------------

    def _claim_all(self, pool: ThreadPoolExecutor, loop: asyncio.AbstractEventLoop) -> None:
        """Until stop(), or until something keeps it from claiming: then run() raises that."""
        try:
            self._claim_until_stopped(pool, loop)
        except BaseException as exc:
            self._error = exc
        finally:
            self.client.close()

    def _claim_until_stopped(self, pool: ThreadPoolExecutor, loop: asyncio.AbstractEventLoop) -> None:
        failures = 0
        while not self._stopping.is_set():
            room = self._held.wait_for_room(self.concurrency, 0.2)
            if room == 0:
                continue
            # What is in hand may defer something, or be retried: only a claim after that tells that all is done.
            was_idle = self._held.is_empty()
            sent = time.monotonic()
            try:
                jobs = self._claim(room)
                failures = 0
            except RedriveError as exc:
                if self._stopping.is_set():
                    break
                if not is_temporary(exc):
                    raise
                failures += 1
                self._wait_for_server(failures, exc)
                continue
            for held, name in self._take(jobs, sent):
                self._start(held, self.app.tasks.get(name), pool, loop)
            if not jobs and self._until_idle:
                if was_idle:
                    break
                self._held.wait_until_empty(0.2)

    def _claim(self, room: int) -> list[dict[str, Any]]:
        self._socket = self.client.connect()
        if self._stopping.is_set():  # stop() may have looked for the socket before it was there
            return []
        wait = 0 if self._until_idle else self._poll
        try:
            return self.client.claim({**self._body, "n": min(room, 500)}, wait=wait)
        finally:
            self._socket = None

    def _take(self, jobs: list[dict[str, Any]], sent: float) -> list[tuple[Held, str]]:
        """Claimed jobs and their tasks, without those whose lease cannot be relied upon.

        In a long poll leases began at an unknown moment since the claim was sent: then they are renewed first.
        """
        taken = [Held(job, Context.of_job(job, self.name), sent + self._lease) for job in jobs]
        if taken and time.monotonic() - sent > self._lease / 4:
            self._held.confirm(taken)
        open_ = [(held, held.context.task) for held in taken if not held.is_settled]
        for held, _ in open_:
            self._held.add(held)
        return open_

    def _start(
        self, held: Held, task: Optional[Task], pool: ThreadPoolExecutor, loop: asyncio.AbstractEventLoop
    ) -> None:
        if task is None:
            self._held.settle(held, {"snooze": _SNOOZE_S})
        elif self._stopping.is_set():
            self._held.settle(held, {"release": True})
        elif not self._held.begin(held):
            logger.warning("attempt_put_off job_id=%s attempt=%d", held.id, held.context.attempt)
            self._held.settle(held, {"snooze": _SNOOZE_S})
        elif task.is_async:
            loop.call_soon_threadsafe(self._begin_coroutine, held, task, loop)
        else:
            future = pool.submit(runner.run_sync, task, held.context)
            held.stop = future.cancel
            if held.context.cancelled:
                future.cancel()
            future.add_done_callback(lambda run: self._end(held, task, run))

    def _begin_coroutine(self, held: Held, task: Task, loop: asyncio.AbstractEventLoop) -> None:
        """Not asyncio.run_coroutine_threadsafe(): its future ends with the cancellation, before the coroutine does."""
        run = loop.create_task(runner.run_async(task, held.context))
        run.add_done_callback(lambda run: self._end(held, task, run))
        held.stop = functools.partial(_cancel, run, loop)
        if held.context.cancelled:
            run.cancel()

    def _end(self, held: Held, task: Task, run: Union[Future[dict[str, Any]], asyncio.Task[dict[str, Any]]]) -> None:
        """A run that may have ended early, because it was told that its lease is over, has not done its work."""
        may_be_cut_short = held.is_over and (task.is_async or task.pass_context)
        self._held.end(held, {"release": True} if may_be_cut_short else _answer_of(run))


def _cancel(run: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing runs in it
        loop.call_soon_threadsafe(run.cancel)


def _answer_of(run: Union[Future[dict[str, Any]], asyncio.Task[dict[str, Any]]]) -> dict[str, Any]:
    """A run that was cancelled belongs to a job that is given back or has lost its lease."""
    if run.cancelled():
        return {"release": True}
    exception = run.exception()
    return runner.failed(exception) if exception is not None else run.result()


def _run_until(closing: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
    """What a job does to the loop, a sys.exit() in a callback or a stop(), is not the end of the other jobs."""
    while not closing.is_set():
        try:
            loop.run_forever()
            if not closing.is_set():
                logger.error("event_loop_interrupted error=a job has stopped it")
        except BaseException as exc:
            logger.error("event_loop_interrupted error=%s: %s", type(exc).__name__, exc)


@contextlib.contextmanager
def _loop_in_thread() -> Any:
    """An event loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    closing = threading.Event()
    thread = threading.Thread(target=_run_until, args=(closing, loop), name="redrive-loop", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        closing.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1)
        if not thread.is_alive():
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            if pending:
                loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            loop.close()
