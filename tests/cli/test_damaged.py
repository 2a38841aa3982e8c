"""A job whose payload or row was changed in the store does not stop the others."""
import base64
import json
import random
import re
import signal
import sqlite3
import subprocess
import time
import urllib.request

import pytest

from tests.kit import stores
from tests.kit.program import BINARY, environment
from tests.kit.server import Server
from tests.kit.waiting import LIMIT_S, wait_for

CONFIG = """
store: {url}
log: {{level: warning}}
tasks:
  mail: {{run: {{exec: [sh, -c, 'printf "$REDRIVE_JOB_ID " >> {dir}/ran']}}}}
"""


def get(url):
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        return json.load(answer)


class Bench:
    def __init__(self, directory, kind):
        self.dir = directory
        self.place = stores.Place(kind, directory)
        # A job whose spec was deleted is in no list of PostgreSQL; the job's other row is met by claims.
        self.is_named = kind != "postgres"
        self.config = directory / "redrive.yaml"
        self.config.write_text(CONFIG.format(url=self.place.url, dir=directory), "utf-8")
        for name in ("a", "b", "c"):
            self.redrive("enqueue", "mail", json.dumps({"who": name * 40}), "--id", name)

    def command(self, *words):
        return subprocess.run([str(BINARY), *words, "-c", str(self.config)], env=environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def server(self):
        """A server that runs nothing."""
        return Server(self.dir, "--no-work", "--listen", "127.0.0.1:0", "--log-level", "info", "-c", self.config)

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

    def damage_redis(self, changed="string.sub(row, 1, at - 1) .. '!' .. string.sub(row, at + 1)", name="b"):
        """A byte of the row, or what the expression says; nil: the row is gone."""
        base, prefix = self.place.url.split("?prefix=")
        host = base.removeprefix("redis://").split("/")[0]
        words = ["redis-cli", "-u", f"redis://{host}"]
        script = """for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
            for _, field in ipairs(redis.call('HKEYS', key)) do
                local row = redis.call('HGET', key, field)
                local at = string.find(row, '"' .. string.rep('NAME', 40), 1, true)
                if at then
                    local changed = CHANGED
                    if changed then
                        redis.call('HSET', key, field, changed)
                    else
                        redis.call('HDEL', key, field)
                    end
                    return 1
                end
            end
        end
        return 0""".replace("CHANGED", changed).replace("NAME", name)
        done = subprocess.run([*words, "EVAL", script, "0", f"*{prefix}*j:*"], capture_output=True, text=True,
                              timeout=LIMIT_S, check=True)
        assert done.stdout.strip() == "1", done.stdout

    def damage_row(self):
        """The row of job b cannot be read."""
        if self.place.kind == "redis":
            self.damage_redis("'x'")
        elif self.place.kind == "postgres":
            self.place.query("DELETE FROM redrive.specs WHERE id = 'b'")
        else:
            with sqlite3.connect(self.place.file) as db:
                db.execute("UPDATE job_states SET packed_status = x'ffff' WHERE seq = (SELECT seq FROM specs WHERE id = 'b')")
            db.close()

    def spoil_from(self, first):
        """No row from this number on can be read."""
        if self.place.kind == "redis":
            base, prefix = self.place.url.split("?prefix=")
            script = """for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
                local bucket = tonumber(string.match(key, '%d+$'))
                for _, field in ipairs(redis.call('HKEYS', key)) do
                    if bucket * 256 + string.byte(field) >= tonumber(ARGV[2]) then
                        redis.call('HSET', key, field, 'noise that is long enough')
                    end
                end
            end"""
            subprocess.run(["redis-cli", "-u", base.split("?")[0], "EVAL", script, "0", f"{{{prefix}}}:j:*", str(first)],
                           capture_output=True, text=True, timeout=LIMIT_S, check=True)
        elif self.place.kind == "postgres":
            self.place.query(f"UPDATE redrive.job_states SET state = 42 WHERE seq >= {first}")
        else:
            with sqlite3.connect(self.place.file) as db:
                db.execute(f"UPDATE job_states SET state = 42 WHERE seq >= {first}")
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
        warning = bench.command("jobs", "list").stderr
        assert "1 job cannot be read and is left out" in warning
        assert re.search("the first: .*job", warning), warning
    bench.redrive("stats")
    bench.redrive("queues", "list")
    assert ("1 job cannot be read" in bench.redrive("doctor", code=1)) == bench.is_named
    bench.redrive("jobs", "cancel", "a", "b", "c", code=1)
    assert {job["state"] for job in bench.jobs().values()} == {"cancelled"}
    assert sorted(bench.jobs()) == ["a", "c"]


def test_a_server_answers_beside_a_row_that_cannot_be_read(bench):
    bench.damage_row()
    with bench.server() as server:
        url = server.url
        page = get(url + "/v1/jobs")
        assert sorted(job["id"] for job in page["items"]) == ["a", "c"]
        assert page.get("unreadable", 0) == int(bench.is_named) and bool(page.get("unreadable_first")) == bench.is_named
        get(url + "/v1/stats")
        get(url + "/v1/queues")
        listed = subprocess.run([str(BINARY), "jobs", "list", "--server", url], env=environment(), cwd=bench.dir,
                                capture_output=True, text=True, timeout=LIMIT_S, check=True)
        assert ("1 job cannot be read" in listed.stderr) == bench.is_named, listed.stderr


def test_a_job_whose_row_cannot_be_read_is_left_out_and_named_once(bench):
    bench.damage_row()
    worker = subprocess.Popen([str(BINARY), "work", "-c", str(bench.config)], env=environment(),
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


# ---- doctor --repair ---------------------------------------------------------------------------

SPOILT = {
    "sqlite": {
        "numbers": "UPDATE job_states SET packed_status = x'ffff' WHERE seq = {seq}",
        "state": "UPDATE job_states SET state = 42 WHERE seq = {seq}",
        "reason": "UPDATE job_states SET reason = 99 WHERE seq = {seq}",
        "partition": "UPDATE job_states SET partition_id = 999 WHERE seq = {seq}",
        "no spec": "DELETE FROM specs WHERE seq = {seq}",
        "no state": "DELETE FROM job_states WHERE seq = {seq}",
    },
    "postgres": {
        "state": "UPDATE redrive.job_states SET state = 42 WHERE seq = {seq}",
        "reason": "UPDATE redrive.job_states SET reason = 99 WHERE seq = {seq}",
        "partition": "UPDATE redrive.job_states SET partition_id = 999 WHERE seq = {seq}",
        "no spec": "DELETE FROM redrive.specs WHERE seq = {seq}",
        "no state": "DELETE FROM redrive.job_states WHERE seq = {seq}",
    },
    "redis": {
        "one byte": "'x'",
        "noise": "string.rep(string.char(255, 7, 200), 40)",
        "state": "string.char(77) .. string.sub(row, 2)",
        "cut off": "string.sub(row, 1, #row - 30)",
        "partition": "string.sub(row, 1, 3) .. string.char(200) .. string.sub(row, 5)",
        "gone": "nil",
    },
}


def spoil(bench, kind, name):
    how = SPOILT[bench.place.kind][kind]
    if bench.place.kind == "redis":
        bench.damage_redis(how, name)
    elif bench.place.kind == "postgres":
        seq = bench.place.query(f"SELECT seq FROM redrive.specs WHERE id = '{name}'")[0][0]
        bench.place.query(how.format(seq=seq))
    else:
        with sqlite3.connect(bench.place.file) as db:
            seq = db.execute("SELECT seq FROM specs WHERE id = ?", (name,)).fetchone()[0]
            db.execute(how.format(seq=seq))
        db.close()


@pytest.mark.parametrize("kind", sorted({kind for kinds in SPOILT.values() for kind in kinds}))
def test_repair_sets_a_job_aside_that_cannot_be_read(bench, kind):
    if kind not in SPOILT[bench.place.kind]:
        pytest.skip(f"rows of {bench.place.kind} cannot be spoilt so")
    bench.redrive("enqueue", "mail", json.dumps({"who": "d" * 40}), "--id", "d", "--unique", "u")
    spoil(bench, kind, "d")
    aside = bench.dir / "aside.jsonl"
    before = bench.redrive("doctor", code=1)
    assert "doctor --repair" in before, before
    assert not aside.exists()
    said = json.loads(bench.redrive("doctor", "--repair", "--aside", str(aside), "--json"))["items"]
    repair = next(item for item in said if item["check"] == "repair")
    # Of a row of Redis that is gone nothing is left.
    left = 0 if (bench.place.kind, kind) == ("redis", "gone") else 1
    assert repair["set_aside"] == left and repair["status"] == "ok", repair
    assert repair["file"] == (str(aside) if left else None)
    if left:
        lines = [json.loads(line) for line in aside.read_text("utf-8").splitlines()]
        assert len(lines) == 1 and lines[0]["seq"] == 4, lines
        assert aside.stat().st_mode & 0o777 == 0o600
        if kind in ("state", "partition"):
            assert b"d" * 40 in base64.b64decode(lines[0]["fields"][0]["value"]["base64"]) if bench.place.kind == "redis" \
                else "d" * 40 in lines[0]["specs"][0]["payload"]
    assert [item for item in said if item["status"] == "fail"] == []
    listed = bench.command("jobs", "list", "--json")
    assert sorted(job["id"] for job in json.loads(listed.stdout)["items"]) == ["a", "b", "c"] and listed.stderr == ""
    queue = json.loads(bench.redrive("queues", "list", "--json"))["items"][0]
    assert queue["queued"] == 3 and sum(v for k, v in queue.items() if k in ("running", "completed", "dead_letter")) == 0, queue
    # Neither its id nor its key is held any more.
    bench.redrive("enqueue", "mail", "--id", "d", "--unique", "u")
    bench.redrive("work", "--until-idle")
    assert bench.ran() == ["a", "b", "c", "d"]
    assert "nothing to repair" in bench.redrive("doctor", "--repair", "--aside", str(aside))


def test_a_change_of_a_job_that_cannot_be_read_names_the_repair(bench):
    if bench.place.kind == "postgres":
        bench.place.query("UPDATE redrive.job_states SET state = 42 WHERE seq = 2")
    else:
        bench.damage_row()
    for words in (("jobs", "cancel", "b"), ("jobs", "retry", "b"), ("jobs", "show", "b"), ("dlq", "remove", "b")):
        done = bench.command(*words)
        assert done.returncode != 0 and "damaged" in done.stderr and "redrive doctor --repair" in done.stderr, (words, done)
    assert sorted(bench.jobs()) == ["a", "c"]


def test_repair_that_cannot_keep_a_job_removes_nothing(bench):
    bench.damage_row()
    done = bench.command("doctor", "--repair", "--aside", str(bench.dir / "no" / "such" / "file"))
    assert done.returncode == 1 and "cannot open the file for damaged jobs" in done.stdout, done
    assert "name another one with --aside" in done.stdout
    bench.redrive("doctor", "--repair", "--aside", str(bench.dir / "aside.jsonl"))
    assert len((bench.dir / "aside.jsonl").read_text("utf-8").splitlines()) == 1


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def test_repair_that_is_killed_goes_on_the_next_time(bench):
    """Each damaged job is in the file or in the store at any moment, and in the end in the file alone."""
    dice = random.Random(11)
    source, aside = bench.dir / "payloads", bench.dir / "aside.jsonl"
    source.write_text("".join(f'{{"who":"{"b" * 40}","n":{n}}}\n' for n in range(1000)), "utf-8")
    damaged = kills = left = tries = 0
    while kills < 8:
        tries += 1
        assert tries <= 100, f"{kills} of 100 repairs are killed before they are through"
        if left == 0:  # a repair that was not killed in time has done all there was
            bench.redrive("enqueue", "mail", "--lines", "--from", str(source))
            bench.spoil_from(4)
            damaged += 1000
        process = subprocess.Popen([str(BINARY), "doctor", "--repair", "--aside", str(aside), "-c", str(bench.config)],
                                   env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        # It is killed when it has kept some more, and is about to remove these.
        enough = size_of(aside) + dice.choice((1, 1, 10000, 20000))
        while process.poll() is None and size_of(aside) < enough:
            pass
        time.sleep(dice.choice((0, 0, 0.001, 0.003)))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT_S)
            kills += 1
        else:
            assert process.returncode == 0
        # The last line may be cut off, and is kept again then.
        text = aside.read_text("utf-8") if aside.exists() else ""
        kept = {json.loads(line)["seq"] for line in text.splitlines(keepends=True) if line.endswith("}\n")}
        listed = bench.command("jobs", "list", "--json", "--limit", "1000")
        left_out = re.search(r"(\d+) jobs? cannot be read", listed.stderr)
        left = int(left_out[1]) if left_out else 0
        assert len(kept) + left >= damaged, (kills, len(kept), listed.stderr)
    bench.redrive("doctor", "--repair", "--aside", str(aside))
    kept = {json.loads(line)["seq"] for line in aside.read_text("utf-8").splitlines() if line.endswith("}")}
    assert len(kept) == damaged and min(kept) == 4
    assert sorted(bench.jobs()) == ["a", "b", "c"]
    queue = json.loads(bench.redrive("queues", "list", "--json"))["items"][0]
    assert queue["queued"] == 3, queue


def test_a_job_that_waits_for_one_that_is_set_aside_is_skipped(bench):
    bench.redrive("enqueue", "mail", "--id", "waits", "--after", "b")
    bench.redrive("enqueue", "mail", "--id", "either", "--after", "b", "--on", "end")
    spoil(bench, "cut off" if bench.place.kind == "redis" else "state", "b")
    bench.redrive("doctor", "--repair", "--aside", str(bench.dir / "aside.jsonl"))
    jobs = bench.jobs()
    assert (jobs["waits"]["state"], jobs["waits"]["reason"]) == ("cancelled", "skipped"), jobs["waits"]
    assert "number 2" in jobs["waits"]["last_error"]["message"]
    bench.redrive("work", "--until-idle")
    assert bench.ran() == ["a", "c", "either"]


def test_the_slot_of_a_running_job_that_is_set_aside_is_free_again(bench):
    """Processes that run go on: no start of an engine counts the slots."""
    go, aside = bench.dir / "go", bench.dir / "aside.jsonl"
    bench.config.write_text(bench.config.read_text("utf-8") + f"""
  slow:
    run: {{exec: [sh, -c, 'until [ -e {go} ]; do sleep 0.05; done; printf "$REDRIVE_JOB_ID " >> {bench.dir}/ran']}}
    limits: {{concurrency: 1}}
    lease: 1s
""", "utf-8")
    worker = subprocess.Popen([str(BINARY), "work", "-c", str(bench.config)], env=environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        bench.redrive("enqueue", "slow", json.dumps({"who": "d" * 40}), "--id", "d")
        wait_for(lambda: bench.jobs()["d"]["state"] == "running", bench.jobs)
        spoil(bench, "noise" if bench.place.kind == "redis" else "state", "d")
        bench.redrive("enqueue", "slow", "--id", "e")
        go.touch()
        bench.redrive("doctor", "--repair", "--aside", str(aside))
        wait_for(lambda: "e" in bench.ran(), lambda: str(bench.jobs()))
    finally:
        worker.kill()
        worker.wait(LIMIT_S)
