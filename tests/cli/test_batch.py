"""redrive batch: each record once, none lost, none early, whatever happens to the program."""

import datetime
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.kit.program import HANDLERS, environment
from tests.kit.waiting import wait_for

HANDLER = HANDLERS / "batch_handler.py"

# Nothing here takes longer; what does hangs.
LIMIT_S = 120

RETRY = "{profile: records, initial_delay: 200ms, min_delay: 0s}"
BREAKER = "{failure_threshold: 0, failure_rate: 0}"


class Place:
    """A directory with a configuration, a store and the handler's own book."""

    def __init__(self, redrive, path):
        self.binary = redrive.binary
        self.path = path
        self.log = path / "runs.log"
        self.configure()

    def configure(self, extra="", lease="30s", task=""):
        run = f"{{stream: [{sys.executable}, {HANDLER}, {self.log}], processes: 2}}"
        task = f"{{payload: required, lease: {lease}, run: {run}, retry: {RETRY}, breaker: {BREAKER}{task}}}"
        (self.path / "redrive.yaml").write_text(
            f"{extra}\ntasks:\n  rec: {task}\n  other: {task}\n  idle: {{}}\n", "utf-8"
        )

    def write(self, name, records):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (self.path / name).write_text(text, "utf-8")
        return name

    def start(self, *words, **options):
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        settings.update(stderr=subprocess.PIPE)
        settings.update(options)
        return subprocess.Popen(
            [self.binary, "batch", *words], cwd=self.path, env=environment(), **settings
        )

    def run(self, *words, stdin=None):
        """Exit code, summary (or what else stands there) and standard error."""
        options = {"stdin": subprocess.PIPE} if stdin is not None else {}
        process = self.start(*words, "--json", **options)
        try:
            out, err = process.communicate(stdin, timeout=LIMIT_S)
        finally:
            process.kill()
        return process.returncode, json.loads(out) if out else None, err

    def until_done(self, *words, limit_s=LIMIT_S):
        """Runs it again and again until nothing waits and nothing runs; the summaries."""
        end = time.monotonic() + limit_s
        runs = []
        while time.monotonic() < end:
            code, summary, err = self.run(*words)
            assert code in (0, 3), err
            assert code == (3 if summary["dead"] else 0)
            runs.append(summary)
            if not summary["waiting"] and not summary["running"]:
                return runs
            time.sleep(0.05)
        pytest.fail(f"records still wait: {runs[-1]}")

    def runs(self):
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text("utf-8").splitlines()]

    def query(self, sql, *values):
        with sqlite3.connect(f"file:{self.path}/redrive.db?mode=ro", uri=True, timeout=20) as db:
            return db.execute(sql, values).fetchall()

    def states(self):
        return dict(self.query("SELECT status, count(*) FROM jobs_by_status GROUP BY status"))


@pytest.fixture
def place(redrive, tmp_path):
    return Place(redrive, tmp_path)


def records_of(n, **payload):
    return [{"id": f"r{i}", "payload": {"n": i, **payload}} for i in range(n)]


# ---- The scenario ---------------------------------------------------------------------------------


def scenario_record(i):
    """Of ten: one without a payload, one that never works, one that is malformed, three flaky."""
    kind = i % 10
    if kind == 0:
        return {"sample_id": f"S-{i}", "payload": None}
    payload = {"n": i}
    if kind == 1:
        payload["fails"] = 1000
    elif kind == 2:
        payload.update(fails=1000, how="PERMANENT_FAIL")
    elif kind in (3, 4, 5):
        payload["fails"] = kind - 2
    return {"sample_id": f"S-{i}", "payload": payload}


def check_none_is_early(place):
    """By the handler's book: delays of 200 ms, doubled, since the last run, and never before the
    time that the store had written down."""
    last = {}
    promised = {
        (job, attempt): datetime.datetime.fromisoformat(at + "+00:00").timestamp()
        for job, attempt, at in place.query("SELECT job_id, attempt, next_at FROM attempts")
        if at
    }
    for job, attempt, mono, wall in place.runs():
        if attempt > 1:
            before, started = last[job]
            assert before == attempt - 1
            assert mono - started >= 0.2 * 2 ** (attempt - 2) - 0.005
            assert wall >= promised[(job, attempt - 1)] - 0.005
        last[job] = (attempt, mono)


def test_thousand_records_end_and_none_starts_early(place):
    name = place.write("samples.jsonl", [scenario_record(i) for i in range(1000)])
    runs = place.until_done("rec", name, "--payload-field", "payload")
    assert (runs[0]["new"], runs[0]["known"], runs[0]["invalid"]) == (1000, 0, 0)
    assert all(run["new"] == 0 and run["known"] == 1000 for run in runs[1:])
    assert sum(run["successful"] for run in runs) == 700
    assert sum(run["dead"] for run in runs) == 300
    assert place.states() == {"completed": 700, "dead_letter": 300}
    assert runs[-1]["next_ready_time"] is None

    by_job = {}
    for job, attempt, *_ in place.runs():
        by_job.setdefault(job, []).append(attempt)
    for i in range(1000):
        attempts = by_job.get(f"S-{i}", [])
        expected = {0: 0, 1: 6, 2: 1, 3: 2, 4: 3, 5: 4}.get(i % 10, 1)
        assert attempts == list(range(1, expected + 1))
    check_none_is_early(place)

    dead = place.query(
        "SELECT reason, error_class, retry_count, attempts, count(*) FROM dead_letter_queue GROUP BY 1, 2, 3, 4"
    )
    assert sorted(dead) == [
        ("exhausted", "transient", 5, 6, 100),
        ("not_retriable", "permanent", 0, 1, 100),
        ("not_retriable", "validation", 0, 0, 100),
    ]
    ended = place.query("SELECT sample_id FROM final_results UNION SELECT sample_id FROM dead_letter_queue")
    assert len(ended) == 1000


def test_killed_at_any_moment_it_loses_nothing_and_repeats_nothing(place):
    total = 200
    place.configure(lease="1s")  # what a killed run leaves behind is soon taken back
    records = [{"id": f"r{i}", "payload": {"sleep": 0.004, "fails": i % 3}} for i in range(total)]
    name = place.write("samples.jsonl", records)
    words = ("rec", name, "--payload-field", "payload")
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(10):
        process = place.start(*words)
        time.sleep(rng.uniform(0.02, 0.7))
        process.kill()
        process.communicate(timeout=LIMIT_S)
    place.until_done(*words)

    jobs = dict(place.query("SELECT id, attempts FROM jobs_by_status"))
    assert len(jobs) == total and set(jobs) == {f"r{i}" for i in range(total)}
    states = place.states()
    assert states.get("completed", 0) + states.get("dead_letter", 0) == total
    # What died was killed three times in a row, or six times in all.
    reasons = {row[0] for row in place.query("SELECT DISTINCT reason FROM dead_letter_queue")}
    assert reasons <= {"poison", "exhausted"}
    seen = set()
    for job, attempt, *_ in place.runs():
        assert (job, attempt) not in seen, "an attempt was run twice"
        seen.add((job, attempt))
        assert attempt <= 6 and attempt <= jobs[job]
    completed = dict(place.query("SELECT sample_id, retry_count FROM final_results"))
    for job, retries in completed.items():
        assert (job, retries + 1) in seen and (job, retries + 2) not in seen
    before = len(place.runs())
    code, summary, _ = place.run(*words)
    assert (code, summary["known"], summary["successful"]) == (0, total, 0)
    assert len(place.runs()) == before


def test_two_batches_under_a_limit_of_one_run_one_record_at_a_time(place):
    place.configure(task=", limits: {concurrency: 1}")
    name = place.write("a.jsonl", records_of(40, sleep=0.01))
    processes = [place.start("rec", name, "--payload-field", "payload", "--json") for _ in range(2)]
    summaries = [json.loads(process.communicate(timeout=LIMIT_S)[0]) for process in processes]
    assert sum(summary["successful"] for summary in summaries) + place.run("rec")[1]["successful"] == 40
    starts = sorted(mono for _, _, mono, _ in place.runs())
    assert len(starts) == 40
    assert min(later - earlier for earlier, later in zip(starts, starts[1:])) >= 0.01


# ---- Input ----------------------------------------------------------------------------------------


def test_new_records_among_known_ones_are_taken(place):
    everything = records_of(1300)
    first = place.write("a.jsonl", everything[:600])
    assert place.run("rec", first)[1]["new"] == 600
    mixed = place.write("b.jsonl", everything[600:700] + everything[:650] + everything[550:] + everything[::100])
    code, summary, _ = place.run("rec", mixed)
    assert (code, summary["new"], summary["successful"]) == (0, 700, 700)
    assert summary["known"] == summary["records"] - 700
    assert sorted(job for job, *_ in place.runs()) == sorted(record["id"] for record in everything)


# ---- While it runs --------------------------------------------------------------------------------


def test_records_of_an_open_pipe_are_run_as_they_come_and_a_signal_ends_the_waiting(place):
    process = place.start("rec", "-", "--json", stdin=subprocess.PIPE)
    try:
        for i in range(3):
            process.stdin.write(json.dumps({"id": i}) + "\n")
            process.stdin.flush()
            wait_for(lambda: len(place.runs()) == i + 1)  # pylint: disable=cell-var-from-loop
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=LIMIT_S) == 1
        summary = json.loads(process.stdout.read())
        assert (summary["new"], summary["successful"], summary["waiting"]) == (3, 3, 0)
        assert "stopped by a signal" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_second_signal_gives_records_back_without_an_attempt(place):
    name = place.write("a.jsonl", records_of(2, sleep=60))
    process = place.start("rec", name, "--payload-field", "payload", "--json")
    try:
        wait_for(lambda: len(place.runs()) == 2)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 1
        assert json.loads(out)["waiting"] == 2
    finally:
        process.kill()
        process.communicate()
    assert place.query("SELECT status, attempts FROM jobs_by_status") == [("queued", 0)] * 2


def test_terminal_shows_a_bar_and_a_pipe_does_not(place, redrive):
    name = place.write("a.jsonl", records_of(40, sleep=0.02))
    words = ("batch", "rec", name, "--payload-field", "payload")
    code, seen = redrive.on_terminal(*words, columns=100, cwd=place.path)
    assert code == 0, seen
    assert b"batch" in seen and b"40 successful" in seen
    process = place.start("rec", name)
    out, err = process.communicate(timeout=LIMIT_S)
    assert err == ""
    assert out.startswith("records     40 read: 0 new, 40 already known, 0 invalid\n")
    assert "this run    0 successful, 0 retried, 0 dead\n" in out


# ---- What comes out -------------------------------------------------------------------------------


def test_each_result_is_a_line_of_its_own(redrive, tmp_path):
    (tmp_path / "redrive.yaml").write_text("tasks: {shout: {run: {exec: [sh, -c, 'cat >/dev/null; echo done']}}}\n")
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}')
    for name in ("done.csv", "done.jsonl"):
        redrive.output("batch", "shout", "a.jsonl", "--results", name, cwd=tmp_path)
    rows = (tmp_path / "done.csv").read_bytes()
    assert rows.count(b"\n") == rows.count(b",done\r\n") + 1 == 3
    lines = (tmp_path / "done.jsonl").read_bytes()
    assert lines.endswith(b"}\n")
    assert [json.loads(line)["result"] for line in lines.splitlines()] == ["done", "done"]


def test_results_and_dead_records_are_exported(place):
    records = records_of(4) + [{"id": "bad", "payload": {"fails": 9, "how": "PERMANENT_FAIL"}}]
    name = place.write("a.jsonl", [*records, {"id": "null"}])
    words = ("rec", name, "--payload-field", "payload")
    code, summary, _ = place.run(*words, "--results", "done.csv", "--dead", "dead.jsonl")
    assert (code, summary["successful"], summary["dead"]) == (3, 4, 2)
    assert [(place.path / name).stat().st_mode & 0o777 for name in ("done.csv", "dead.jsonl")] == [0o600, 0o600]
    rows = (place.path / "done.csv").read_text("utf-8").splitlines()
    assert len(rows) == 5 and rows[1].startswith("r0,rec,")
    dead = [json.loads(line) for line in (place.path / "dead.jsonl").read_text("utf-8").splitlines()]
    assert {(d["id"], d["reason"], d["attempts"]) for d in dead} == {
        ("bad", "not_retriable", 1),
        ("null", "not_retriable", 0),
    }
    # Another run has nothing to do and exports the same.
    code, _, _ = place.run("rec", "--results", "again.csv")
    assert code == 0
    assert (place.path / "again.csv").read_text("utf-8").splitlines() == rows


def test_paths_of_the_configuration_are_used(place):
    place.configure("paths: {retry_queue: queue, final_results: results, dead_letter_queue: dead}")
    name = place.write("a.jsonl", [*records_of(2), {"id": "null"}])
    code, _, err = place.run("rec", name, "--payload-field", "payload")
    assert code == 3, err
    assert (place.path / "queue" / "redrive.db").exists()
    assert len((place.path / "results" / "rec.jsonl").read_text("utf-8").splitlines()) == 2
    assert len((place.path / "dead" / "rec.jsonl").read_text("utf-8").splitlines()) == 1
    for name in ("queue/redrive.db", "results/rec.jsonl", "dead/rec.jsonl"):
        assert (place.path / name).stat().st_mode & 0o777 == 0o600, name


@pytest.mark.parametrize("broken", ["import no_such_module_here", "raise SystemExit(3)", None])
def test_a_handler_that_cannot_run_costs_no_record(place, broken):
    """An import error, an early exit, a script that is not there: mended, every record is done."""
    script = place.path / "handler.py"
    run = f"{{stream: [{sys.executable}, {script}, {place.log}], processes: 2}}"
    (place.path / "redrive.yaml").write_text(
        f"tasks: {{rec: {{run: {run}, retry: {{max_retries: 0}}}}}}\n", "utf-8"
    )
    if broken:
        script.write_text(broken + "\n", "utf-8")
    records = place.write("in.jsonl", [{"id": f"r{i}", "fails": 0} for i in range(50)])
    code, summary, errors = place.run("rec", records)
    assert code == 1, errors
    assert "the handler of task 'rec' cannot run" in errors
    assert (summary["successful"], summary["retried"], summary["dead"]) == (0, 0, 0)
    assert summary["waiting"] == 50

    script.write_text(HANDLER.read_text("utf-8"), "utf-8")
    deadline = time.monotonic() + LIMIT_S
    done = 0
    while done < 50 and time.monotonic() < deadline:
        code, summary, errors = place.run("rec", records)
        assert code == 0, errors
        assert summary["dead"] == 0
        done += summary["successful"]
    assert done == 50


def test_records_that_are_left_running_are_a_failure(place):
    code, _, errors = place.run("rec", place.write("first.jsonl", [{"id": "a"}]))
    assert code == 0, errors
    with sqlite3.connect(place.path / "redrive.db", timeout=20) as db:
        db.execute("CREATE TRIGGER no_ends BEFORE UPDATE ON job_states "
                   "WHEN NEW.state = 5 BEGIN SELECT RAISE(ABORT, 'no'); END")
    code, summary, errors = place.run("rec", place.write("second.jsonl", [{"id": "b"}]))
    assert (code, summary["successful"], summary["running"]) == (1, 0, 1), errors
    assert "1 job is left running" in errors
