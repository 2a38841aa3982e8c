"""A job whose payload or row was changed in the store does not stop the others."""
import contextlib
import json
import re
import sqlite3
import subprocess
import urllib.request

import pytest

import stores_kit
from conftest import BINARY, clean_environment
from waiting import wait_for

LIMIT_S = 60
CONFIG = """
store: {url}
log: {{level: warning}}
tasks:
  mail: {{run: {{exec: [sh, -c, 'printf "$REDRIVE_JOB_ID " >> {dir}/ran']}}}}
"""


@pytest.fixture(scope="module", autouse=True)
def servers_end():
    yield
    stores_kit.stop_servers()


def get(url):
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        return json.load(answer)


class Bench:
    def __init__(self, directory, kind):
        self.dir = directory
        self.place = stores_kit.Place(kind, directory)
        # A job whose spec was deleted is in no list of PostgreSQL; the job's other row is met by claims.
        self.is_named = kind != "postgres"
        self.config = directory / "redrive.yaml"
        self.config.write_text(CONFIG.format(url=self.place.url, dir=directory), "utf-8")
        for name in ("a", "b", "c"):
            self.redrive("enqueue", "mail", json.dumps({"who": name * 40}), "--id", name)

    def command(self, *words):
        return subprocess.run([str(BINARY), *words, "-c", str(self.config)], env=clean_environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    @contextlib.contextmanager
    def server(self):
        """A server that runs nothing; its URL."""
        log = self.dir / "serve.log"
        with log.open("w", encoding="utf-8") as out:
            process = subprocess.Popen([str(BINARY), "serve", "--no-work", "--listen", "127.0.0.1:0", "--log-level", "info",
                                        "-c", str(self.config)], env=clean_environment(), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out)
        try:
            found = wait_for(lambda: re.search(r"listening interface=http address=(\S+)", log.read_text("utf-8")),
                             lambda: log.read_text("utf-8"))
            yield f"http://{found[1]}"
        finally:
            process.kill()
            process.wait(LIMIT_S)

    def redrive(self, *words, code=0):
        done = self.command(*words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def damage(self):
        """What a disk error or a careless administrator does to the payload of job b."""
        if self.place.kind == "redis":
            self.damage_redis()
        elif self.place.kind == "postgres":
            self.place.query("UPDATE redrive.specs SET payload = '{\"who\":' WHERE id = 'b'")
        else:
            with sqlite3.connect(self.place.file) as db:
                db.execute("""UPDATE specs SET payload = '{"who":"x"}' WHERE id = 'b'""")
            db.close()

    def damage_redis(self, whole=False):
        """A byte of the row, or all of it."""
        changed = "'x'" if whole else "string.sub(row, 1, at - 1) .. '!' .. string.sub(row, at + 1)"
        base, prefix = self.place.url.split("?prefix=")
        host = base.removeprefix("redis://").split("/")[0]
        words = ["redis-cli", "-u", f"redis://{host}"]
        script = """for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
            for _, field in ipairs(redis.call('HKEYS', key)) do
                local row = redis.call('HGET', key, field)
                local at = string.find(row, '"' .. string.rep('b', 40), 1, true)
                if at then
                    redis.call('HSET', key, field, CHANGED)
                    return 1
                end
            end
        end
        return 0""".replace("CHANGED", changed)
        done = subprocess.run([*words, "EVAL", script, "0", f"*{prefix}*j:*"], capture_output=True, text=True,
                              timeout=LIMIT_S, check=True)
        assert done.stdout.strip() == "1", done.stdout

    def damage_row(self):
        """The row of job b cannot be read."""
        if self.place.kind == "redis":
            self.damage_redis(whole=True)
        elif self.place.kind == "postgres":
            self.place.query("DELETE FROM redrive.specs WHERE id = 'b'")
        else:
            with sqlite3.connect(self.place.file) as db:
                db.execute("UPDATE job_states SET packed_status = x'ffff' WHERE seq = (SELECT seq FROM specs WHERE id = 'b')")
            db.close()

    def ran(self):
        return sorted((self.dir / "ran").read_text("utf-8").split()) if (self.dir / "ran").exists() else []

    def jobs(self):
        return {job["id"]: job for job in json.loads(self.redrive("jobs", "list", "--json"))["items"]}


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def bench(request, tmp_path):
    return Bench(tmp_path, request.param)


def test_a_damaged_job_becomes_a_dead_letter_and_the_others_run(bench):
    bench.damage()
    jobs = bench.jobs()
    assert [jobs[name].get("damaged") for name in "abc"] == [None, True, None]
    bench.redrive("jobs", "show", "b")
    assert "damaged" in bench.redrive("doctor", code=1)
    bench.redrive("work", "--until-idle", code=3)
    assert sorted((bench.dir / "ran").read_text("utf-8").split()) == ["a", "c"]
    job = bench.jobs()["b"]
    assert (job["state"], job["reason"], job["last_error"]["type"]) == ("dead_letter", "damaged", "DamagedJob")
    bench.redrive("dlq", "list", "--reason", "damaged")


def test_a_damaged_job_can_be_cancelled(bench):
    bench.damage()
    bench.redrive("jobs", "cancel", "b")
    assert bench.jobs()["b"]["state"] == "cancelled"
    bench.redrive("work", "--until-idle")
    assert sorted((bench.dir / "ran").read_text("utf-8").split()) == ["a", "c"]


def test_lists_and_changes_go_on_beside_a_row_that_cannot_be_read(bench):
    bench.damage_row()
    assert sorted(bench.jobs()) == ["a", "c"]
    if bench.is_named:
        assert "1 job cannot be read and is left out" in bench.command("jobs", "list").stderr
    bench.redrive("stats")
    bench.redrive("queues", "list")
    assert ("1 job cannot be read" in bench.redrive("doctor", code=1)) == bench.is_named
    bench.redrive("jobs", "cancel", "a", "b", "c", code=1)
    assert {job["state"] for job in bench.jobs().values()} == {"cancelled"}
    assert sorted(bench.jobs()) == ["a", "c"]


def test_a_server_answers_beside_a_row_that_cannot_be_read(bench):
    bench.damage_row()
    with bench.server() as url:
        page = get(url + "/v1/jobs")
        assert sorted(job["id"] for job in page["items"]) == ["a", "c"]
        assert page.get("unreadable", 0) == int(bench.is_named) and bool(page.get("unreadable_first")) == bench.is_named
        get(url + "/v1/stats")
        get(url + "/v1/queues")
        listed = subprocess.run([str(BINARY), "jobs", "list", "--server", url], env=clean_environment(), cwd=bench.dir,
                                capture_output=True, text=True, timeout=LIMIT_S, check=True)
        assert ("1 job cannot be read" in listed.stderr) == bench.is_named, listed.stderr


def test_a_job_whose_row_cannot_be_read_is_left_out_and_named_once(bench):
    bench.damage_row()
    worker = subprocess.Popen([str(BINARY), "work", "-c", str(bench.config)], env=clean_environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: bench.ran() == ["a", "c"], bench.ran)
        bench.redrive("enqueue", "mail", "--id", "d")
        wait_for(lambda: bench.ran() == ["a", "c", "d"], bench.ran)
        worker.terminate()
        _, said = worker.communicate(timeout=LIMIT_S)
    finally:
        worker.kill()
    lines = [line for line in said.splitlines() if "job_unreadable" in line]
    assert len(lines) == 1 and "damaged" in lines[0], said
    assert "claim_failed" not in said, said
