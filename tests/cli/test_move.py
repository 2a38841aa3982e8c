"""`redrive move`: everything of one store into another, checked at the end."""

import json
import os
import pty
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from tests.cli.jobs import EVERY_STATE, Store, jobs_in, path_of
from tests.kit.program import BINARY, TIMEOUT_S, environment, read_all

MANY = 20000
SOME = 2000


class Pair:
    """A store, one that it is moved to, and the call that does it."""

    def __init__(self, directory):
        (directory / "a").mkdir()
        (directory / "b").mkdir()
        self.old = Store(directory / "a")
        self.new = Store(directory / "b")
        self.words = [str(BINARY), "move", "--from", self.old.url, "--to", self.new.url]

    def run(self, *words):
        return subprocess.run(
            [*self.words, *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=6 * TIMEOUT_S,
            check=False, env=environment(),
        )

    def json(self, *words):
        result = self.run("--json", *words)
        assert (result.returncode, result.stderr) == (0, "")
        return json.loads(result.stdout)

    def refusal(self, *words, code=1):
        result = self.run("--json", *words)
        assert result.returncode == code, result
        return json.loads(result.stderr.splitlines()[-1])["error"]

    def script(self, store, sql):
        with sqlite3.connect(path_of(store)) as db:
            db.executescript(sql)

    def seed_many(self, n=MANY):
        """Jobs of every kind, and a worker that has just been seen."""
        seed = BINARY.parent / "tests" / "cli" / "seed_store"
        subprocess.run([seed, self.old.url, str(n)], check=True, timeout=TIMEOUT_S,
                       stdin=subprocess.DEVNULL)
        self.script(self.old, "DELETE FROM shared WHERE kind = 5")


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path)


@pytest.fixture
def full(pair):
    """With a job in every state in the old one."""
    pair.old.seed(*EVERY_STATE)
    return pair


def test_every_job_arrives_as_it_was(full):
    answer = full.json()
    assert answer["jobs"] == answer["copied"] == len(EVERY_STATE)
    assert answer["dead_letters"] == 4
    assert answer["by_state"]["running"] == 1
    assert answer["hash_from"] == answer["hash_to"]
    assert answer["difference"] is None
    for job in EVERY_STATE:
        assert full.new.job(job["id"]) == full.old.job(job["id"])
    assert full.new.json("queues", "list") == full.old.json("queues", "list")
    assert full.new.json("stats")["counters"] == full.old.json("stats")["counters"]


def test_many_jobs_take_seconds(pair):
    pair.seed_many()
    answer = pair.json()
    assert answer["copied"] == MANY + 16
    assert answer["breakers"] > 0
    assert answer["seconds"] < 90  # two as a rule; a program that counts its branches on a busy machine takes long


def wait_until_begun(pair, process, least):
    """Until some jobs have arrived; how many, when it was still at work."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        n = jobs_in(pair.new)
        if n > least:
            return n
        time.sleep(0.001)
    return jobs_in(pair.new)


def test_a_move_that_is_killed_can_be_repeated(pair, tmp_path):
    pair.seed_many()
    seen = [0]
    for _ in range(3):
        process = subprocess.Popen(pair.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   env=environment())
        try:
            wait_until_begun(pair, process, seen[-1])
        finally:
            process.kill()
            process.wait()
        seen.append(jobs_in(pair.new))
    assert seen == sorted(seen) and seen[1] > 0
    answer = pair.json()
    assert answer["hash_from"] == answer["hash_to"]
    assert answer["copied"] == MANY + 16 - seen[-1]
    # As if it had not been interrupted, counters included.
    (tmp_path / "whole").mkdir()
    whole = Pair(tmp_path / "whole")
    whole.old = pair.old
    whole.words[whole.words.index("--from") + 1] = pair.old.url
    assert whole.json()["hash_to"] == answer["hash_to"]
    assert whole.new.json("stats")["counters"] == pair.new.json("stats")["counters"]


def test_an_interrupt_says_how_to_go_on(pair):
    pair.seed_many()
    process = subprocess.Popen(pair.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment())
    wait_until_begun(pair, process, 0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    if process.returncode == 0:
        pytest.skip("it was faster than the signal")
    assert (process.returncode, out) == (1, "")
    assert "goes on with the rest" in err
    assert pair.json()["difference"] is None


@pytest.mark.parametrize("sql, text", [
    ("UPDATE history SET error_message = 'other' WHERE seq = "
     "(SELECT seq FROM specs WHERE id = 'retrying-1')", "job retrying-1 of tenant default: error message"),
    ("UPDATE job_states SET updated_ms = updated_ms + 1 WHERE state = 4", "job parked-1 of tenant default: updated"),
    ("UPDATE partitions SET queued = queued + 1 WHERE queued > 0", "counts of tenant default, queue"),
    ("UPDATE counters SET value = value + 1", "counter"),
    ("DELETE FROM results", "job done-1 of tenant default: result"),
])
def test_a_planted_difference_is_found(full, sql, text):
    full.json()
    full.script(full.new, sql)
    result = full.run("--json")
    assert result.returncode == 1
    answer = json.loads(result.stdout)
    assert text in answer["difference"]
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "STATE" and text in error["detail"]


def test_a_worker_that_is_alive_is_a_reason_not_to(pair):
    seed = BINARY.parent / "tests" / "cli" / "seed_store"
    subprocess.run([seed, pair.old.url], check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    error = pair.refusal()
    assert "1 worker is alive on the source" in error["message"]
    assert "seed-worker" in error["detail"] and "--force" in error["hint"]
    assert os.listdir(pair.new.directory) == []
    assert pair.json("--force")["difference"] is None


def test_the_workers_that_are_alive_are_counted_and_named(pair):
    seed = BINARY.parent / "tests" / "cli" / "seed_store"
    subprocess.run([seed, pair.old.url], check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    for name in ("also", "more", "last"):
        pair.script(pair.old, "INSERT INTO shared (kind, tenant, key, value, version) "
                              f"SELECT kind, tenant, 'worker-{name}', value, version FROM shared "
                              "WHERE kind = 5 AND key = 'seed-worker'")
    error = pair.refusal()
    assert "4 workers are alive on the source" in error["message"]
    assert "seed-worker" in error["detail"] and "worker-also" in error["detail"]
    assert "worker-more" not in error["detail"] and error["detail"].endswith("; and 1 more")


@pytest.mark.parametrize("side", ["old", "new"])
@pytest.mark.parametrize("version, text", [(99, "newer redrive"), (2, "redrive migrate --store")])
def test_a_schema_of_another_version_is_refused(full, side, version, text):
    full.new.output("migrate")
    full.script(getattr(full, side), f"PRAGMA user_version = {version}")
    error = full.refusal()
    assert f"schema version {version}" in error["message"] and text in error["hint"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_told(full):
    os.chmod(full.new.directory, 0o500)
    try:
        assert full.refusal()["code"] == "DENIED"
    finally:
        os.chmod(full.new.directory, 0o700)


@pytest.mark.parametrize("words", [[], ["--into-existing"]])
def test_a_terminal_sees_a_bar(redrive, pair, words):
    pair.seed_many(SOME)
    if words:
        pair.new.output("enqueue", "mail", "--id", "mine")
    code, seen = redrive.on_terminal(*pair.words[1:], *words, columns=100)
    assert code == 0
    assert b"copy  [" in seen and b"check  [" in seen and b"%" in seen


def test_a_second_run_shows_that_it_looks_first(redrive, pair):
    pair.seed_many(SOME)
    pair.json()
    code, seen = redrive.on_terminal(*pair.words[1:], columns=100)
    assert code == 0
    assert b"look  [" in seen


def test_json_is_clean_while_a_bar_is_shown(pair):
    pair.seed_many(SOME)
    pair.new.output("enqueue", "mail", "--id", "mine")
    master, slave = pty.openpty()
    seen = []
    reader = threading.Thread(target=read_all, args=(master, seen), daemon=True)
    reader.start()
    try:
        result = subprocess.run([*pair.words, "--into-existing", "--json"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=slave, env=environment(),
                                timeout=6 * TIMEOUT_S, check=False)
    finally:
        os.close(slave)
    reader.join(timeout=TIMEOUT_S)
    os.close(master)
    assert result.returncode == 0
    assert b"check  [" in b"".join(seen)
    assert json.loads(result.stdout)["copied"] == SOME + 16
