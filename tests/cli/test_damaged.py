"""A job whose payload or row was changed in the store does not stop the others."""
import json
import sqlite3
import subprocess

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


class Bench:
    def __init__(self, directory, kind):
        self.dir = directory
        self.place = stores_kit.Place(kind, directory)
        self.config = directory / "redrive.yaml"
        self.config.write_text(CONFIG.format(url=self.place.url, dir=directory), "utf-8")
        for name in ("a", "b", "c"):
            self.redrive("enqueue", "mail", json.dumps({"who": name * 40}), "--id", name)

    def redrive(self, *words, code=0):
        done = subprocess.run([str(BINARY), *words, "-c", str(self.config)], env=clean_environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
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
