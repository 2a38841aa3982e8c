"""Plays a transcript: its commands, in a folder of their own, by a clock that stands still.

On the side `local` commands open the store themselves (`redrive.db` of the folder); on the side `server` they reach a server on
the same store, which starts with the first of them. Beside the programs of the system there are

    redrive WORDS…                       the program under test
    seed                                 jobs from standard input, one JSON object a line (tests/cli/seed_jobs.c)
    seed_store                           some jobs, a breaker that is open, and a worker (tests/cli/seed_main.c)
    http METHOD PATH [BODY] [NAME:VALUE…]  a request with headers, and its answer; on the side `local` it is left out. A body
                                         @NAME is that of a file
    http … | COMMAND                     what a command of the system makes of that answer
    until TEXT METHOD PATH …             the same again and again, until its answer has the text
    clock SPAN                           it is later by 90s, 5m, 2h or 3d; a server is started anew

What a run chooses by itself is printed as something else: ids as 00000000-0000-7000-8000-000000000001 and so on, in the order
of their first appearance; the tokens of claims as <token-1> and so on; <url>, <address>, <folder>, <host>, <pid>; <export> for the
id of an export, and <span> for the time that a copy of a store or a batch has taken. A request may say such an id or token: the
server gets the real one.
"""
import contextlib
import os
import re
import shlex
import socket
import sqlite3
import subprocess

from tests.kit.program import BINARY, BUILD, environment
from tests.kit.server import Server
from tests.kit.skew import stopped_clock
from tests.kit.waiting import LIMIT_S, wait_for
from tests.transcripts.transcript import REQUESTS, SIDES, shown

BEGIN_MS = 1767614400000  # 2026-01-05 12:00:00 UTC, a Monday
UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TOKEN = re.compile(r'(?<="token":")[0-9a-f]{16}(?=")')
EXPORT = re.compile(r'"id":"[0-9a-f]{32}"')
SPAN = re.compile(r'(?m)("seconds":|^took +|^.* (?:to|from) \S+ in )\d[\d.hms]*(?: s)?')
HEADERS = ("Content-Type", "Location", "Retry-After", "Allow", "WWW-Authenticate", "Set-Cookie")


class Player:
    def __init__(self, side, folder):
        self.side = side
        self.folder = folder
        self.bin = folder / "bin"
        self.work = folder / "work"
        self.now_ms = BEGIN_MS
        self.clock = stopped_clock()
        self.ids = {}
        self.tokens = {}
        self.server = None
        if not BINARY.exists():
            raise FileNotFoundError(f"no program at {BINARY}: build it, or set REDRIVE_BIN")
        self.work.mkdir()
        self.bin.mkdir()
        (self.bin / "redrive").symlink_to(BINARY)
        for name, program in (("seed", "seed_jobs"), ("seed_store", "seed_store")):
            script = self.bin / name
            script.write_text(f"#!/bin/sh\nexec {BUILD}/tests/cli/{program} sqlite:redrive.db\n", "utf-8")
            script.chmod(0o755)

    def close(self):
        if self.server:
            self.server.close()
            self.server = None

    def play(self, command):
        """What it prints, as a transcript has it."""
        word, _, rest = command.partition(" ")
        if word == "clock":
            self.go_on(rest)
            return []
        if self.side == "server" and (word in REQUESTS or re.search(r"\bredrive ", command)):
            self.serve()
        if word not in REQUESTS:
            return self.run(command, stdin=subprocess.DEVNULL)
        request, _, command = rest.partition(" | ")
        words = shlex.split(self.real(request))
        answer = self.ask(*words) if word == "http" else self.ask_until(words[0], words[1:])
        return self.run(command, input=answer.rstrip("\n") + "\n") if command else shown(answer, "", 0)

    def run(self, command, **stdin):
        done = subprocess.run(["sh", "-c", command], cwd=self.work, env=self.environment(), capture_output=True,
                              text=True, timeout=LIMIT_S, check=False, **stdin)
        return shown(self.plain(done.stdout), self.plain(done.stderr), done.returncode)

    def go_on(self, span):
        self.now_ms += int(span[:-1]) * UNITS_MS[span[-1]]
        if self.server:
            self.server.stop()
        self.close()

    def environment(self):
        server = {"REDRIVE_SERVER": self.server.url} if self.server else {}
        return environment(PATH=f"{self.bin}:{os.environ['PATH']}", HOME=str(self.folder), TMPDIR=str(self.folder),
                           LANG="C.UTF-8", TZ="UTC", **self.clock(self.now_ms), **server)

    def serve(self):
        if self.server:
            return
        words = ["--no-work", "--store", f"sqlite:{self.work}/redrive.db", "--listen-http", "127.0.0.1:0",
                 "--listen-faktory", "off"]
        config = self.work / "redrive.yaml"
        if config.exists():
            words += ["-c", config]
        self.server = Server(self.folder, *words, env=self.environment()).ready()
        wait_for(self.is_listed, "the server among the workers")

    def is_listed(self):
        """Whether the server has written that it is there: figures tell of it, and it does so soon after its start."""
        with contextlib.closing(sqlite3.connect(f"file:{self.work}/redrive.db?mode=ro", uri=True, timeout=LIMIT_S)) as db:
            return db.execute("SELECT 1 FROM shared WHERE key LIKE ?", [f"%:{self.server.pid}"]).fetchone()

    def ask(self, method, path, *words):
        """A request; the first word without a colon after its name is its body."""
        bodies = [word for word in words if not re.match(r"[\w-]+:[^/]", word)]
        headers = dict(word.split(":", 1) for word in words if word not in bodies)
        if bodies:
            headers.setdefault("Content-Type", "application/json")
        with contextlib.closing(self.server.connect()) as connection:
            connection.request(method, path, self.body(bodies[0]) if bodies else None, headers)
            answer = connection.getresponse()
            known = [f"{name}: {answer.headers[name]}" for name in HEADERS if name in answer.headers]
            return self.plain("\n".join([f"{answer.status}", *known, answer.read().decode()]))

    def body(self, word):
        return (self.work / word[1:]).read_bytes() if word.startswith("@") else word.encode()

    def ask_until(self, text, words):
        answers = []

        def has_come():
            answers[:] = [self.ask(*words)]
            return text in answers[0]

        wait_for(has_come, lambda: f"{text} in\n{answers[0]}")
        return answers[0]

    def real(self, words):
        """With the ids and tokens of this run in place of what a transcript has for them."""
        for one, name in (*self.ids.items(), *self.tokens.items()):
            words = words.replace(name, one)
        return words

    def plain(self, text):
        """Without what a run chooses by itself."""
        if self.server:
            text = text.replace(self.server.url, "<url>").replace(self.server.url.removeprefix("http://"), "<address>")
        text = text.replace(str(self.work), "<folder>")
        # In these places only: a process may have the number 409, and a machine the name of a task.
        host, pid = socket.gethostname(), self.server.pid if self.server else "-"
        text = text.replace(f"{host}:{pid}", "<host>:<pid>").replace(f"({host}, {pid})", "(<host>, <pid>)")
        text = text.replace(f'"host":"{host}","pid":{pid},', '"host":"<host>","pid":<pid>,')
        text = text.replace(f'"host":"{host}"', '"host":"<host>"').replace(f"({host}, 0)", "(<host>, 0)")
        text = TOKEN.sub(lambda found: self.tokens.setdefault(found[0], f"<token-{len(self.tokens) + 1}>"), text)
        text = SPAN.sub(r"\1<span>", EXPORT.sub('"id":"<export>"', text))
        return ID.sub(lambda found: self.ids.setdefault(found[0], f"00000000-0000-7000-8000-{len(self.ids) + 1:012}"), text)


def play(transcript, side, folder):
    """Writes into the transcript what is printed on a side."""
    folder.mkdir()
    with contextlib.closing(Player(side, folder)) as player:
        for step in transcript.steps():
            only_here = step.is_request() or len(transcript.sides) == 1
            if step.is_request() and side == "local":
                continue
            output = player.play(step.command)
            step.put(output, SIDES if only_here else (side,))
