"""`redrive export` and `redrive import`: everything of a store in one file, and back."""

import json
import os
import signal
import stat
import subprocess
import threading
import time

import pytest

from tests.cli.jobs import EVERY_STATE, Store, jobs_in
from tests.kit.program import BINARY, TIMEOUT_S, environment

MANY = 5000


def run(*words, **options):
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, timeout=6 * TIMEOUT_S,
                          check=False, env=environment(), **{"stdin": subprocess.DEVNULL, **options})


def answer(*words, code=0, **options):
    result = run(*words, "--json", **options)
    assert result.returncode == code, result
    return json.loads(result.stdout) if code == 0 else json.loads(result.stderr.splitlines()[-1])["error"]


@pytest.fixture
def stores(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    return Store(tmp_path / "a"), Store(tmp_path / "b")


@pytest.fixture
def full(stores):
    stores[0].seed(*EVERY_STATE)
    return stores


def seed_many(store):
    subprocess.run([BINARY.parent / "tests" / "cli" / "seed_store", store.url, str(MANY)], check=True,
                   timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)


def test_every_job_arrives_as_it_was(full, tmp_path):
    old, new = full
    file = tmp_path / "jobs.jsonl"
    written = answer("export", "--store", old.url, file)
    assert written["jobs"] == len(EVERY_STATE) and written["snapshot"] is True
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["kind"] == "header" and lines[-1]["kind"] == "end"
    assert lines[-1]["records"] == written["records"] == len(lines) - 2
    assert answer("import", "--check", file)["hash"] == written["hash"]
    taken = answer("import", "--store", new.url, file)
    assert (taken["copied"], taken["difference"], taken["compared"]) == (len(EVERY_STATE), None, True)
    assert taken["hash"] == taken["hash_to"] == written["hash"]
    for job in EVERY_STATE:
        assert new.job(job["id"]) == old.job(job["id"])
    assert new.json("stats")["counters"] == old.json("stats")["counters"]
    again = answer("import", "--store", new.url, file)
    assert (again["copied"], again["skipped_records"]) == (0, written["records"])


def test_an_import_that_is_killed_goes_on(stores, tmp_path):
    old, new = stores
    file = tmp_path / "jobs.jsonl"
    seed_many(old)
    total = answer("export", "--store", old.url, file)
    process = subprocess.Popen([str(BINARY), "import", "--store", new.url, str(file)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, env=environment())
    try:
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until and process.poll() is None and jobs_in(new) == 0:
            time.sleep(0.001)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = jobs_in(new)
    taken = answer("import", "--store", new.url, file)
    assert before > 0 and taken["copied"] == total["jobs"] - before
    assert jobs_in(new) == total["jobs"]
    assert new.json("stats")["counters"] == old.json("stats")["counters"]


def test_an_export_while_jobs_come_and_go_is_of_one_moment(stores, tmp_path):
    """Jobs are submitted in order meanwhile: those in the file are the first ones, without a gap."""
    old, new = stores
    seed_many(old)
    stop = threading.Event()
    submitted = []

    def submit():
        while not stop.is_set():
            submitted.append(f"late-{len(submitted)}")
            old.output("enqueue", "mail", "--id", submitted[-1])

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        for n in range(3):
            answer("export", "--store", old.url, tmp_path / f"{n}.jsonl")
    finally:
        stop.set()
        thread.join()
    for n in range(3):
        lines = [json.loads(line) for line in (tmp_path / f"{n}.jsonl").read_text().splitlines()]
        late = [line["id"] for line in lines if line["kind"] == "job" and line["id"].startswith("late-")]
        assert late == submitted[:len(late)]
        counted = sum(line["value"] for line in lines if line["kind"] == "counter" and line["name"] == "jobs_received" and "label" in line)
        assert counted == sum(line["kind"] == "job" for line in lines)
    assert answer("import", "--store", new.url, tmp_path / "0.jsonl")["difference"] is None
