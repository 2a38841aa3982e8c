"""The program under test, called as a user calls it."""

import fcntl
import json
import os
import pathlib
import pty
import signal
import struct
import subprocess
import termios
import threading

import pytest

# Programs under test listen to interrupts as from a terminal, also where whoever runs the tests
# ignores them, as shells make background jobs do.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("REDRIVE_BIN", ROOT / "build" / "redrive")).resolve()
FRAME = BINARY.parent / "tests" / "cli" / "fake_redrive"

# No call here has work to do; one that takes this long hangs.
TIMEOUT_S = 60


def clean_environment(**extra):
    """What a call sees: nothing of the tester's taste in colours and terminals."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    keep.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    return {**keep, "TERM": "xterm", **extra}


def read_all(master, seen):
    """Gathers what is written to a terminal until its other side is closed."""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # how Linux says so
            return
        if not block:
            return
        seen.append(block)


class Program:
    """Calls a program; every call has a time limit."""

    timeout = TIMEOUT_S

    def __init__(self, path):
        if not path.exists():
            pytest.fail(f"no program at {path}: build it, or set REDRIVE_BIN")
        self.binary = str(path)

    def __call__(self, *words, env=None, **options):
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        settings.update(options)
        return subprocess.run(
            [self.binary, *words],
            stdin=subprocess.DEVNULL,
            env=clean_environment(**(env or {})),
            timeout=TIMEOUT_S,
            check=False,
            **settings,
        )

    def output(self, *words, **options):
        """Standard output of a call that must succeed without a word of complaint."""
        result = self(*words, **options)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    def on_terminal(self, *words, columns=0, **options):
        """Exit code, and the bytes that a call writes to a terminal as stdout and stderr. The
        terminal tells its width unless it is 0."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 0, columns, 0, 0))
        seen = []
        reader = threading.Thread(target=read_all, args=(master, seen), daemon=True)
        reader.start()
        try:
            result = self(*words, stdout=slave, stderr=slave, text=False, **options)
        finally:
            os.close(slave)
        reader.join(timeout=TIMEOUT_S)
        os.close(master)
        return result.returncode, b"".join(seen)

    def commands(self):
        """Every command as (path, description), the program itself first."""

        def walk(path, node):
            yield path, node
            for child in node["commands"]:
                yield from walk(path + [child["name"]], child)

        return list(walk([], json.loads(self.output("help", "--json"))))


@pytest.fixture(scope="session")
def redrive():
    return Program(BINARY)


@pytest.fixture(scope="session")
def frame():
    """The frame around commands made for tests (fake_main.c)."""
    return Program(FRAME)


@pytest.fixture
def store(tmp_path):
    """The URL of a store that is not there yet."""
    return f"sqlite:{tmp_path}/jobs.db"


@pytest.fixture
def seeded(store):
    """The URL of a store in which there is something to see (seed_main.c)."""
    seed = BINARY.parent / "tests" / "cli" / "seed_store"
    subprocess.run([seed, store], check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    return store
