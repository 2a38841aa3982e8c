"""A store with jobs in it, and the program called on it."""

import json
import os
import sqlite3
import subprocess

import pytest

from tests.kit.program import BINARY, BUILD, TIMEOUT_S, environment

SEED = BUILD / "tests" / "cli" / "seed_jobs"

# One job in every state; the dead ones die of several things.
EVERY_STATE = [
    {"state": "dead_letter", "id": "net-1", "task": "enrich", "type": "ConnError",
     "message": "connect to 10.0.0.7:5432 failed", "stacktrace": "Traceback\n  at fetch\n  at main",
     "payload": '{"a": 1,\n "b": [1, 2]}', "age_s": 7200},
    {"state": "dead_letter", "id": "net-2", "task": "enrich", "type": "ConnError",
     "message": "connect to 10.0.0.8:5433 failed", "user": "eve", "age_s": 3600},
    {"state": "dead_letter", "id": "bad-1", "task": "pay", "queue": "money", "class": "validation",
     "message": "amount is missing", "payload": '{"amount":null}', "age_s": 40 * 86400},
    {"state": "dead_letter", "id": "hand-1", "task": "pay", "queue": "money", "reason": "manual"},
    {"state": "failed", "id": "failed-1", "message": "gone", "class": "permanent"},
    {"state": "completed", "id": "done-1", "result": '{"ok":true}'},
    {"state": "cancelled", "id": "cancelled-1"},
    {"state": "retrying", "id": "retrying-1", "message": "later"},
    {"state": "scheduled", "id": "scheduled-1"},
    {"state": "running", "id": "running-1"},
    {"state": "parked", "id": "parked-1", "task": "parking"},
    {"state": "queued", "id": "queued-1"},
]


class Store:
    """A SQLite store of its own; calls of the program on it."""

    def __init__(self, directory):
        self.url = f"sqlite:{directory}/jobs.db"
        self.directory = directory

    def seed(self, *jobs):
        subprocess.run(
            [str(SEED), self.url],
            input="".join(json.dumps(job) + "\n" for job in jobs),
            text=True,
            timeout=TIMEOUT_S,
            check=True,
            env=environment(),
        )

    def __call__(self, *words, stdin=None, env=None, **options):
        settings = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run(
            [str(BINARY), "--store", self.url, *words],
            capture_output=True,
            text=True,
            cwd=self.directory,
            timeout=TIMEOUT_S,
            check=False,
            env=environment(**(env or {})),
            **settings,
            **options,
        )

    def output(self, *words, **options):
        """Standard output of a call that must succeed without a word of complaint."""
        result = self(*words, **options)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    def json(self, *words, **options):
        return json.loads(self.output(*words, "--json", **options))

    def refusal(self, *words, code=1, **options):
        """The errors of a call that must fail, as JSON; nothing else is told."""
        result = self(*words, "--json", **options)
        assert result.returncode == code, result
        return [json.loads(line)["error"] for line in result.stderr.splitlines()]

    def job(self, job_id):
        return self.json("jobs", "show", job_id)

    def state(self, job_id):
        return self.job(job_id)["state"]

    def ids(self, *words):
        return [job["id"] for job in self.json(*words)["items"]]

    def popen(self, *words, **options):
        return subprocess.Popen(
            [str(BINARY), "--store", self.url, *words],
            cwd=self.directory,
            env=environment(),
            **options,
        )


def run_on_terminal(store, *words, typed=b"", env=None):
    """Exit code and output of a call whose three standard files are a terminal."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        [str(BINARY), "--store", store.url, *words],
        stdin=slave, stdout=slave, stderr=slave,
        cwd=store.directory,
        env=environment(**(env or {})),
        start_new_session=True,
    )
    os.close(slave)
    seen = b""
    if typed:
        os.write(master, typed)
    try:
        while True:
            try:
                block = os.read(master, 65536)
            except OSError:  # how Linux says that the other side is closed
                break
            if not block:
                break
            seen += block
        code = process.wait(timeout=TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
    return code, seen.decode()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def full(store):
    """One with a job in every state."""
    store.seed(*EVERY_STATE)
    return store


def path_of(store):
    return store.url.removeprefix("sqlite:")


def jobs_in(store):
    """How many jobs a file has, 0 while there is no such table."""
    try:
        with sqlite3.connect(f"file:{path_of(store)}?mode=ro", uri=True, timeout=TIMEOUT_S) as db:
            return db.execute("SELECT count(*) FROM job_states").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
