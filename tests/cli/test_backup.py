"""`redrive backup`: a copy that is whole, while others use the store."""

import itertools
import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import threading
import time

import pytest

from tests.cli.jobs import EVERY_STATE, Store, run_on_terminal
from tests.kit import stores
from tests.kit.program import BINARY, TIMEOUT_S, environment
from tests.kit.servers import find_postgres

LIMIT_S = 90  # for what has to happen some time on a machine that is busy elsewhere

CONFIG = """
log: {level: error}
tasks:
  quick: {lease: 1s, heartbeat: 200ms, run: {concurrency: 4, exec: [cat]}}
  bulky: {run: {exec: [cat]}}
"""


@pytest.fixture
def store(tmp_path):
    (tmp_path / "redrive.yaml").write_text(CONFIG, "utf-8")
    return Store(tmp_path)


def add_bulk(store, jobs, size=8192):
    """Jobs for later that make the file large."""
    store.output("enqueue", "bulky", "--lines", "--delay", "1h",
                 stdin="".join(json.dumps(str(i) + "x" * size) + "\n" for i in range(jobs)))


def counted(path, query="?immutable=1"):
    """Jobs by state, as the rows say. Nothing is left beside a copy that is read as immutable."""
    db = sqlite3.connect(f"file:{path}{query}", uri=True, timeout=TIMEOUT_S)
    try:
        return dict(db.execute("SELECT name, count(*) FROM job_states JOIN states USING (state) GROUP BY name"))
    finally:
        db.close()


def beside(path):
    return sorted(p.name for p in path.parent.iterdir() if p.name.startswith(path.name))


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Load:
    """A worker, and a thread that submits, until the end of the block."""

    def __init__(self, store):
        self.store = store
        self.answered = 0  # jobs whose ids were printed
        self.asked = 0
        self.failures = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.submit, daemon=True)

    def submit(self):
        while not self.over.is_set():
            self.asked += 5
            result = self.store("enqueue", "quick", "--lines", stdin="1\n2\n3\n4\n5\n")
            if result.returncode != 0 or len(result.stdout.split()) != 5:
                self.failures.append(result)
                return
            self.answered += 5

    def __enter__(self):
        self.worker = self.store.popen("work", stdin=subprocess.DEVNULL)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(timeout=LIMIT_S)
        stop(self.worker)


def test_backup_under_load_is_a_store_that_goes_on(store, tmp_path):
    add_bulk(store, 1500)
    copy = tmp_path / "copy.db"
    until = time.monotonic() + LIMIT_S
    with Load(store) as load:
        while load.answered == 0:
            assert time.monotonic() < until and not load.failures, load.failures
            time.sleep(0.02)
        for round_ in itertools.count(1):
            assert time.monotonic() < until
            before = load.answered
            made = store.json("backup", str(copy), "--force")
            after = load.asked
            found = counted(copy)
            assert sum(found.values()) == made["jobs"]
            assert 1500 + before <= made["jobs"] <= 1500 + after
            assert made["bytes"] == copy.stat().st_size > 1500 * 8192
            assert made["file"] == str(copy) and made["seconds"] >= 0
            # Jobs were submitted while one of them was taken, and some have not ended in it.
            if round_ >= 3 and load.answered > before and found.get("queued", 0) + found.get("running", 0):
                break
    assert not load.failures and load.worker.returncode == 0

    restored = Store(tmp_path)
    restored.url = f"sqlite:{copy}"
    doctor = restored("doctor")
    assert doctor.returncode == 0, doctor.stdout
    while True:
        assert time.monotonic() < until + LIMIT_S
        restored("work", "--until-idle")
        if restored.ids("jobs", "list", "--task", "quick", "--state", "queued,running,retrying") == []:
            break
    assert counted(copy, "") == {"completed": made["jobs"] - 1500, "scheduled": 1500}


def test_copy_has_every_job_and_only_its_owner_reads_it(store, tmp_path):
    store.seed(*EVERY_STATE)
    copy = tmp_path / "a copy?#%41.db"
    before = os.umask(0)
    try:
        text = store.output("backup", str(copy))
    finally:
        os.umask(before)
    assert text.startswith(f"{len(EVERY_STATE)} jobs, {copy.stat().st_size} bytes written to {copy} in ")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert beside(copy) == [copy.name]
    exported = [sorted(url_export(store, url).splitlines()) for url in (store.url, f"sqlite:{copy}")]
    assert exported[0] == exported[1] and len(exported[0]) == len(EVERY_STATE)


def url_export(store, url):
    other = Store(store.directory)
    other.url = url
    return other.output("jobs", "export", "--format", "jsonl")


@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_store_itself_is_never_replaced(store, tmp_path, part):
    store.seed({"state": "queued", "id": "a"})
    reader = sqlite3.connect(tmp_path / "jobs.db")  # keeps the companions there
    try:
        assert reader.execute("SELECT count(*) FROM job_states").fetchone() == (1,)
        [error] = store.refusal("backup", "--force", f"jobs.db{part}", code=2)
    finally:
        reader.close()
    assert "the store itself" in error["message"]
    assert store.ids("jobs", "list") == ["a"]


def test_damaged_store_makes_no_backup(store, tmp_path):
    add_bulk(store, 50)
    file = tmp_path / "jobs.db"
    with open(file, "r+b") as pages:  # no process has it open
        for page in range(8, file.stat().st_size // 4096, 7):
            pages.seek(page * 4096)
            pages.write(b"\xff" * 4096)
    [error] = store.refusal("backup", "copy.db")
    assert error["code"] == "CORRUPT", error
    assert beside(tmp_path / "copy.db") == []


def test_schema_of_another_version_is_copied_as_it_is(store, tmp_path):
    store.seed({"state": "queued", "id": "a"})
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    assert store.json("backup", "copy.db")["jobs"] == 1
    with sqlite3.connect(tmp_path / "copy.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (999,)
    db.close()


def test_interrupt_leaves_no_file(store, tmp_path):
    """The process is stopped while it writes, so that the signal finds a file that is not whole."""
    add_bulk(store, 3000, 16000)
    copy = tmp_path / "copy.db"
    process = subprocess.Popen(
        [str(BINARY), "--store", store.url, "backup", str(copy)], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path, env=environment())
    try:
        until = time.monotonic() + LIMIT_S
        while not beside(copy):
            assert time.monotonic() < until and process.poll() is None
        process.send_signal(signal.SIGSTOP)
        half = beside(copy)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        code = process.wait(timeout=LIMIT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert half != ["copy.db"], "it was done before it could be stopped"
    assert (code, beside(copy)) == (-signal.SIGINT, [])


def test_bar_is_drawn_on_a_terminal(store):
    add_bulk(store, 200)
    code, seen = run_on_terminal(store, "backup", "copy.db")
    assert code == 0
    assert "backup  [" in seen and "200 jobs" in seen.splitlines()[-1]


def major(version):
    return int(re.search(r"\d+", version)[0])


def test_dump_of_postgres_is_restored_as_the_manual_says(store, tmp_path):
    place = stores.Place("postgres", tmp_path)
    pg_dump = subprocess.run([find_postgres("pg_dump"), "--version"], capture_output=True, text=True,
                             check=True, timeout=LIMIT_S).stdout
    if major(pg_dump) < major(stores.psql(place.url, "SHOW server_version")[0][0]):
        pytest.skip("pg_dump is older than the server, and refuses it")
    store.url = place.url
    store.seed(*EVERY_STATE)
    before = sorted(store.output("jobs", "export", "--format", "jsonl").splitlines())
    dump = tmp_path / "redrive.dump"

    def run(program, *words):
        subprocess.run([find_postgres(program), *words], stdin=subprocess.DEVNULL, check=True,
                       timeout=LIMIT_S)

    run("pg_dump", "--format=custom", "--schema=redrive", f"--file={dump}", place.url)
    stores.psql(place.url, "DROP SCHEMA IF EXISTS redrive CASCADE")
    run("pg_restore", "--exit-on-error", "--single-transaction", f"--dbname={place.url}", str(dump))
    assert sorted(store.output("jobs", "export", "--format", "jsonl").splitlines()) == before
    doctor = store("doctor")
    assert doctor.returncode == 0, doctor.stdout
    store.output("enqueue", "quick")
