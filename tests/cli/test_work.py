"""`redrive work`: real workers, real handlers, real signals.

What truly happened is read from a file that the handlers write to, not from the queue.
"""

import json
import os
import signal
import sqlite3
import subprocess

import pytest

from tests.kit import stores
from tests.kit.program import BINARY, environment
from tests.kit.server import Bench
from tests.kit.waiting import LIMIT_S, wait_for

SUBMIT = BINARY.parent / "tests" / "cli" / "submit"

CONFIG = """
store: sqlite:{dir}/jobs.db
log: {{level: info}}
tasks:
  quick: {{run: {{exec: [sh, -c, 'echo quick $REDRIVE_JOB_ID >> {dir}/effects; cat']}}}}
  slow:
    run: {{exec: [sh, -c, 'echo start $REDRIVE_JOB_ID >> {dir}/effects; exec sleep 60']}}
  gated:
    run: {{exec: [sh, -c, 'echo start $REDRIVE_ATTEMPT >> {dir}/effects; while [ ! -e {dir}/gate ];
      do sleep 0.05; done; echo end $REDRIVE_ATTEMPT >> {dir}/effects']}}
    lease: 10m
  leased:
    run: {{exec: [sh, -c, 'echo start $REDRIVE_ATTEMPT >> {dir}/effects; while [ ! -e {dir}/gate ];
      do sleep 0.05; done; echo end $REDRIVE_ATTEMPT >> {dir}/effects']}}
    lease: 5s
    heartbeat: 200ms
    retry: {{strategy: fixed, initial_delay: 10ms, jitter: none}}
  listed:
    run: {{exec: [sh, -c, 'echo start $REDRIVE_ATTEMPT >> {dir}/effects; while [ ! -e {dir}/gate ];
      do sleep 0.05; done']}}
    lease: 5s
    heartbeat: 200ms
    retry: {{strategy: fixed, initial_delay: 10ms, jitter: none, retry_on: [TaskError]}}
  never: {{run: {{exec: [sh, -c, 'echo no use >&2; exit 65']}}}}
  flaky:
    run: {{exec: [sh, -c, 'test $REDRIVE_ATTEMPT -ge 3 || exit 75']}}
    retry: {{strategy: immediate}}
  later:
    run: {{exec: [sh, -c, 'exit 75']}}
    retry: {{strategy: fixed, initial_delay: 1h, jitter: none}}
"""


class WorkBench(Bench):
    def __init__(self, directory):
        super().__init__(directory)
        self.config.write_text(CONFIG.format(dir=directory), "utf-8")

    def submit(self, task, count=1, payload="{}", delay_ms=0):
        subprocess.run([str(SUBMIT), str(self.config), self.url, task, payload, str(count), str(delay_ms)], check=True,
                       env=environment(), timeout=LIMIT_S)

    def work(self, *words, **options):
        return super().work(*words, stdout=subprocess.PIPE, **options)

    def open_gate(self):
        (self.dir / "gate").touch()

    def effects(self, beginning=""):
        return [line for line in super().effects() if line.startswith(beginning)]

    def jobs(self, columns):
        db = sqlite3.connect(self.database, timeout=LIMIT_S)
        try:
            return db.execute(f"SELECT {columns} FROM job_states JOIN states USING (state) ORDER BY seq").fetchall()
        finally:
            db.close()

    def states(self):
        return [row[0] for row in self.jobs("name")]


@pytest.fixture
def bench(tmp_path):
    bench = WorkBench(tmp_path)
    yield bench
    bench.close()


# ---- Working until there is nothing to do ------------------------------------------------------


def test_until_idle_runs_what_is_ready_and_says_so(bench):
    bench.submit("quick", 20)
    bench.submit("flaky", 2)
    bench.submit("later", 1)
    bench.submit("quick", 3, delay_ms=3600_000)
    worker = bench.work("--until-idle", "--json", "--worker", "w1")
    code, out = worker.result()
    summary = json.loads(out)
    assert code == 0
    assert summary.pop("seconds") >= 0
    assert summary.pop("next_ready_time").endswith("Z")
    assert summary == {
        "ran": 27,
        "completed": 22,
        "retried": 5,
        "dead": 0,
        "failed": 0,
        "released": 0,
        "waiting": 4,
        "waiting_for_jobs": 0,
        "parked": 0,
        "ready": 0,
    }
    assert len(bench.effects("quick")) == 20
    log = worker.log()
    for event in ("worker_started", "completed", "retrying", "worker_stopped"):
        assert f" {event} " in log
    assert "attempt=3 max_attempts=6" in log


def test_exit_code_is_3_when_a_job_dies(bench):
    bench.submit("quick")
    bench.submit("never", 2)
    worker = bench.work("--until-idle")
    code, out = worker.result()
    assert code == 3
    assert "1 completed, 0 retried, 2 dead" in out
    assert "2 jobs failed for good" in worker.log()
    assert "dead_letter" in worker.log() and "no use" in worker.log()


def test_idle_store_is_left_at_once(bench):
    code, out = bench.work("--until-idle", "--json").result()
    assert code == 0
    assert json.loads(out)["ran"] == 0
    assert json.loads(out)["next_ready_time"] is None


def test_only_named_tasks_are_run(bench):
    bench.submit("quick")
    bench.submit("flaky")
    code, _ = bench.work("--until-idle", "--task", "flaky", "--concurrency", "1").result()
    assert code == 0
    assert bench.states() == ["queued", "completed"]


def test_job_that_comes_while_the_worker_waits_is_run(bench):
    worker = bench.work()
    wait_for(lambda: "worker_started" in worker.log(), "the start")
    bench.submit("quick")
    wait_for(lambda: bench.effects("quick"), "a run")
    worker.signal(signal.SIGTERM)
    assert worker.result() == (0, "")
    assert bench.states() == ["completed"]


# ---- What is wrong -----------------------------------------------------------------------------


def test_missing_program_is_named(bench, redrive):
    text = bench.config.read_text("utf-8").replace("[sh, -c, 'echo no use", "[no-such-program, 'echo no use")
    bench.config.write_text(text, "utf-8")
    result = redrive("work", "-c", str(bench.config))
    assert result.returncode == 2
    assert "task 'never': there is no program 'no-such-program'" in result.stderr
    assert "hint:" in result.stderr


def test_nothing_to_run_is_an_error(bench, redrive):
    bench.config.write_text(f"store: sqlite:{bench.database}\ntasks: {{remote: }}\n", "utf-8")
    result = redrive("work", "-c", str(bench.config))
    assert result.returncode == 2
    assert "there is nothing to run" in result.stderr


def test_unknown_task_gets_a_hint(bench, redrive):
    result = redrive("work", "-c", str(bench.config), "--task", "quik")
    assert result.returncode == 2
    assert "did you mean 'quick'?" in result.stderr


def test_closed_standard_error_does_not_matter(bench):
    bench.submit("quick", 3)
    command = f'exec "{BINARY}" work -c "{bench.config}" --until-idle --json 2>&-'
    result = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT_S, env=environment(), check=False
    )
    assert result.returncode == 0
    assert json.loads(result.stdout)["completed"] == 3


def test_standard_error_that_nobody_reads_does_not_matter(bench):
    read, write = os.pipe()
    worker = bench.work("--until-idle", "--json", stderr=write)
    os.close(write)
    os.close(read)
    bench.submit("quick", 3)
    code, out = worker.result()
    assert code == 0 and out
    assert bench.work("--until-idle").wait() == 0
    assert bench.states() == ["completed"] * 3


def test_settlement_waits_while_another_process_has_the_file(bench):
    bench.submit("gated")
    worker = bench.work("--until-idle")
    wait_for(lambda: bench.effects("start"), "a run")
    db = sqlite3.connect(bench.database, isolation_level=None, timeout=LIMIT_S)
    db.execute("BEGIN IMMEDIATE")
    bench.open_gate()
    wait_for(lambda: "settlement_failed" in worker.log(), "a settlement that fails")
    db.execute("ROLLBACK")
    db.close()
    assert worker.result()[0] == 0
    assert bench.states() == ["completed"]
    assert len(bench.effects("start")) == 1


def test_store_file_that_is_removed_is_complained_of(bench):
    worker = bench.work()
    wait_for(lambda: "worker_started" in worker.log(), "the start")
    bench.submit("quick")
    wait_for(lambda: "completed" in worker.log(), "a run")
    for path in bench.dir.glob("jobs.db*"):
        path.unlink()
    wait_for(lambda: "removed or replaced" in worker.log(), "a complaint")
    worker.signal(signal.SIGTERM)
    assert worker.result()[0] == 0


# ---- Signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_lets_jobs_end(bench, number):
    bench.submit("gated")
    worker = bench.work()
    wait_for(lambda: bench.effects("start"), "a run")
    bench.submit("quick")
    wait_for(lambda: bench.effects("quick"), "the other run")
    worker.signal(number)
    wait_for(lambda: "worker_stopping" in worker.log(), "the stop")
    bench.submit("quick")
    bench.open_gate()
    assert worker.result() == (0, "")
    assert bench.effects("end") == ["end 1"]
    assert bench.states() == ["completed", "completed", "queued"]


def test_second_signal_releases_at_once(bench):
    bench.submit("slow")
    worker = bench.work()
    wait_for(lambda: bench.effects("start"), "a run")
    worker.signal(signal.SIGTERM)
    wait_for(lambda: "worker_stopping" in worker.log(), "the stop")
    worker.signal(signal.SIGTERM)
    assert worker.result() == (0, "")
    assert bench.jobs("name, attempts") == [("queued", 0)]
    assert "released" in worker.log()


def test_job_is_released_after_the_grace(bench):
    bench.submit("slow")
    worker = bench.work("--grace", "200ms")
    wait_for(lambda: bench.effects("start"), "a run")
    worker.signal(signal.SIGINT)
    assert worker.result() == (0, "")
    assert bench.jobs("name, attempts") == [("queued", 0)]


# ---- Workers that die or sleep -----------------------------------------------------------------


def test_jobs_of_a_killed_worker_are_done_by_another(bench):
    bench.submit("leased", 3)
    first = bench.work("--worker", "first")
    wait_for(lambda: len(bench.effects("start 1")) == 3, "three runs")
    first.signal(signal.SIGKILL)
    first.wait()
    bench.open_gate()
    second = bench.work("--worker", "second")
    wait_for(lambda: bench.states() == ["completed"] * 3, "the other worker")
    second.signal(signal.SIGTERM)
    assert second.result()[0] == 0
    assert len(bench.effects("start 2")) == 3
    # The handlers of the first have died with it: none got to its end.
    assert sorted(bench.effects("end")) == ["end 2"] * 3


def test_job_of_a_killed_worker_is_retried_though_retry_on_does_not_list_it(bench):
    bench.submit("listed")
    first = bench.work("--worker", "first")
    wait_for(lambda: bench.effects("start 1"), "a run")
    first.signal(signal.SIGKILL)
    first.wait()
    bench.open_gate()
    assert bench.jobs("name, attempts") == [("running", 1)]
    second = bench.work("--worker", "second")
    wait_for(lambda: bench.states() == ["completed"], "the other worker")
    second.signal(signal.SIGTERM)
    assert second.result()[0] == 0
    assert bench.jobs("name, attempts") == [("completed", 2)]


def test_worker_that_slept_past_its_lease_settles_nothing(bench):
    bench.submit("leased")
    first = bench.work("--worker", "first")
    wait_for(lambda: bench.effects("start 1"), "a run")
    first.signal(signal.SIGSTOP)
    second = bench.work("--worker", "second")
    wait_for(lambda: bench.effects("start 2"), "the other worker")
    bench.open_gate()  # both handlers end well
    wait_for(lambda: bench.states() == ["completed"], "the end of the job")
    wait_for(lambda: len(bench.effects("end")) == 2, "the ends of both runs")
    before = bench.jobs("name, attempts, worker, sort_key")
    first.signal(signal.SIGCONT)
    wait_for(
        lambda: "settlement_refused" in first.log() or "lease_lost" in first.log(),
        "the refusal",
    )
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        assert worker.result()[0] == 0
    assert bench.jobs("name, attempts, worker, sort_key") == before
    assert before[0][:3] == ("completed", 2, "second")
    assert " completed " not in first.log()
    assert second.log().count(" completed ") == 1


def test_two_workers_share_the_work_and_do_nothing_twice(bench):
    bench.submit("quick", 60)
    workers = [bench.work("--until-idle", "--json") for _ in range(2)]
    summaries = [json.loads(worker.result()[1]) for worker in workers]
    assert sum(summary["ran"] for summary in summaries) == 60
    assert len(bench.effects("quick")) == len(set(bench.effects("quick"))) == 60
    assert bench.states() == ["completed"] * 60


def ask(bench, *words):
    """A document about the store."""
    done = subprocess.run([str(BINARY), *words, "-c", str(bench.config), "--json"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=True, env=environment(), timeout=LIMIT_S)
    return json.loads(done.stdout)


def test_worker_is_seen_while_it_works_and_gone_when_it_has_stopped(bench):
    bench.submit("gated")
    worker = bench.work("--worker", "w-1")
    wait_for(lambda: [w["name"] for w in ask(bench, "stats")["workers"]] == ["w-1"], "the worker's row")
    bench.open_gate()
    wait_for(lambda: bench.states() == ["completed"], "the job")
    worker.signal(signal.SIGTERM)
    assert worker.result()[0] == 0
    assert ask(bench, "stats")["workers"] == []


def alert_on_dead_letters(bench):
    with open(bench.config, "a", encoding="utf-8") as config:
        config.write(f"""alerts:
  - {{when: "dead_letters > 0", command: [sh, -c, 'cat >> {bench.dir}/alerts']}}
""")
    return bench.dir / "alerts"


def test_alert_reaches_its_command_once(bench):
    alerts = alert_on_dead_letters(bench)
    bench.submit("never", 3)
    bench.work()
    wait_for(lambda: alerts.exists() and alerts.read_text("utf-8").endswith("}"), "the alert")
    told = json.loads(alerts.read_text("utf-8"))
    assert (told["status"], told["value"]) == ("firing", 3)


@pytest.mark.parametrize("round_", range(5))
def test_alert_of_the_first_look_is_not_lost(bench, round_):
    """The engine looks as soon as it has been opened."""
    bench.submit("never")
    assert bench.work("--until-idle").result()[0] == 3
    alerts = alert_on_dead_letters(bench)
    assert bench.work("--until-idle").wait() == 0
    assert json.loads(alerts.read_text("utf-8"))["status"] == "firing"


def test_summary_tells_of_jobs_that_nobody_here_takes(bench):
    bench.submit("quikc", 2)
    code, out = bench.work("--until-idle").result()
    assert code == 0
    assert "2 ready that nothing here takes" in out


def test_who_looks_at_errors_only_sees_what_has_died_and_no_retries(bench):
    bench.submit("flaky")
    bench.submit("never")
    worker = bench.work("--until-idle", "--log-level", "error")
    assert worker.result()[0] == 3
    assert " dead_letter " in worker.log()
    assert " retrying " not in worker.log()


# ---- In which order ----------------------------------------------------------------------------

ORDER_CONFIG = """
store: {url}
log: {{level: warning}}
tasks:
  mail: {{queue: bulk, run: {{exec: [sh, -c, 'printf m >> {dir}/order; cat >> {dir}/order']}}}}
  bill: {{queue: urgent, run: {{exec: [sh, -c, 'printf b >> {dir}/order; cat >> {dir}/order']}}}}
"""


class OrderBench:
    """Jobs whose handlers write down which of them ran, one after the other."""

    def __init__(self, directory, kind):
        self.dir = directory
        self.config = directory / "order.yaml"
        self.config.write_text(ORDER_CONFIG.format(url=stores.Place(kind, directory).url, dir=directory), "utf-8")

    def redrive(self, *words):
        done = subprocess.run([str(BINARY), *words, "-c", str(self.config)], env=environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, task, number, **options):
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.redrive("enqueue", task, str(number), *words)

    def order(self):
        return (self.dir / "order").read_text("utf-8")


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def order(request, tmp_path):
    return OrderBench(tmp_path, request.param)


def test_priorities_hold_between_the_tasks_of_a_worker(order):
    for i in range(3):
        order.submit("mail", i, queue="one")
    for i in range(3):
        order.submit("bill", i, queue="one", priority=i)
    order.redrive("work", "--concurrency", "1", "--until-idle")
    assert order.order() == "b2b1m0m1m2b0"


def test_queues_are_worked_in_the_order_in_which_they_are_named(order):
    for i in range(3):
        order.submit("mail", i, priority=50)
        order.submit("bill", i)
    order.redrive("work", "--concurrency", "1", "--until-idle", "-q", "urgent", "-q", "bulk")
    assert order.order() == "b0b1b2m0m1m2"
