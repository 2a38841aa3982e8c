"""Applications and tasks, without a server: what is sent, and what is refused."""

import asyncio
import datetime
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading

import pytest
from conftest import LIMIT_S, closed_loop_running, wait_for

import redrive
from redrive import App, InvalidArgumentError, RetryPolicy, SerializationError, UnreachableError
from redrive.queue.client import Client


@pytest.fixture
def app():
    return App("http://127.0.0.1:1")


def test_arguments_become_the_payload_by_name(app):
    @app.task(queue="mail", retry=RetryPolicy(max_attempts=5, initial_delay=2), retry_on=[ConnectionError])
    def send(to, subject="hello", *, copies=1):
        return to

    assert send("ann") == "ann"
    job = send.configure(priority=5, schedule_in=90, unique_key="k", id="a").job("ann", copies=2)
    assert job == {
        "task": "test_app.test_arguments_become_the_payload_by_name.<locals>.send",
        "payload": {"to": "ann", "copies": 2},
        "id": "a",
        "queue": "mail",
        "priority": 5,
        "delay": "90000ms",
        "unique_key": "k",
        "retry": {"max_attempts": 5, "initial_delay": "2000ms", "retry_on": ["builtins.ConnectionError"]},
    }


def test_wrong_calls_are_refused_at_once(app):
    @app.task(name="send", pass_context=True)
    def send(context, to):
        pass

    @app.task
    def many(*people):
        pass

    with pytest.raises(TypeError, match=r"send\(\).*missing"):
        send.defer()
    with pytest.raises(TypeError, match="unexpected"):
        send.defer("ann", who="bob")
    with pytest.raises(TypeError, match="people has no name"):
        many.defer("ann")
    with pytest.raises(InvalidArgumentError, match="two tasks"):
        app.task(name="send")(lambda: None)
    with pytest.raises(InvalidArgumentError, match="time zone"):
        send.configure(schedule_at=datetime.datetime(2026, 1, 1))
    with pytest.raises(InvalidArgumentError, match="for tasks"):
        app.periodic(cron="* * * * *")(lambda: None)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", float("nan"), datetime.date.today()])
def test_arguments_that_are_not_json(app, value):
    @app.task(name="send")
    def send(to):
        pass

    with pytest.raises(SerializationError) as caught:
        send.defer(to=value)
    assert caught.value.detail.startswith("to: ")
    assert "numbers" in caught.value.hint
    assert isinstance(caught.value, TypeError)


def test_a_server_that_is_away(app):
    @app.task(name="send")
    def send(to):
        pass

    with pytest.raises(UnreachableError) as caught:
        send.defer("ann")
    assert "redrive serve" in caught.value.hint
    assert isinstance(caught.value, ConnectionError)
    with pytest.raises(UnreachableError):
        asyncio.run(send.defer_async("ann"))


def test_a_server_that_is_something_else():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def answer():
            connection, _address = listener.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(redrive.ServerError, match="not a Redrive server"):
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}").job("a")
        thread.join()


def test_addresses():
    with pytest.raises(InvalidArgumentError, match="not the address"):
        App("postgres://localhost/jobs")
    with pytest.raises(InvalidArgumentError, match="no server"):
        App().job("a")


def test_a_loop_that_shuts_down(app):
    @app.task(name="send")
    def send(to):
        pass

    async def main():
        await asyncio.get_running_loop().shutdown_default_executor()
        with pytest.raises(redrive.StoppingError, match="shutting down"):
            await send.defer_async("ann")

    asyncio.run(main())


def test_a_loop_that_is_closed_or_missing(app):
    @app.task(name="send")
    def send(to):
        pass

    # In a finalizer that asyncio runs late, or in a library that drives coroutines by itself.
    with closed_loop_running(), pytest.raises(redrive.StoppingError, match=r"loop is closed\nhint: defer") as caught:
        send.defer_async("ann").send(None)
    assert caught.value.code == "STOPPING"
    with pytest.raises(redrive.ConflictError, match=r"no event loop.*\nhint: await it inside asyncio.run"):
        send.defer_async("ann").send(None)


def test_configuration_for_the_server(app):
    @app.periodic(cron="*/2 * * * *", timezone="Europe/Berlin")
    @app.task(
        name="tick", queue="slow", retry=RetryPolicy(max_attempts=3, on={"network": RetryPolicy(initial_delay=5)})
    )
    def tick():
        pass

    assert app.configuration() == {
        "tasks": {
            "tick": {
                "queue": "slow",
                "retry": {"max_attempts": 3},
                "on": {"network": {"initial_delay": "5000ms"}},
            }
        },
        "cron": {
            "tick": {"task": "tick", "schedule": "*/2 * * * *", "timezone": "Europe/Berlin", "overlap": "skip"},
        },
    }


def test_a_task_with_a_function_as_strategy_is_left_out_of_the_configuration(tmp_path):
    (tmp_path / "shop_of_functions.py").write_text("""
import redrive

app = redrive.App("http://127.0.0.1:1")
slow = redrive.RetryPolicy(on={"network": redrive.RetryPolicy(strategy=lambda n: n)})

@app.task(name="send", queue="mail", retry=3)
def send(to): ...

@app.task(name="call", retry=redrive.RetryPolicy(strategy=lambda n: 2 * n))
def call(to): ...

@app.task(name="ask", retry=slow)
def ask(to): ...
""")
    command = [sys.executable, "-m", "redrive", "config", "shop_of_functions:app"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    comments = [line for line in done.stdout.splitlines() if line.startswith("# ")]
    assert [line.split()[1] for line in comments if "left out" in line] == ["call", "ask"]
    sections = json.loads("".join(line for line in done.stdout.splitlines(True) if not line.startswith("#")))
    assert sections == {"tasks": {"send": {"queue": "mail", "retry": {"max_attempts": 3}}}}


def test_a_connection_is_not_shared_with_a_forked_child(server):
    client = Client(server.url)
    client.submit({"task": "t", "id": "a"})
    parents = client.connect()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            client.submit({"task": "t", "id": "b"})
            assert client.connect() is not parents
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert client.job("b")["state"] == "queued"
    assert client.connect() is parents


def test_jobs_of_a_server(server):
    app = App(server.url)

    @app.task(name="send", retry=2)
    def send(to):
        pass

    job = send.configure(unique_key="k", schedule_in=3600).defer("ann")
    assert (job.state, job.existed) == ("scheduled", False)
    again = send.configure(unique_key="k").defer("ann")
    assert (again.id, again.existed) == (job.id, True)
    assert app.job(job.id)["payload"] == {"to": "ann"}
    assert app.job(job.id)["max_attempts"] == 2
    app.cancel(job.id)
    assert app.job(job.id)["state"] == "cancelled"
    many = app.defer_many(send.configure().job(to) for to in ("bob", "eve"))
    assert [job.state for job in many] == ["queued", "queued"]
    with pytest.raises(redrive.NotFoundError):
        app.job("none such")
    with pytest.raises(redrive.ServerError) as caught:
        send.configure(priority=1000).defer("ann")
    assert caught.value.status == 400
    assert "priority" in str(caught.value)

    async def main():
        return await asyncio.gather(*(send.defer_async(str(n)) for n in range(20)))

    assert len({job.id for job in asyncio.run(main())}) == 20


def test_a_kept_connection_that_the_server_has_closed(server, start_server):
    app = App(server.url)

    @app.task(name="send")
    def send(to):
        pass

    send.defer("ann")
    server.stop()
    with pytest.raises(UnreachableError):
        send.defer("bob")
    start_server(port=server.port)
    send.defer("eve")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:7419", "localhost", "jobs.example.org:7070", "http://", "http://h:99999", ""]
)
def test_the_address_of_a_server_has_a_scheme(url):
    with pytest.raises(redrive.InvalidArgumentError, match="is not the address of a server") as caught:
        App(url)
    assert "http://" in caught.value.hint


def test_an_application_is_called_as_its_module():
    assert App().name == "test_app"
    assert App(name="shop-2").name == "shop-2"
    with pytest.raises(redrive.InvalidArgumentError, match="name of an application"):
        App(name="my shop")


class Silent(socketserver.StreamRequestHandler):
    """Answers the first request of a connection, and hangs up on the second one."""

    def handle(self):
        for body in (b'{"id": "a"}', None):
            line = self.rfile.readline()
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            if line:
                self.server.seen.append(line.decode().split()[:2])
            if body is not None:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@pytest.fixture
def silent():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as server:
        server.daemon_threads = True
        server.seen = []
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def test_what_must_not_be_done_twice_is_sent_once(silent):
    client = Client(f"http://127.0.0.1:{silent.server_address[1]}")
    client.job("a")
    with pytest.raises(redrive.UnreachableError):
        client.retry("a")
    assert silent.seen == [["GET", "/v1/jobs/a"], ["POST", "/v1/jobs/a/retry"]]
    client.retry("a")
    with pytest.raises(redrive.UnreachableError):
        client.claim({}, wait=0)
    client.job("a")
    client.job("a")  # may be repeated, by a new connection
    assert [path for _, path in silent.seen[3:]] == ["/v1/claim", "/v1/jobs/a", "/v1/jobs/a", "/v1/jobs/a"]


def test_a_connection_that_was_closed_meanwhile_is_not_used(server, start_server):
    client = Client(server.url)
    client.submit({"task": "t", "id": "a"})
    kept = client.connect()
    server.stop()
    start_server(port=server.port)
    wait_for(lambda: client.connect() is not kept)
    assert client.retry("a")["state"] == "queued"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("shopp:app", "there is no module shopp\nhint: did you mean shop?"),
        ("nowhere.at.all:app", "there is no module nowhere\nhint: modules are looked for in"),
        ("shop", "'shop' does not say where the application is\nhint: MODULE:APP, such as shop:app"),
        ("shop:", "hint: MODULE:APP, such as shop:app"),
        (":app", "hint: MODULE:APP"),
        ("shop:ap", "shop has no application named ap\nhint: did you mean app?"),
        ("shop:other", "shop has no application named other\nhint: it has app"),
        ("empty:app", "empty has no application named app\nhint: make one"),
    ],
)
def test_an_application_that_is_not_there_is_said_in_words(run_python, tmp_path, place, said):
    (tmp_path / "empty.py").write_text("app = 5\n")
    module = "import redrive\napp = redrive.App()\n"
    done = run_python("-m", "redrive", "worker", place, module=module, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("redrive: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_lacks_another_one_shows_where(run_python):
    done = run_python("-m", "redrive", "worker", "shop:app", module="import shopping_cart\n", check=False)
    assert done.returncode == 1
    assert "import shopping_cart" in done.stderr
