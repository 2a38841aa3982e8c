"""Folders with a configuration and a store, programs that run there, and what is in the store afterwards."""
import contextlib
import functools
import http.server
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import threading

from tests.kit import program
from tests.kit.program import BUILD

IS_SANITIZED = (BUILD / "tests" / "faults" / "redrive_wrapped").exists()
BINARY = BUILD / "tests" / "faults" / "redrive_wrapped" if IS_SANITIZED else BUILD / "redrive"
LIFE = BUILD / "tests" / "faults" / ("life_wrapped" if IS_SANITIZED else "life")

#: A program that takes longer hangs.
LIMIT_S = 60 if IS_SANITIZED else 20
#: So long a fault lasts at the most.
PATIENCE_S = 10 if IS_SANITIZED else 3
LEASE_S = 1

CONFIG = f"""\
store: sqlite:jobs.db
listen: {{http: "127.0.0.1:0", faktory: "127.0.0.1:0"}}
log: {{level: info}}
defaults: {{retry: {{strategy: fixed, initial_delay: 50ms, min_delay: 50ms, jitter: none, max_attempts: 20}}}}
tasks:
  good: {{lease: {LEASE_S}s, run: {{exec: ["true"]}}}}
  bad: {{lease: {LEASE_S}s, run: {{exec: [sh, -c, "exit 65"]}}}}
  web: {{lease: {LEASE_S}s, run: {{http: "http://127.0.0.1:WEB/"}}}}
  lines: {{lease: {LEASE_S}s, run: {{stream: [sh, lines.sh]}}}}
  remote: {{lease: {LEASE_S}s, queue: remote, breaker: {{failure_threshold: 0, failure_rate: 0}}}}
cron: {{nightly: {{task: good, schedule: "0 3 * * *"}}}}
"""

#: Answers each job of the task `lines`.
LINES = r"""while read -r line; do
    id=${line#*\"id\":\"}
    echo "{\"id\":\"${id%%\"*}\",\"status\":\"SUCCESS\"}"
done
"""

SANITIZERS = {
    "ASAN_OPTIONS": "exitcode=99:detect_leaks=1:handle_segv=2:handle_abort=2:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99:print_stacktrace=1",
}


def environment(**extra):
    return program.environment(**SANITIZERS, **extra)


def call(folder, *words, env=None, executable=BINARY, end_fault=None):
    """Runs a program to its end; what it writes goes to files, which can fail where a pipe cannot. One that has not ended
    after some time goes on without the fault: `end_fault()`. Its result is then marked `outlasted`."""
    with open(folder / "stdout", "w+b") as out, open(folder / "stderr", "w+b") as err:
        process = subprocess.Popen([executable, *words], cwd=folder, env=environment(**(env or {})), stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=err)
        outlasted = False
        try:
            if end_fault:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_S)
                if process.returncode is None:
                    outlasted = True
                    end_fault()
            process.wait(LIMIT_S)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        texts = [file.seek(0) or file.read().decode(errors="replace") for file in (out, err)]
    done = subprocess.CompletedProcess(process.args, process.returncode, *texts)
    done.outlasted = outlasted
    return done


def must(folder, *words):
    done = call(folder, *words)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"redrive {' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}")
    return done


class Answers(http.server.BaseHTTPRequestHandler):
    """What the task `web` calls."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@functools.cache
def web_port():
    """Of a server in a thread of this process."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def configuration():
    return CONFIG.replace("WEB", str(web_port()))


def make_empty(folder):
    folder.mkdir()
    (folder / "redrive.yaml").write_text(configuration())
    (folder / "lines.sh").write_text(LINES)
    (folder / "records.jsonl").write_text('{"id":"r1"}\n{"id":"r2"}\n')


def make_busy(folder):
    """A store with a job in most states."""
    make_empty(folder)
    must(folder, "enqueue", "good", "{}", "--id", "done-1")
    must(folder, "enqueue", "bad", '{"n":1}', "--id", "dead-1")
    must(folder, "work", "--until-idle")
    must(folder, "enqueue", "good", "{}", "--id", "good-1")
    must(folder, "enqueue", "bad", '{"n":2}', "--id", "bad-1")
    must(folder, "enqueue", "web", "{}", "--id", "web-1")
    must(folder, "enqueue", "lines", "{}", "--id", "lines-1")
    must(folder, "enqueue", "remote", "{}", "--id", "later-1", "--delay", "1h")


class Places:
    """Copies of folders that are made once."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.root.mkdir(exist_ok=True)
        self.made = 0

    def copy(self, make):
        template = self.root / make.__name__
        if not template.exists():
            make(template)
        self.made += 1
        folder = self.root / f"case-{self.made}"
        shutil.copytree(template, folder)
        return folder

    @staticmethod
    def drop(folder):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def reading(folder):
    """A connection to the store that leaves its log as it is. A log that needs recovery is recovered in a copy."""
    path = folder / "jobs.db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        try:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            pass
        else:
            yield db
            return
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        for name in ("jobs.db", "jobs.db-wal"):
            if (folder / name).exists():
                shutil.copy(folder / name, copy)
        with contextlib.closing(sqlite3.connect(pathlib.Path(copy) / "jobs.db")) as db:
            yield db


def damage(folder):
    """What SQLite finds wrong with the file, or None."""
    if not (folder / "jobs.db").exists():
        return None
    with reading(folder) as db:
        try:
            said = [row[0] for row in db.execute("PRAGMA integrity_check")]
        except sqlite3.DatabaseError as error:
            said = [str(error)]
    return None if said == ["ok"] else "; ".join(said)


def states(folder):
    """The state of each job by its id."""
    if not (folder / "jobs.db").exists():
        return {}
    with reading(folder) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchone():
            return {}
        return dict(db.execute("SELECT id, status FROM jobs"))
