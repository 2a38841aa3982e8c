"""The small systems among the examples, as their READMEs start them: on a file, and each shared store
has one of them."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.kit.ports import free_port
from tests.kit.program import BINARY, ROOT
from tests.kit.stores import Place
from tests.kit.waiting import LIMIT_S, wait_for


@pytest.fixture
def place(request, tmp_path):
    return Place(getattr(request, "param", "sqlite"), tmp_path)


def on(*kinds):
    return pytest.mark.parametrize("place", kinds, indirect=True)


def processes_of_session(session):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, sid = stat.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # it has just ended
        if int(sid) == session and state != "Z":
            found.append(stat.parent.name)
    return found


class System:
    """A copy of an example on a store and on ports of its own."""

    def __init__(self, name, place, tmp_path):
        self.dir = tmp_path / name
        self.place = place
        shutil.copytree(ROOT / "examples" / name, self.dir, ignore=shutil.ignore_patterns("*.db*", "*.log"))
        self.port, self.backend_port = free_port(), free_port()
        keep = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS") or k == "TMPDIR"}
        self.env = {**keep, "PATH": "/usr/bin:" + os.environ["PATH"], "HOME": str(tmp_path), "REDRIVE": str(BINARY),
                    "REDRIVE_STORE": place.url, "PORT": str(self.port), "BACKEND_PORT": str(self.backend_port)}

    def run(self, *command, text=""):
        """The example as it is shipped. Its output, with what is told beside it."""
        done = subprocess.run(["./run.sh", *command], cwd=self.dir, env=self.env, input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=2 * LIMIT_S)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def redrive(self, *words):
        done = subprocess.run([str(BINARY), *words, "--json"], cwd=self.dir, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def job(self, job_id):
        return self.redrive("jobs", "show", job_id)

    def log(self, name):
        path = self.dir / name
        return path.read_text() if path.exists() else ""

    def ask(self, method, path, body=None, port=None):
        """Status and document."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port or self.port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def get(self, path):
        status, document = self.ask("GET", path)
        assert status == 200, document
        return document

    def breaker(self, key):
        return next((b for b in self.get("/retry/circuit-breakers")["items"] if b["key"] == key), {"state": None})

    def ended(self, job_id):
        wait_for(lambda: self.get(f"/jobs/{job_id}")["state"] in ("completed", "dead_letter"), f"the end of {job_id}")
        return self.get(f"/jobs/{job_id}")


def delays(job):
    return [attempt["delay"] for attempt in job["history"] if attempt["outcome"] == "retrying"]


# ---- Tasks -------------------------------------------------------------------------------------


@pytest.fixture
def tasks(place, tmp_path):
    """The system is up for as long as the command that run.sh was given, which ends with its input."""
    system = System("tasks", place, tmp_path)
    script = subprocess.Popen(["./run.sh", "cat"], cwd=system.dir, env=system.env, stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_for(lambda: "worker_started" in system.log("worker-2.log") or script.poll() is not None, "both workers")
        assert script.poll() is None, script.stderr.read()
        yield system
        script.stdin.close()
        assert script.wait(LIMIT_S) == 0, script.stderr.read()
    finally:
        if script.poll() is None:
            os.killpg(script.pid, signal.SIGKILL)
            script.wait()


@on("sqlite", "postgres")
def test_tasks_fail_each_in_its_way_and_the_api_tells_of_it(tasks):
    assert tasks.ask("POST", "/jobs", {"task": "fetch", "id": "f", "payload": {}})[0] == 201
    assert tasks.ask("POST", "/jobs", {"task": "mail", "id": "m", "payload": {"to": "ann"}})[0] == 201
    assert tasks.ask("POST", "/jobs", {"task": "mail", "id": "nobody", "payload": {"to": ""}})[0] == 201
    assert tasks.ask("POST", "/jobs", {"task": "save", "id": "s", "payload": {"n": 1}})[0] == 201
    reports = [{"task": "report", "id": f"r{n}", "payload": {}} for n in range(12)]
    assert tasks.ask("POST", "/jobs", reports)[0] == 201

    # The breaker of the task that fails opens, and holds the rest back without using an attempt.
    wait_for(lambda: tasks.breaker("report")["state"] == "open", "the breaker")
    wait_for(lambda: len(tasks.get("/jobs?task=report&state=parked")["items"]) == 12, "twelve parked jobs")
    assert tasks.breaker("report")["failure_count"] >= 5
    parked = tasks.get("/jobs?task=report&state=parked")["items"]
    # Both workers may have one in hand when the fifth failure comes.
    assert 5 <= sum(job["attempts"] for job in parked) <= 6
    asked = tasks.log("backend.log").count("\n/report ")
    assert tasks.get("/retry/stats")["circuit_breaker_stats"]["open_circuits"] == 1

    # Mended and reset, all of them are done.
    assert tasks.ask("PUT", "/mended/report", port=tasks.backend_port)[0] == 200
    assert tasks.log("backend.log").count("\n/report ") == asked
    assert tasks.ask("POST", "/retry/circuit-breakers/report/reset")[0] == 200
    assert {tasks.ended(f"r{n}")["state"] for n in range(12)} == {"completed"}
    assert tasks.breaker("report")["state"] == "closed"

    # A schedule for each class, a tenth of that in redrive.yaml.
    fetch, mail, save = tasks.ended("f"), tasks.ended("m"), tasks.ended("s")
    assert (fetch["state"], fetch["attempts"], delays(fetch)) == ("completed", 5, [0.5, 1, 2, 4])
    assert (save["state"], save["attempts"], delays(save)) == ("dead_letter", 4, [0.5, 1, 1.5])
    assert (mail["state"], mail["attempts"]) == ("completed", 4)
    for delay, base in zip(delays(mail), [0.5, 1, 2], strict=True):
        assert 1.1 * base - 0.001 <= delay <= 1.3 * base + 0.001
    classes = [job["history"][0]["error"]["class"] for job in (fetch, mail, save)]
    assert classes == ["network", "rate_limited", "database"]

    letters = {letter["task_id"]: letter for letter in tasks.get("/retry/dead-letters")["items"]}
    assert sorted(letters) == ["nobody", "s"]
    assert (letters["s"]["error_type"], letters["s"]["error_message"]) == ("OperationalError", "database is locked")
    assert (letters["s"]["retry_count"], letters["s"]["attempts"], letters["nobody"]["error_type"]) == (3, 4, "ValueError")
    assert letters["s"]["failed_at"]

    stats = tasks.get("/retry/stats")
    sums = stats["execution_stats"]
    assert (sums["successful"], sums["failed"]) == (14, 2)
    assert sums["retried"] == sum(len(delays(tasks.get(f"/jobs/{i}"))) for i in ("f", "m", "s", *(f"r{n}" for n in range(12))))
    assert sums["total_executed"] == sums["successful"] + sums["failed"] + sums["retried"]
    assert sums["success_rate"] == pytest.approx(100 * sums["successful"] / sums["total_executed"])
    assert stats["circuit_breaker_stats"]["open_circuits"] == 0
    assert stats["dead_letter_stats"] == {"total_dead_letters": 2, "by_task_type": {"mail": 1, "save": 1}}

    # A dead letter that is retried has fresh attempts; a purge needs an age.
    tasks.ask("PUT", "/mended/save", port=tasks.backend_port)
    assert tasks.ask("POST", "/retry/dead-letters/s/retry")[0] == 200
    save = tasks.ended("s")
    assert (save["state"], save["attempts"], save["epoch"]) == ("completed", 1, 1)
    assert tasks.ask("DELETE", "/retry/dead-letters")[0] == 400
    status, purged = tasks.ask("DELETE", "/retry/dead-letters?older_than_hours=0")
    assert (status, purged["removed"]) == (200, 1)
    assert tasks.get("/retry/dead-letters")["items"] == []


def test_failures_that_are_only_simulated_open_a_breaker_too(tasks):
    for _ in range(5):
        assert tasks.ask("POST", "/retry/simulate-failure?task_type=mail")[0] == 200
    assert tasks.breaker("mail")["state"] == "open"
    assert tasks.ask("POST", "/retry/circuit-breakers/mail/reset")[0] == 200
    assert tasks.breaker("mail")["state"] == "closed"


def test_configuration_of_the_tasks_has_the_schedules_of_the_profiles(redrive):
    config = str(ROOT / "examples" / "tasks" / "redrive.yaml")
    for cls, profile in (("network", "tasks-network"), ("rate_limited", "tasks-rate-limit"), ("database", "tasks-database")):
        task = json.loads(redrive.output("policy", "explain", "save", "--class", cls, "-c", config, "--json"))
        same = json.loads(redrive.output("policy", "explain", "--profile", profile, "--class", cls, "--json"))
        assert task.pop("max_attempts_from").startswith(f"{config}:")
        assert same.pop("max_attempts_from") == "--retry-profile"
        assert task == same
    assert "40s" in redrive.output("policy", "explain", "save", "--class", "network", "-c", config)


# ---- Thumbnails --------------------------------------------------------------------------------


def test_missing_picture_is_a_row_of_failed_jobs(place, tmp_path):
    system = System("thumbnail", place, tmp_path)
    output = system.run()
    line = r" (\w+) job_id=thumbnail-missing .*?attempt=(\d) max_attempts=3 .*?(delay_ms=5000|reason=exhausted)"
    assert re.findall(line, output) == [
        ("retrying", "1", "delay_ms=5000"),
        ("retrying", "2", "delay_ms=5000"),
        ("dead_letter", "3", "reason=exhausted"),
    ]
    # What it shows at the end is the row, or where there is no SQL the dead letter.
    shown = output[output.index("LAST ERROR"):]
    assert "Traceback (most recent call last)" in shown and "pictures/missing.ppm" in shown

    if place.speaks_sql:
        row, = place.query("""SELECT job_id, job_type, status, attempts, max_attempts, last_error, error_stacktrace,
                                     input_data, created_at FROM failed_jobs""")
        assert row[:5] == ("thumbnail-missing", "thumbnail", "FAILED", "3", "3")
        assert "No such file or directory" in row[5]
        assert row[6].startswith("Traceback") and "FileNotFoundError" in row[6]
        assert json.loads(row[7]) == {"input": "pictures/missing.ppm", "output": "thumbnails/missing.png", "width": 160}
        assert place.query("SELECT count(*) FROM jobs_by_status WHERE status = 'completed'") == [("3",)]
    else:
        letter = system.job("thumbnail-missing")
        assert (letter["state"], letter["reason"], letter["attempts"]) == ("dead_letter", "exhausted", 3)
        assert letter["last_error"]["stacktrace"].startswith("Traceback")

    for picture in ("dawn", "rings", "stripes"):
        assert system.job(f"thumbnail-{picture}")["state"] == "completed"
        assert (system.dir / "thumbnails" / f"{picture}.png").stat().st_size > 100

    # As the README goes on.
    shutil.copy(system.dir / "pictures/dawn.ppm", system.dir / "pictures/missing.ppm")
    system.redrive("dlq", "retry", "thumbnail-missing")
    system.redrive("work", "--until-idle")
    assert system.job("thumbnail-missing")["state"] == "completed"


def test_type_of_an_error_is_not_told_twice(tmp_path):
    system = System("thumbnail", Place("sqlite", tmp_path), tmp_path)
    words = ["enqueue", "thumbnail", '{"input":"nowhere"}', "--retry", '{"max_attempts":1}']
    subprocess.run([str(BINARY), *words], cwd=system.dir, env=system.env, stdin=subprocess.DEVNULL, check=True,
                   capture_output=True, timeout=LIMIT_S)
    for command in (["work", "--until-idle"], ["dlq", "list"]):
        listed = subprocess.run([str(BINARY), *command], cwd=system.dir, env=system.env, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, check=False, timeout=LIMIT_S).stdout
    assert "FileNotFoundError: [Errno 2]" in listed
    assert "FileNotFoundError: FileNotFoundError" not in listed


# ---- Webhooks ----------------------------------------------------------------------------------


@on("sqlite", "redis")
def test_webhook_is_retried_rescued_and_periodic(place, tmp_path):
    system = System("webhook", place, tmp_path)
    output = system.run()

    over_http = json.loads(next(line for line in output.splitlines() if line.startswith('{"id":"joke-1","task"')))
    assert over_http["job_id"] == "joke-1" and over_http["task_name"] == "fetch-joke"
    assert (over_http["status"], over_http["attempts"], over_http["queue"]) == ("completed", 3, "api")
    assert [attempt["error"] and attempt["error"]["class"] for attempt in over_http["history"]] == [
        "rate_limited", "transient", None]
    assert 2 <= over_http["history"][0]["delay"] <= 2.3 and over_http["history"][1]["delay"] == 4
    assert "joke" in over_http["result"]
    asked = re.findall(r"/joke job=joke-1 attempt=(\d) -> (\d+)", system.log("server.log"))
    assert asked == [("1", "503"), ("2", "500"), ("3", "200")]

    # The worker that was killed with the job in hand, and the one that took it over.
    report = system.job(re.search(r"report-\d+", output).group())
    assert (report["state"], report["attempts"]) == ("completed", 2)
    first, second = report["history"]
    assert (first["worker"], first["outcome"], first["error"]["class"]) == ("doomed", "retrying", "system")
    assert first["delay"] == 5 and second["worker"] == "api"

    entry, = system.redrive("cron", "list")["items"]
    assert (entry["name"], entry["schedule"]) == ("digest-every-two-minutes", "*/2 * * * *")
    digests = system.redrive("jobs", "list", "--task", "digest")["items"]
    assert len(digests) >= 1
    assert "/digest job=" in system.log("server.log")

    if place.speaks_sql:
        rows = place.query("SELECT id, status, attempts FROM jobs_by_status WHERE attempts > 1 ORDER BY attempts DESC")
        assert rows == [("joke-1", "completed", "3"), (report["id"], "completed", "2")]
        events = place.query("""SELECT job_id, attempts FROM job_events WHERE type = 'deferred_for_retry'
                                ORDER BY job_id, attempts""")
        assert events == [("joke-1", "1"), ("joke-1", "2"), (report["id"], "1")]


# ---- As make starts them -----------------------------------------------------------------------


def test_example_runs_on_a_file_and_again_on_the_same_one(tmp_path):
    build = tmp_path / "build"
    build.mkdir()
    (build / "redrive").symlink_to(BINARY)
    env = {k: v for k, v in os.environ.items() if not k.startswith("REDRIVE_")}
    env.pop("PORT", None)
    env.pop("BACKEND_PORT", None)

    def call(words, where):
        return subprocess.run(words, cwd=where, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=2 * LIMIT_S)

    wrong = call([ROOT / "tools" / "example", build, "tasks", "oracle"], ROOT)
    assert wrong.returncode == 1 and "there is no store 'oracle'" in wrong.stderr
    done = call([ROOT / "tools" / "example", build, "tasks", "sqlite"], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "store: a SQLite file" in done.stdout
    assert "What to try next" in done.stdout and "./run.sh sh" in done.stdout
    env["REDRIVE"] = str(BINARY)
    again = call(["./run.sh"], build / "example-tasks")
    assert again.returncode == 0, again.stdout + again.stderr
    for output in (done.stdout, again.stdout):
        assert re.search(r"^API: http://127.0.0.1:[1-9]\d*, backend: http://127.0.0.1:[1-9]\d*$", output, re.M)
        assert re.search(r"report +open", output) and re.search(r"report +closed", output)
        assert "0.50, 1.00, 2.00, 4.00 s" in output and '"removed": 1' in output


@pytest.mark.parametrize("name", ["tasks", "webhook"])
@pytest.mark.parametrize("variable", ["PORT", "BACKEND_PORT"])
def test_port_that_is_taken_ends_an_example_with_the_reason(name, variable, tmp_path):
    system = System(name, Place("sqlite", tmp_path), tmp_path)
    taken = system.env[variable]
    with socket.create_server(("127.0.0.1", int(taken))):
        done = subprocess.run(["./run.sh", "true"], cwd=system.dir, env=system.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{taken}" in done.stderr and "Address already in use" in done.stderr
    assert "choose another" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["tasks", "webhook"])
def test_commands_of_the_readme_run_in_a_shell_of_ones_own(name, tmp_path):
    system = System(name, Place("sqlite", tmp_path), tmp_path)
    del system.env["REDRIVE_STORE"]  # the file that the commands name
    section = (system.dir / "README.md").read_text("utf-8").split("## Try next\n")[1]
    commands = [line.strip() for line in section.splitlines() if line.startswith("    ") and "tail -f" not in line]
    assert len(commands) >= 6
    output = system.run("sh", text="set -e\n" + "\necho\n".join(commands) + "\n")
    assert '"state":"queued"' in output
    assert {"tasks": "total_executed", "webhook": "digest-every-two-minutes"}[name] in output


def test_example_whose_reader_goes_away_leaves_nothing_running(tmp_path):
    system = System("webhook", Place("sqlite", tmp_path), tmp_path)
    script = subprocess.Popen(["./run.sh"], cwd=system.dir, env=system.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(4):  # what comes next is written by the shell itself
            script.stdout.readline()
        script.stdout.close()
        assert script.wait(LIMIT_S) != 0
        # All of them were in the session that the script began.
        wait_for(lambda: not processes_of_session(script.pid), "the end of its processes")
    finally:
        for pid in processes_of_session(script.pid):
            os.kill(int(pid), signal.SIGKILL)
        script.wait()
