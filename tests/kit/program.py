"""The program under test: where it is, the environment that it gets, and how it is called."""
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import termios
import threading

from tests.kit.waiting import LIMIT_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("REDRIVE_BIN", ROOT / "build" / "redrive")).resolve()
#: Programs that are made for tests are here.
BUILD = pathlib.Path(os.environ.get("REDRIVE_BUILD", BINARY.parent)).resolve()
#: Programs that jobs run in tests.
HANDLERS = ROOT / "tests" / "handlers"

# No call has work to do; one that takes this long hangs.
TIMEOUT_S = LIMIT_S


def environment(**extra):
    """What a program sees: nothing of the tester's taste in colours and terminals."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR") or k.endswith("SAN_OPTIONS")}
    return {**keep, "TERM": "xterm", **extra}


def memory_mib(pid, name):
    """Of a process: VmRSS, what it has; VmHWM, the most that it has had (since 5 was written to its clear_refs)."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.split(f"{name}:")[1].split()[0]) // 1024


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
            raise FileNotFoundError(f"no program at {path}: build it, or set REDRIVE_BIN")
        self.binary = str(path)

    def __call__(self, *words, env=None, **options):
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        settings.update(options)
        return subprocess.run(
            [self.binary, *words],
            stdin=subprocess.DEVNULL,
            env=environment(**(env or {})),
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


class Helper:
    """A program of the build that is made for tests: it prints its port, and ends with its standard input. What it
    writes to a standard error that is a pipe are complaints."""

    def __init__(self, name, *words, stderr=None):
        self.process = subprocess.Popen([str(BUILD / "tests" / name), *map(str, words)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=stderr, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start: {self.process.communicate()[1] or ''}")
        self.port = int(line)
        self.is_over = False

    def close(self):
        """Ends it, once, in good order and without complaints."""
        if self.is_over:
            return
        self.is_over = True
        try:
            _, complaints = self.process.communicate(timeout=LIMIT_S)
        finally:
            self.process.kill()
            self.process.wait()
        assert (self.process.returncode, complaints or "") == (0, ""), f"{self.process.returncode} {complaints}"
