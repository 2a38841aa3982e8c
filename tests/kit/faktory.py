"""A Faktory client that speaks bytes, and the program that serves Faktory alone (tests/server/faktory_main.c)."""

import hashlib
import json
import socket
import subprocess

from tests.kit.program import Helper, memory_mib
from tests.kit.waiting import LIMIT_S


class FaktoryError(Exception):
    """An error reply."""


class FaktoryClient:
    def __init__(self, port, password=None, greet=True, tls=None, limit_s=LIMIT_S, **hello):
        """`tls` is an ssl.SSLContext."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=limit_s)
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
            raise FaktoryError(rest)
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
        except FaktoryError as error:
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


class FaktoryServer(Helper):
    """With the commands of its standard input."""

    def __init__(self, store, *arguments):
        super().__init__("server/faktory_server", *arguments, store, stderr=subprocess.PIPE)
        self.clients = []

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def connect(self, **hello):
        client = FaktoryClient(self.port, **hello)
        self.clients.append(client)
        return client

    def worker(self, wid="w1", **hello):
        return self.connect(wid=wid, pid=1, labels=[], hostname="test", **hello)

    def peak_mib(self):
        """The most memory that it has had."""
        return memory_mib(self.process.pid, "VmHWM")

    def close(self):
        for client in self.clients:
            client.socket.close()
        super().close()
