"""Workers against a real server."""

import hashlib
import json
import logging
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time

import pytest
from conftest import LIMIT_S, wait_for

import redrive
from redrive import App, Worker


@pytest.fixture
def app(server):
    return App(server.url)


def work(app, **options):
    Worker(app, until_idle=True, **options).run()


def run_in_thread(app, **options):
    worker = Worker(app, **options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    return worker, thread


def test_functions_and_coroutines_are_worked(app):
    seen = []

    @app.task(name="add", pass_context=True)
    def add(context, a, b=1):
        seen.append(context)
        return a + b

    @app.task(name="double")
    async def double(a):
        return {"double": 2 * a}

    first = add.configure(queue="slow", user="ann").defer(1, b=2)
    second = double.defer(4)
    work(app, name="w1")
    assert app.job(first.id)["result"] == 3
    assert app.job(second.id)["result"] == {"double": 8}
    assert app.job(first.id)["history"][0]["worker"] == "w1"
    assert (seen[0].job_id, seen[0].attempt, seen[0].queue, seen[0].user) == (first.id, 1, "slow", "ann")


def test_a_job_is_given_the_results_of_its_parents(app):
    seen = {}

    @app.task(name="give")
    def give(value):
        return value

    @app.task(name="gather", pass_context=True)
    async def gather(context):
        seen[context.job_id] = context.parents

    app.client.submit_many(
        [
            {"task": "give", "id": "a", "payload": {"value": {"n": 1}}},
            {"task": "give", "id": "b", "payload": {"value": "x" * 300000}},
            {"task": "gather", "id": "c", "after": ["b", "a"]},
            {"task": "gather", "id": "alone"},
        ]
    )
    work(app)
    assert seen["c"] == [
        redrive.Parent("a", "completed", {"n": 1}),
        redrive.Parent("b", "completed", None, result_omitted=True),
    ]
    assert seen["alone"] == []
    assert app.job("b")["result"] == "x" * 300000


def test_failures_are_classified_by_the_hierarchy_and_have_their_traceback(app):
    class TaskError(Exception):
        pass

    class Special(TaskError):
        pass

    policy = redrive.RetryPolicy(max_attempts=3, strategy="fixed", initial_delay=0.01, min_delay=0)

    @app.task(name="flaky", retry=policy, retry_on=[TaskError], pass_context=True)
    def flaky(context):
        if context.attempt < 3:
            raise Special("not yet")
        return context.attempt

    @app.task(name="broken", retry=policy, retry_on=[TaskError])
    async def broken():
        raise KeyError("x")

    first, second = flaky.defer(), broken.defer()
    worker, thread = run_in_thread(app, poll=1)
    wait_for(lambda: app.job(first.id)["state"] == "completed" and app.job(second.id)["state"] == "dead_letter")
    worker.stop()
    thread.join(LIMIT_S)
    assert app.job(first.id)["attempts"] == 3
    history = app.job(first.id)["history"]
    assert "Special: not yet" in history[0]["error"]["stacktrace"]
    assert 'raise Special("not yet")' in history[0]["error"]["stacktrace"]
    assert app.job(second.id)["attempts"] == 1
    assert app.job(second.id)["last_error"]["type"] == "KeyError"


def test_snooze_costs_no_attempt(app):
    calls = []

    @app.task(name="later")
    def later():
        calls.append(time.monotonic())
        if len(calls) == 1:
            raise redrive.Snooze(0.1)

    job = later.defer()
    worker, thread = run_in_thread(app, poll=1)
    wait_for(lambda: app.job(job.id)["state"] == "completed")
    worker.stop()
    thread.join(LIMIT_S)
    assert app.job(job.id)["attempts"] == 1
    assert len(calls) == 2


def test_payloads_that_do_not_fit(app):
    @app.task(name="add")
    def add(a):
        return a

    app.client.submit({"task": "add", "id": "list", "payload": [1]})
    app.client.submit({"task": "add", "id": "none"})
    work(app)
    assert app.job("list")["last_error"]["class"] == "validation"
    assert app.job("none")["last_error"]["type"] == "TypeError"


def test_a_result_that_is_not_json_is_left_out(app, caplog):
    @app.task(name="odd")
    def odd():
        return object()

    job = odd.defer()
    work(app)
    assert app.job(job.id)["state"] == "completed"
    assert app.job(job.id)["result"] is None
    assert "result_not_json" in caplog.text


def test_what_ends_a_program_does_not_end_a_worker(app):
    @app.task(name="exits", retry=1)
    def exits():
        sys.exit(3)

    @app.task(name="interrupts", retry=1)
    def interrupts():
        raise KeyboardInterrupt

    first, second = exits.defer(), interrupts.defer()
    work(app)
    assert app.job(first.id)["last_error"]["type"] == "SystemExit"
    assert app.job(second.id)["last_error"]["type"] == "KeyboardInterrupt"


def test_leases_are_renewed(app):
    """Every two seconds; a machine may stand still for some."""

    @app.task(name="slow")
    def slow():
        time.sleep(10)
        return "done"

    job = slow.defer()
    work(app, lease=8.0)
    job = app.job(job.id)
    assert (job["state"], job["attempts"]) == ("completed", 1)


def test_a_cancelled_job_is_told(app):
    @app.task(name="slow", pass_context=True)
    def slow(context):
        while not context.cancelled:
            time.sleep(0.01)

    stopped = []

    @app.task(name="slow_too")
    async def slow_too():
        import asyncio

        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    jobs = [slow.defer(), slow_too.defer()]
    worker, thread = run_in_thread(app, lease=5.0, poll=1)
    wait_for(lambda: all(app.job(job.id)["state"] == "running" for job in jobs))
    for job in jobs:
        app.cancel(job.id)
    wait_for(lambda: stopped)
    worker.stop()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert app.job(jobs[0].id)["state"] == "cancelled"


def test_a_stop_waits_and_then_gives_back(app):
    began = threading.Event()
    release = threading.Event()

    @app.task(name="slow")
    def slow():
        began.set()
        release.wait(LIMIT_S)

    job = slow.defer()
    worker, thread = run_in_thread(app, poll=20, shutdown_timeout=0.2)
    assert began.wait(LIMIT_S)
    worker.stop()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    release.set()
    job = app.job(job.id)
    assert (job["state"], job["attempts"]) == ("queued", 0)


def test_an_idle_worker_stops_at_once(app):
    app.task(name="t")(lambda: None)
    worker, thread = run_in_thread(app, poll=60)
    time.sleep(0.3)
    began = time.monotonic()
    worker.stop()
    thread.join(LIMIT_S)
    assert time.monotonic() - began < 40  # of the 60 of its claim


class LateAnswer(socketserver.StreamRequestHandler):
    """Answers a claim when its client has hung up, with a job; notes what is settled."""

    def handle(self):
        while line := self.rfile.readline():
            length = 0
            while (header := self.rfile.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = json.loads(self.rfile.read(length))
            answer = {"items": [{"status": 200} for _ in body.get("items", [])]}
            if b"/v1/claim " in line:
                self.server.claimed.set()
                assert self.rfile.read() == b""
                answer = {"jobs": [{"id": "a", "token": "x", "task": "t", "attempt": 1, "max_attempts": 1}]}
            elif b"/v1/settle " in line:
                self.server.settled += body["items"]
            data = json.dumps(answer).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))


def test_what_the_last_claim_is_answered_is_given_back():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), LateAnswer) as server:
        server.daemon_threads = True
        server.claimed, server.settled = threading.Event(), []
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        app = App(f"http://127.0.0.1:{server.server_address[1]}")
        app.task(name="t")(lambda: None)
        worker, thread = run_in_thread(app)
        assert server.claimed.wait(LIMIT_S)
        worker.stop()
        thread.join(LIMIT_S)
        server.shutdown()
        serving.join(LIMIT_S)
    assert server.settled == [{"id": "a", "token": "x", "release": True}]


def test_a_server_that_goes_away_and_comes_back(app, server, start_server):
    began = threading.Event()
    go_on = threading.Event()

    @app.task(name="slow")
    def slow():
        began.set()
        go_on.wait(LIMIT_S)
        return "done"

    job = slow.defer()
    worker, thread = run_in_thread(app, poll=1)
    assert began.wait(LIMIT_S)
    server.stop()
    go_on.set()
    time.sleep(0.2)
    start_server(port=server.port)
    wait_for(lambda: app.job(job.id)["state"] == "completed")
    worker.stop()
    thread.join(LIMIT_S)
    assert app.job(job.id)["attempts"] == 1


def test_a_server_that_refuses(start_server):
    server = start_server({"tokens": [{"name": "t", "hash": "sha256:" + "0" * 64, "scopes": ["work"]}]})
    app = App(server.url, token="wrong")
    app.task(name="t")(lambda: None)
    with pytest.raises(redrive.ServerError) as caught:
        work(app)
    assert caught.value.status == 401
    assert "REDRIVE_TOKEN" in caught.value.hint
    with pytest.raises(redrive.NotFoundError, match="no tasks"):
        work(App(server.url))


def entries(app):
    return {entry["name"]: entry for entry in app.client._object("GET", "/cron")["items"]}


def test_periodic_tasks_are_stored(app):
    @app.periodic(cron="*/2 * * * *", payload={"kind": "digest"})
    @app.task(name="digest")
    def digest(kind):
        pass

    work(app)
    entry = entries(app)["digest"]
    assert (entry["task"], entry["schedule"], entry["declared_by"]) == ("digest", "*/2 * * * *", "test_worker")
    work(app)
    assert entries(app) == {"digest": entry}


def test_a_periodic_task_runs_in_its_queue_by_its_policy(app):
    ran = []

    @app.periodic(cron="0 3 * * *", name="tick")
    @app.task(name="digest", queue="nightly", retry=2)
    def digest():
        ran.append(1)

    work(app, queues=["nightly"])
    id_ = app.client._object("POST", "/cron/tick/run")["id"]
    job = app.job(id_)
    assert (job["queue"], job["max_attempts"]) == ("nightly", 2)
    app.client.submit({"task": "digest", "id": "by-hand", "payload": {}})
    work(app, queues=["nightly"])
    assert (app.job(id_)["state"], app.job("by-hand")["state"], len(ran)) == ("completed", "completed", 2)


def test_an_entry_that_is_no_longer_in_the_program_is_removed(server):
    def program(*names, **options):
        app = App(server.url, **options)
        task = app.task(name="t")(lambda: None)
        for name in names:
            app.periodic(cron="0 3 * * *", name=name)(task)
        return app

    work(program("a", "b", name="shop"))
    work(program("c", name="news"))
    app = program("b", name="shop")
    app.client._object("PUT", "/cron/of-an-operator", {"task": "t", "schedule": "@daily"})
    work(app)
    assert sorted(entries(app)) == ["b", "c", "of-an-operator"]
    work(program(name="shop"))
    assert sorted(entries(app)) == ["c", "of-an-operator"]


def test_a_worker_without_the_scope_admin_works(start_server, caplog):
    scopes = ["work", "enqueue", "read"]
    token = hashlib.sha256(b"secret").hexdigest()
    server = start_server({"tokens": [{"name": "t", "hash": f"sha256:{token}", "scopes": scopes}]})
    app = App(server.url, token="secret")
    task = app.task(name="t")(lambda: None)
    job = task.defer()
    with caplog.at_level(logging.INFO, "redrive"):
        work(app)
    assert app.job(job.id)["state"] == "completed"
    assert "not_declared application=test_worker" in caplog.text
    app.periodic(cron="0 3 * * *")(task)
    with pytest.raises(redrive.ServerError, match="admin") as caught:
        work(app)
    assert caught.value.status == 403


MODULE = """
import os, time
import redrive

app = redrive.App(os.environ["JOBS_URL"])

@app.task(name="add")
def add(a, b):
    print("adding", flush=True)
    return a + b

@app.task(name="slow")
def slow():
    open("began", "w").close()
    time.sleep(float(os.environ.get("SLOW", "1")))
    return "done"
"""


@pytest.fixture
def start_worker(tmp_path, server):
    (tmp_path / "shop.py").write_text(MODULE)
    processes = []

    def start(*words, place="shop:app", program=None, **env):
        program = program or ["-m", "redrive", "worker", place, *words]
        processes.append(
            subprocess.Popen(
                [sys.executable, *program],
                cwd=tmp_path,
                env={**os.environ, "JOBS_URL": server.url, **env},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def submit(app, name):
    app.client.submit({"task": name, "id": name, "payload": {"a": 1, "b": 2} if name == "add" else None})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(app, tmp_path, start_worker, number):
    submit(app, "slow")
    process = start_worker()
    wait_for(lambda: (tmp_path / "began").exists())
    process.send_signal(number)
    assert process.wait(LIMIT_S) == 0
    assert app.job("slow")["state"] == "completed"


def test_a_second_signal_gives_back(app, tmp_path, start_worker):
    submit(app, "slow")
    process = start_worker(SLOW="60")
    wait_for(lambda: (tmp_path / "began").exists())
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0
    job = app.job("slow")
    assert (job["state"], job["attempts"]) == ("queued", 0)


SIGNAL_IN_A_SIGNAL = """
import os, signal, threading
import redrive, shop

class Interrupted(threading.Event):
    def set(self):
        with self._cond:
            if not self.is_set():
                signal.raise_signal(signal.SIGTERM)
        super().set()

worker = redrive.Worker(shop.app)
worker._stopping = Interrupted()
worker.run(signals=True)
os._exit(0)
"""


def test_a_second_signal_while_the_first_one_is_acted_on_gives_back(app, tmp_path, start_worker):
    submit(app, "slow")
    process = start_worker(program=["-c", SIGNAL_IN_A_SIGNAL], SLOW="60")
    wait_for(lambda: (tmp_path / "began").exists())
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 0
    job = app.job("slow")
    assert (job["state"], job["attempts"]) == ("queued", 0)


RUN_IN_A_PROGRAM = """
import signal, shop, redrive
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
redrive.Worker(shop.app).run()
"""


def test_an_interrupt_of_a_program_that_runs_a_worker_gives_back(app, tmp_path, start_worker):
    submit(app, "slow")
    process = start_worker(program=["-c", RUN_IN_A_PROGRAM], SLOW="60")
    wait_for(lambda: (tmp_path / "began").exists())
    process.send_signal(signal.SIGINT)
    wait_for(lambda: app.job("slow")["state"] == "queued")
    assert app.job("slow")["attempts"] == 0
    # Then Python waits for the function in its thread.
    assert any("KeyboardInterrupt" in line for line in process.stderr)


def test_the_command_works_until_idle(app, start_worker):
    submit(app, "add")
    process = start_worker("--until-idle", "--queues", "default", "--concurrency", "2", "--name", "w")
    assert process.wait(LIMIT_S) == 0
    assert app.job("add")["result"] == 3


def test_a_killed_worker_loses_nothing(app, tmp_path, start_worker):
    submit(app, "slow")
    process = start_worker("--lease", "3", SLOW="60")
    wait_for(lambda: (tmp_path / "began").exists())
    process.kill()
    start_worker("--lease", "3", SLOW="0")
    wait_for(lambda: app.job("slow")["state"] == "completed")


def test_until_idle_waits_for_what_a_job_defers(app):
    @app.task(name="count")
    def count(n):
        time.sleep(0.05)
        if n > 0:
            count.defer(n - 1)

    count.defer(3)
    work(app)
    assert app.client._object("GET", "/jobs?state=completed")["items"][3]["task"] == "count"


def test_what_ends_the_claims_ends_the_worker(app):
    app.task(name="t")(lambda: None)
    worker = Worker(app)
    worker.client.claim = lambda body, wait: [{"id": "no token"}]
    with pytest.raises(KeyError):
        worker.run()


def test_a_worker_that_cannot_claim_exits_with_an_error(start_worker, tmp_path):
    (tmp_path / "odd.py").write_text(
        "from shop import app\n"
        "def claim(body, wait):\n"
        "    raise ZeroDivisionError('no claims today')\n"
        "app.client.claim = claim\n"
    )
    process = start_worker(place="odd:app")
    assert process.wait(LIMIT_S) == 1
    assert "no claims today" in process.stderr.read()


def test_a_worker_with_a_timetable_waits_for_its_server(server, start_server):
    app = App(server.url)
    seen = threading.Event()

    @app.periodic(cron="*/2 * * * *")
    @app.task(name="digest")
    def digest():
        seen.set()

    digest.defer()
    server.stop()
    worker, thread = run_in_thread(app, poll=1)
    time.sleep(0.3)
    assert thread.is_alive()
    start_server(port=server.port)
    assert seen.wait(LIMIT_S)
    assert wait_for(lambda: entries(app))["digest"]["task"] == "digest"
    worker.stop()
    thread.join(LIMIT_S)


def test_an_application_of_many_tasks_leaves_the_jobs_of_others_alone(app):
    ran = []
    for n in range(200):
        app.task(name=f"t{n}")(lambda n=n: ran.append(n))
    app.client.submit({"task": "of_another", "id": "other"})
    app.client.submit({"task": "t150", "id": "own"})
    work(app)
    assert ran == [150]
    assert (app.job("other")["state"], app.job("other")["history"]) == ("queued", [])


def test_an_application_has_no_more_tasks_than_a_claim_can_name():
    app = App("http://127.0.0.1:1")
    for n in range(1001):
        app.task(name=f"t{n}")(lambda: None)
    with pytest.raises(redrive.InvalidArgumentError, match="has 1001 tasks"):
        Worker(app)
