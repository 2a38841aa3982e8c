"""Servers for the tests of the queue, and a clock for those of the decorator."""

import asyncio
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.kit import servers
from tests.kit.waiting import LIMIT_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("REDRIVE_BIN", str(ROOT / "build" / "redrive"))


def pytest_collection_modifyitems(config, items):
    """Slow ones are left out rather than skipped, as in tests/conftest.py."""
    if os.environ.get("REDRIVE_SLOW"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def wait_for(condition, what="it"):
    until = time.monotonic() + LIMIT_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def closed_loop_running():
    """Code in it finds a loop that is closed, as a finalizer does that runs while a program ends."""
    loop = asyncio.new_event_loop()
    loop.close()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


class Clock:
    """Time that only sleeping moves."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(round(seconds, 3))
        self.now += seconds

    async def sleep_async(self, seconds):
        self.sleep(seconds)


@pytest.fixture
def clock():
    return Clock()


class Server:
    """A `redrive serve` on a free port, with a store of its own."""

    def __init__(self, directory, config=None, port=0):
        self.dir = directory
        self.config = directory / "server.yaml"
        store = {"store": f"sqlite:{directory}/jobs.db"}
        listen = {"listen": {"http": f"127.0.0.1:{port}", "faktory": "off"}}
        retry = {"defaults": {"retry": {"initial_delay": "10ms", "min_delay": "0s", "jitter": "none"}}}
        self.config.write_text(json.dumps({**store, **listen, **retry, **(config or {})}))
        self.log = directory / f"server-{time.monotonic_ns()}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "-c", str(self.config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.port = int(wait_for(self._address, lambda: self.log.read_text()).group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def _address(self):
        assert self.process.poll() is None, self.log.read_text()
        text = self.log.read_text()
        return "serving" in text and re.search(r"listening interface=http address=\S+:(\d+)", text)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@pytest.fixture
def start_server(tmp_path):
    servers = []

    def start(config=None, port=0):
        servers.append(Server(tmp_path, config, port))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture
def run_python(tmp_path):
    """Runs `python ARGUMENTS…` in a folder that has the given module."""

    def run(*words, module=None, check=True, **options):
        if module is not None:
            (tmp_path / "shop.py").write_text(module)
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, **options
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


class Source:
    """A web server that gives the answers of a path one after the other, and the last one from then on."""

    def __init__(self):
        self._answers = {}
        source = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                source._answer(self)

            def log_message(self, *_arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def will_say(self, path, *answers):
        """A number is a status, a text the body of a page that is there."""
        self._answers[path] = list(answers)

    def _answer(self, request):
        answers = self._answers.get(request.path, [404])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        request.send_response(answer if isinstance(answer, int) else 200)
        request.end_headers()
        if isinstance(answer, str):
            request.wfile.write(answer.encode())

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def source():
    made = Source()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def postgres():
    try:
        with servers.Postgres() as started:
            yield started
    except servers.Missing as missing:
        pytest.skip(str(missing))
