"""A stream handler under `redrive work`, with no server."""

import json
import subprocess
import sys

import pytest
from conftest import BINARY, LIMIT_S

MODULE = """
import asyncio
import subprocess
import redrive

app = redrive.App()

@app.task(name="add", retry=redrive.RetryPolicy(max_attempts=2, strategy="immediate"))
def add(a, b):
    print("this is not an answer", flush=True)
    return a + b

@app.task(name="sleepy", pass_context=True)
async def sleepy(context, seconds):
    await asyncio.sleep(seconds)
    return context.job_id

@app.task(name="broken", retry=1)
def broken():
    raise ValueError("no such thing")

@app.task(name="exits", retry=1)
async def exits():
    raise SystemExit(3)

@app.task(name="cut_off", retry=1)
async def cut_off():
    other = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other

@app.task(name="large")
def large():
    return "é" * 500000

@app.task(name="gather", pass_context=True)
def gather(context):
    return [[parent.id, parent.state, parent.result, parent.result_omitted] for parent in context.parents]

@app.task(name="reads", retry=1)
def reads():
    return subprocess.run(["cat"], stdout=subprocess.PIPE, text=True, timeout=100).stdout

@app.task(name="naps")
def naps():
    raise redrive.Snooze(3600)

@app.task(name="dozes", retry=redrive.RetryPolicy(max_attempts=2, strategy="immediate"))
def dozes():
    with open("dozed", "a") as file:
        file.write("x")
        runs = file.tell()
    if runs < 3:
        raise redrive.Snooze(0)
    return runs
"""


@pytest.fixture
def redrive_program(tmp_path, run_python):
    config = json.loads(run_python("-m", "redrive", "config", "shop:app", module=MODULE).stdout)
    command = [sys.executable, "-m", "redrive", "stream", "shop:app", "--concurrency", "4"]
    config["tasks"]["unknown"] = {}
    for section in config["tasks"].values():
        section["run"] = {"stream": command, "in_flight": 4}
    path = tmp_path / "redrive.yaml"
    path.write_text(json.dumps({"store": f"sqlite:{tmp_path}/jobs.db", "log": {"level": "error"}, **config}))

    def run(*words):
        done = subprocess.run(
            [BINARY, *words, "-c", str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode in (0, 3), done.stderr
        return done.stdout

    return run


def test_jobs_run_without_a_server(redrive_program):
    redrive_program("enqueue", "add", '{"a": 1, "b": 2}', "--id", "add")
    for n in range(3):
        redrive_program("enqueue", "sleepy", '{"seconds": 0.1}', "--id", f"sleepy-{n}")
    for name in ("broken", "naps", "unknown", "exits", "cut_off", "large"):
        redrive_program("enqueue", name, "--id", name)
    redrive_program("work", "--until-idle")
    jobs = {
        id_: json.loads(redrive_program("jobs", "show", id_, "--json"))
        for id_ in ("add", "sleepy-0", "broken", "naps", "unknown", "exits", "cut_off", "large")
    }
    assert jobs["add"]["result"] == 3
    assert jobs["add"]["max_attempts"] == 2
    assert jobs["sleepy-0"]["result"] == "sleepy-0"
    error = jobs["broken"]["last_error"]
    assert (error["class"], error["type"], error["message"]) == ("validation", "ValueError", "no such thing")
    assert "Traceback" in error["stacktrace"]
    assert (jobs["naps"]["state"], jobs["naps"]["attempts"], jobs["naps"]["last_error"]) == ("scheduled", 0, None)
    assert "no task named unknown" in jobs["unknown"]["last_error"]["message"]
    assert jobs["exits"]["last_error"]["type"] == "SystemExit"
    assert jobs["cut_off"]["last_error"]["type"] == "asyncio.exceptions.CancelledError"
    assert len(jobs["large"]["result"]) == 500000


def test_a_snooze_costs_no_attempt(redrive_program):
    redrive_program("enqueue", "dozes", "--id", "dozes")
    for _ in range(20):  # a run may end before the job is due again
        redrive_program("work", "--until-idle")
        job = json.loads(redrive_program("jobs", "show", "dozes", "--json"))
        if job["state"] not in ("scheduled", "queued"):
            break
    assert (job["state"], job["result"], job["attempts"]) == ("completed", 3, 1)


def test_a_job_is_given_the_results_of_its_parents(redrive_program):
    redrive_program("enqueue", "add", '{"a": 1, "b": 2}', "--id", "add")
    redrive_program("enqueue", "large", "--id", "large")
    redrive_program("enqueue", "gather", "--id", "child", "--after", "add", "--after", "large")
    redrive_program("work", "--until-idle")
    child = json.loads(redrive_program("jobs", "show", "child", "--json"))
    assert child["result"] == [["add", "completed", 3, False], ["large", "completed", None, True]]


def test_a_program_that_a_task_starts_does_not_read_other_jobs(tmp_path):
    (tmp_path / "shop.py").write_text(MODULE)
    command = [sys.executable, "-m", "redrive", "stream", "shop:app"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as stream:
        for id_ in ("first", "second", "third"):
            stream.stdin.write(json.dumps({"id": id_, "task": "reads", "attempt": 1, "max_attempts": 1}) + "\n")
            stream.stdin.flush()
        # The input stays open, as under `redrive work`: what reads it does not come to its end.
        answers = [json.loads(stream.stdout.readline()) for _ in range(3)]
        stream.stdin.close()
    assert {answer["id"]: (answer["status"], answer.get("result")) for answer in answers} == {
        "first": ("SUCCESS", ""),
        "second": ("SUCCESS", ""),
        "third": ("SUCCESS", ""),
    }
