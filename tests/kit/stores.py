"""A store of its own for each test, on SQLite and on the servers that this redrive knows."""
import itertools
import os
import pathlib
import sqlite3
import subprocess

import pytest

from tests.kit import servers
from tests.kit.program import BINARY
from tests.kit.waiting import LIMIT_S

NUMBERS = itertools.count(1)
RUNNING = {}


def start_or_skip(kind, *words, **options):
    """A server of a test's own: `kind` is one of servers.KINDS, or a class. Where it is not installed, or this redrive
    has no such store, the test is skipped."""
    if kind in servers.KINDS and not servers.knows(BINARY, kind):
        pytest.skip(f"this redrive has no {kind} store")
    try:
        return servers.KINDS.get(kind, kind)(*words, **options)
    except servers.Missing as missing:
        pytest.skip(str(missing))


def server_url(kind):
    """Of a server for all tests, which ends with the session (tests/conftest.py). The environment may name another one."""
    given = os.environ.get(f"REDRIVE_TEST_{kind.upper()}")
    if given:
        return given
    if kind not in RUNNING:
        RUNNING[kind] = start_or_skip(kind)
    return RUNNING[kind].url


def stop_servers():
    for server in RUNNING.values():
        server.close()
    RUNNING.clear()


def psql(url, sql):
    """Rows of text; NULL is None."""
    done = subprocess.run(
        [servers.find_postgres("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-F", "\x1f", "-R", "\x1e",
         "-P", "null=\x1d", "-d", url, "-c", sql],
        env=dict(os.environ, PGOPTIONS="-c search_path=redrive"), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{sql}\n{done.stderr}"
    text = done.stdout.removesuffix("\n")
    return [tuple(None if cell == "\x1d" else cell for cell in row.split("\x1f")) for row in text.split("\x1e") if row]


class Place:
    """Where jobs are kept: `url` for programs, `query` for people, as far as the store speaks SQL."""

    def __init__(self, kind, directory):
        self.kind = kind
        self.speaks_sql = kind != "redis"
        name = f"redrive_test_{os.getpid()}_{next(NUMBERS)}"
        if kind == "sqlite":
            self.file = pathlib.Path(directory) / "jobs.db"
            self.url = f"sqlite:{self.file}"
        elif kind == "redis":
            self.url = f"{server_url(kind)}?prefix={name}"
        else:
            server = server_url(kind)
            psql(server, f"CREATE DATABASE {name}")
            self.url = server.rsplit("/", 1)[0] + "/" + name

    def query(self, sql):
        """Rows of text, whatever the store."""
        if self.kind == "postgres":
            return psql(self.url, sql)
        db = sqlite3.connect(self.file, timeout=LIMIT_S)
        try:
            return [tuple(None if cell is None else str(cell) for cell in row) for row in db.execute(sql)]
        finally:
            db.close()
