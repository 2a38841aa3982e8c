"""Leases behind connections that die without a sign of it."""

import asyncio
import concurrent.futures
import json
import logging
import os
import random
import subprocess
import sys
import threading
import time

import pytest
from conftest import LIMIT_S, wait_for
from tests.kit import black_hole

from redrive import App, Worker
from redrive.queue._held import Held, HeldJobs
from redrive.queue.context import Context

#: Seconds; a renewal has a quarter of it, which a loaded machine keeps to.
LEASE = 5.0


@pytest.fixture
def network(server):
    with black_hole.BlackHole(server.port) as proxy:
        yield proxy


@pytest.fixture
def start(network):
    """Starts a worker whose connections go through the network; it is stopped at the end."""
    started = []

    def start(app, **options):
        app.client = App(f"http://127.0.0.1:{network.port}").client
        worker = Worker(app, poll=1, shutdown_timeout=0.5, **options)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        started.append((worker, thread))
        return worker

    yield start
    for worker, thread in started:
        worker.stop()
        thread.join(LIMIT_S)


def test_a_renewal_that_gets_no_answer_is_made_again_by_a_new_connection(server, network, start):
    app, direct = App(), App(server.url)
    runs, go_on = [], threading.Event()

    @app.task(name="slow")
    def slow():
        runs.append(1)
        go_on.wait(LIMIT_S)
        return "done"

    network.swallow("/v1/extend")
    direct.client.submit({"task": "slow", "id": "a"})
    start(app, lease=LEASE)
    wait_for(lambda: network.holes == 1)
    swallowed_at = time.monotonic()
    # The lease of the claim is over by then: a renewal has kept the job.
    wait_for(lambda: len(runs) > 1 or time.monotonic() > swallowed_at + LEASE)
    assert direct.job("a")["state"] == "running"
    go_on.set()
    wait_for(lambda: direct.job("a")["state"] == "completed")
    assert (len(runs), direct.job("a")["attempts"]) == (1, 1)


def test_a_run_is_told_when_its_lease_is_over_and_no_other_attempt_starts_beside_it(server, network, start, caplog):
    app, direct = App(), App(server.url)
    told, go_on, runs = threading.Event(), threading.Event(), []
    running = []

    @app.task(name="slow", pass_context=True)
    def slow(context):
        runs.append(context.attempt)
        running.append(len(runs))
        assert len(running) == 1, "two attempts at one time"
        if len(runs) == 1:
            wait_for(lambda: context.cancelled)
            told.set()
            go_on.wait(LIMIT_S)  # as a function does that cannot be interrupted
        running.pop()
        return "done"

    network.swallow_all("/v1/extend")
    direct.client.submit({"task": "slow", "id": "a"})
    with caplog.at_level(logging.WARNING, "redrive"):
        start(app, lease=2.0)
        assert told.wait(LIMIT_S)
        network.heal()
        wait_for(lambda: "attempt_put_off job_id=a" in caplog.text)
        go_on.set()
        wait_for(lambda: direct.job("a")["state"] == "completed")
    assert "lease_over job_id=a" in caplog.text
    job = direct.job("a")
    assert len(runs) == 2
    assert [entry["error"]["type"] for entry in job["history"] if entry.get("error")] == ["LeaseExpired"]


def test_a_coroutine_that_cleans_up_has_not_ended(server, network, start, caplog):
    app, direct = App(), App(server.url)
    cleaning, go_on, runs = threading.Event(), threading.Event(), []
    running, cleaned_up = [], []

    @app.task(name="slow")
    async def slow():
        runs.append(1)
        running.append(1)
        assert len(running) == 1, "two attempts at one time"
        try:
            if len(runs) == 1:
                await asyncio.sleep(60)
        finally:
            cleaning.set()
            while not go_on.is_set():
                await asyncio.sleep(0.02)
            running.pop()
            cleaned_up.append(1)

    network.swallow_all("/v1/extend")
    direct.client.submit({"task": "slow", "id": "a"})
    with caplog.at_level(logging.WARNING, "redrive"):
        start(app, lease=2.0)
        assert cleaning.wait(LIMIT_S)
        network.heal()
        wait_for(lambda: "attempt_put_off job_id=a" in caplog.text)
        wait_for(lambda: "lease_lost job_id=a" in caplog.text)
        go_on.set()
        wait_for(lambda: direct.job("a")["state"] == "completed")
    assert (len(runs), len(cleaned_up)) == (2, 2)


def test_a_settlement_that_gets_no_answer_is_sent_again_by_a_new_connection(server, network, start):
    app, direct = App(), App(server.url)
    runs = []

    @app.task(name="quick")
    def quick():
        runs.append(1)

    network.swallow("/v1/settle")
    direct.client.submit({"task": "quick", "id": "a"})
    start(app, lease=LEASE)
    wait_for(lambda: direct.job("a")["state"] == "completed")
    assert (len(runs), direct.job("a")["attempts"]) == (1, 1)


# ---- Without a server ----------------------------------------------------------------------------


def test_a_function_that_was_told_to_stop_before_it_could_be_stopped_does_not_begin():
    app = App("http://127.0.0.1:1")
    app.task(name="t")(lambda: None)
    held = make_held(time.monotonic() + 60)

    class Pool:
        def submit(self, function, *words):
            held.cancel()  # by another thread, whose lease has ended just now
            return waiting

    waiting = concurrent.futures.Future()
    worker = Worker(app)
    worker._held = HeldJobs(Server(), lease=60)
    worker._held.add(held)
    worker._start(held, app.tasks["t"], Pool(), None)
    assert waiting.cancelled()
    assert worker._held.running() == 0


class Server:
    """What a client of it is answered."""

    def __init__(self):
        self.extend_status = 200
        self.extended = []
        self.settled = []
        self.is_away = False

    def extend(self, items, *, timeout):
        self.extended.append(timeout)
        if self.is_away:
            raise RuntimeError("away")
        return [{"status": self.extend_status} for _ in items]

    def settle(self, items, *, timeout):
        self.settled += [json.loads(item) for item in items]
        return [{"status": 200} for _ in items]


def make_held(lease_until):
    job = {"id": "a", "token": "t", "task": "t", "attempt": 1, "max_attempts": 1}
    return Held(job, Context.of_job(job), lease_until)


def test_a_job_whose_lease_is_over_stays_in_hand_while_it_runs():
    server = Server()
    server.is_away = True
    jobs = HeldJobs(server, lease=0.2)
    held = make_held(time.monotonic() + 0.2)
    jobs.add(held)
    assert jobs.begin(held)
    jobs.start()
    wait_for(lambda: held.context.cancelled)
    assert (jobs.running(), jobs.is_empty(), held.is_over) == (1, False, True)
    before = held.lease_until
    server.is_away = False
    wait_for(lambda: held.lease_until > before)
    jobs.end(held, {"release": True})
    assert jobs.wait_until_empty(LIMIT_S)
    assert [item["release"] for item in server.settled] == [True]
    assert max(server.extended) <= 0.05
    jobs.close()


def test_a_lost_job_makes_no_room_before_its_run_has_ended():
    server = Server()
    server.extend_status = 409
    jobs = HeldJobs(server, lease=0.1)
    held = make_held(time.monotonic() + 60)
    jobs.add(held)
    assert jobs.begin(held)
    jobs.start()
    wait_for(jobs.is_empty)
    assert held.context.cancelled
    assert jobs.wait_for_room(1, 0) == 0
    assert not jobs.begin(make_held(time.monotonic() + 60))
    jobs.end(held, {"status": "SUCCESS"})
    assert jobs.wait_for_room(1, 0) == 1
    jobs.close()
    assert server.settled == []


@pytest.mark.parametrize("is_away", [True, False])
def test_leases_that_a_long_poll_has_left_old_are_renewed_before_a_start(is_away):
    server = Server()
    server.is_away, server.extend_status = is_away, 409
    jobs = HeldJobs(server, lease=30)
    held = make_held(time.monotonic() - 1)
    jobs.confirm([held])
    assert held.is_settled
    server.is_away, server.extend_status = False, 200
    other = make_held(time.monotonic() - 1)
    jobs.confirm([other])
    assert not other.is_settled
    assert other.lease_until > time.monotonic() + 20


# ---- Processes ------------------------------------------------------------------------------------

SHOP = """
import os, time
import redrive

app = redrive.App(os.environ["JOBS_URL"])
log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note(word, context):
    os.write(log, f"{time.monotonic()} {word} {context.job_id} {context.attempt} {os.getpid()}\\n".encode())

@app.task(name="wait", pass_context=True)
def wait(context, seconds):
    note("start", context)
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not context.cancelled:
            time.sleep(0.01)
    finally:
        note("end", context)
"""


def overlaps(lines):
    """Attempts of a job that began before an earlier one had ended."""
    open_, found = {}, []
    for _at, word, id_, attempt, pid in sorted((line.split() for line in lines), key=lambda words: float(words[0])):
        if word == "end":
            open_.pop((id_, attempt, pid), None)
        else:
            found += [(id_, attempt, other[1]) for other in open_ if other[0] == id_]
            open_[id_, attempt, pid] = True
    return found


def test_the_judge_sees_an_overlap():
    lines = ["1 start a 1 7", "3 end a 1 7", "2 start a 2 7", "4 end a 2 7", "5 start a 3 8", "6 end a 3 8"]
    assert overlaps(lines) == [("a", "2", "1")]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_workers_whose_connections_become_black_holes_lose_no_job(server, network, tmp_path):
    direct = App(server.url)
    rng = random.Random(1)
    (tmp_path / "shop.py").write_text(SHOP)
    ids = [f"job-{n}" for n in range(30)]
    for id_ in ids:
        direct.client.submit({"task": "wait", "id": id_, "payload": {"seconds": rng.choice((0.1, 3, 12))}})
    command = [sys.executable, "-m", "redrive", "worker", "shop:app", "--lease", str(LEASE), "--concurrency", "5"]
    env = {**os.environ, "JOBS_URL": f"http://127.0.0.1:{network.port}"}
    with open(tmp_path / "workers.log", "wb") as log:
        workers = [subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log) for _ in range(2)]
    try:
        until = time.monotonic() + 240
        while any(direct.job(id_)["state"] not in ("completed", "dead_letter") for id_ in ids):
            assert time.monotonic() < until, [direct.job(id_) for id_ in ids]
            path = rng.choice(("/v1/extend", "/v1/extend", "/v1/extend", "/v1/settle"))
            network.swallow(path, answers_only=rng.random() < 0.5)
            time.sleep(rng.uniform(0.5, 2))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    said = (tmp_path / "workers.log").read_text()
    assert network.holes >= 5, said
    assert [id_ for id_ in ids if direct.job(id_)["state"] != "completed"] == [], said
    assert overlaps((tmp_path / "log").read_text().splitlines()) == [], said
