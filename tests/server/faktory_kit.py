"""The Faktory server as a program, and a client that speaks bytes."""

import hashlib
import json
import os
import pathlib
import socket
import subprocess
import time

import pytest

from serve_kit import memory_mib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("REDRIVE_BUILD", ROOT / "build")).resolve()
PROGRAM = BUILD / "tests" / "server" / "faktory_server"

# Nothing here takes long; what does, hangs.
LIMIT_S = 30


class ServerError(Exception):
    """An error reply."""


class Server:
    """A running server; with it the commands of its standard input."""

    def __init__(self, store, *arguments):
        self.process = subprocess.Popen(
            [str(PROGRAM), *arguments, store],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read())
        self.port = int(line)
        self.clients = []
        self.is_over = False

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def connect(self, **hello):
        client = Client(self.port, **hello)
        self.clients.append(client)
        return client

    def worker(self, wid="w1", **hello):
        return self.connect(wid=wid, pid=1, labels=[], hostname="test", **hello)

    def peak_mib(self):
        """The most memory that it has had."""
        return memory_mib(self.process.pid, "VmHWM")

    def close(self):
        """Ends it; whatever it complained of on its way is an error."""
        self.is_over = True
        for client in self.clients:
            client.socket.close()
        try:
            _, complaints = self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert (self.process.returncode, complaints) == (0, ""), f"{self.process.returncode} {complaints}"


class Client:
    def __init__(self, port, password=None, greet=True, tls=None, **hello):
        """`tls` is an ssl.SSLContext."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.file = self.socket.makefile("rb")
        if not greet:
            return
        word, greeting = self.reply().split(" ", 1)
        assert word == "HI"
        self.greeting = json.loads(greeting)
        hello.setdefault("v", 2)
        if password is not None:
            digest = (password + self.greeting["s"]).encode()
            for _ in range(self.greeting["i"]):
                digest = hashlib.sha256(digest).digest()
            hello["pwdhash"] = digest.hex()
        assert self.ask("HELLO " + json.dumps(hello)) == "OK"

    def send(self, *lines):
        self.socket.sendall(b"".join(line.encode() + b"\r\n" if isinstance(line, str) else line for line in lines))

    def reply(self):
        """The next reply: text, or None for nil; an error is raised."""
        line = self.file.readline()
        if not line:
            raise EOFError
        assert line.endswith(b"\r\n")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"+":
            return rest
        if kind == b"-":
            raise ServerError(rest)
        assert kind == b"$"
        if rest == "-1":
            return None
        body = self.file.read(int(rest))
        assert self.file.read(2) == b"\r\n"
        return body.decode()

    def ask(self, line):
        self.send(line)
        return self.reply()

    def error(self, line):
        try:
            reply = self.ask(line)
        except ServerError as error:
            return str(error)
        raise AssertionError(f"{line} was answered with {reply}")

    def push(self, jid, jobtype="Task", args=(), **more):
        assert self.ask("PUSH " + job(jid, jobtype, args, **more)) == "OK"

    def fetch(self, *queues):
        text = self.ask("FETCH " + " ".join(queues or ("default",)))
        return None if text is None else json.loads(text)

    def ack(self, jid):
        assert self.ask("ACK " + json.dumps({"jid": jid})) == "OK"

    def fail(self, jid, errtype="IOError", message="it broke", backtrace=("a", "b")):
        said = {"jid": jid, "errtype": errtype, "message": message, "backtrace": list(backtrace)}
        assert self.ask("FAIL " + json.dumps(said)) == "OK"

    def info(self):
        return json.loads(self.ask("INFO"))["faktory"]

    def info_of(self, part):
        return json.loads(self.ask("INFO"))[part]

    def mutate(self, **operation):
        return self.ask("MUTATE " + json.dumps(operation))

    def is_closed(self):
        """Whether the other side has gone; waits for it."""
        try:
            return self.file.read(1) == b""
        except ConnectionError:
            return True


def job(jid, jobtype="Task", args=(), **more):
    return json.dumps({"jid": jid, "jobtype": jobtype, "args": list(args), **more})


def wait_until(condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


@pytest.fixture
def start_server(tmp_path):
    servers = []

    def open_one(*arguments, config=None):
        if config is not None:
            path = tmp_path / "redrive.yaml"
            path.write_text(config)
            arguments = ("--config", str(path), *arguments)
        servers.append(Server(f"sqlite:{tmp_path}/jobs.db", *arguments))
        return servers[-1]

    yield open_one
    for server in servers:
        if not server.is_over:
            server.close()


@pytest.fixture
def server(start_server):
    return start_server()
