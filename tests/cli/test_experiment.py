"""redrive experiment: jobs of two arms are run, and the report compares them."""

import hashlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.request

from tests.kit.program import environment
from tests.kit.waiting import LIMIT_S

TASKS = """\
tasks:
  call:
    run: {{exec: ["sh", "-c", "test -f {marks}/$REDRIVE_JOB_ID || {{ touch {marks}/$REDRIVE_JOB_ID; exit 75; }}"]}}
    retry: {{strategy: fixed, initial_delay: 10ms, min_delay: 10ms, jitter: false, max_attempts: 1}}
    breaker: {{failure_threshold: 0, failure_rate: 0}}
"""
EXPERIMENT = """\
experiments:
  patience:
    task: call
    arms:
      control: {share: 0.5}
      patient: {share: 0.5, retry: {max_attempts: 2}}
"""
N_JOBS = 80


def arm_of(job_id):
    point = int(hashlib.sha256(f"patience/{job_id}".encode()).hexdigest()[:8], 16) / 2**32
    return "control" if point < 0.5 else "patient"


def submit(redrive, options, tmp_path, n=N_JOBS):
    lines = tmp_path / "lines"
    lines.write_text("{}\n" * n)
    return redrive.output("enqueue", "--lines", "-f", str(lines), "call", *options).split()


def work_until(redrive, options, condition):
    worker = subprocess.Popen([redrive.binary, "work", *options], stderr=subprocess.DEVNULL, env=environment())
    try:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, "it has not come about"
            time.sleep(0.1)
    finally:
        worker.terminate()
        worker.wait(20)


def report(redrive, options):
    return json.loads(redrive.output("experiment", "report", "patience", "--json", *options))


def compare_over_http(redrive, options, job_id, log):
    """A server tells the same as the store."""
    with open(log, "wb") as out:
        server = subprocess.Popen([redrive.binary, "serve", "--no-work", "--listen-http", "127.0.0.1:0",
                                   "--listen-faktory", "off", *options], stderr=out, env=environment())
    try:
        end = time.monotonic() + 60
        while not (found := re.search(r"listening interface=http address=(\S+)", log.read_text())):
            assert time.monotonic() < end, "the server does not listen"
            time.sleep(0.05)
        url = f"http://{found[1]}"
        for words in (["experiment", "list"], ["experiment", "report", "patience"],
                      ["experiment", "report", "patience", "--json"], ["experiment", "list", "--json"]):
            assert redrive.output(*words, "--server", url) == redrive.output(*words, *options)
        assert f"Experiment  patience/{arm_of(job_id)}\n" in redrive.output("jobs", "show", job_id, "--server", url)
        with urllib.request.urlopen(url + "/v1/experiments/patience", timeout=LIMIT_S) as answer:
            assert json.load(answer) == report(redrive, options)
        try:
            urllib.request.urlopen(url + "/v1/experiments/impatience", timeout=LIMIT_S)
            raise AssertionError("there is no such experiment")
        except urllib.error.HTTPError as error:
            assert error.code == 404
    finally:
        server.terminate()
        server.wait(20)


def configure(tmp_path, store, name, experiment):
    (tmp_path / "marks").mkdir(exist_ok=True)
    config = tmp_path / name
    config.write_text(f"store: {store}\n" + TASKS.format(marks=tmp_path / "marks") + experiment)
    return ["-c", str(config)]


def test_arms_are_run_counted_and_compared(redrive, store, tmp_path):
    options = configure(tmp_path, store, "redrive.yaml", EXPERIMENT)
    ids = submit(redrive, options, tmp_path)
    arms = [arm_of(job_id) for job_id in ids]
    assert len(ids) == N_JOBS and min(arms.count("control"), arms.count("patient")) >= 15
    shown = json.loads(redrive.output("jobs", "show", ids[0], "--json", *options))
    assert shown["experiment"] == f"patience/{arms[0]}"
    assert shown["retry"]["max_retries"] == (0 if arms[0] == "control" else 1)
    assert f"Experiment  patience/{arms[0]}\n" in redrive.output("jobs", "show", ids[0], *options)

    work_until(redrive, options, lambda: sum(arm["ended"] for arm in report(redrive, options)["arms"]) == N_JOBS)
    compare_over_http(redrive, options, ids[0], tmp_path / "log")
    # Stopped: what was counted is still there.
    stopped = configure(tmp_path, store, "stopped.yaml", "")
    work_until(redrive, stopped, lambda: not report(redrive, stopped)["running"])
    figures = report(redrive, stopped)
    assert (figures["name"], figures["task"], figures["base"]) == ("patience", None, "control")
    control, patient = figures["arms"]
    n_control, n_patient = arms.count("control"), arms.count("patient")
    assert (control["name"], control["ended"], control["dead"], control["attempts"]) == (
        "control", n_control, n_control, n_control)
    assert (patient["name"], patient["completed"], patient["attempts"]) == ("patient", n_patient, 2 * n_patient)
    assert control["completed_share"]["high"] < 0.25 and patient["completed_share"]["low"] > 0.75
    difference = patient["against_base"]["completed"]
    assert difference["value"] == 1 and difference["significant"]
    assert control["against_base"] is None and control["time_to_completion"] is None

    text = redrive.output("experiment", "report", "patience", *stopped)
    assert text.startswith("Experiment patience, not running any more\n\nARM ")
    assert "patient against control\n  completed  +100.0 points (" in text
    assert "  time       too few jobs\n" in text
    listed = redrive.output("experiment", "list", *options).splitlines()
    assert listed[1].split() == ["patience", "call", "running", "2", str(N_JOBS), str(N_JOBS)]
    assert redrive.output("experiment", "list", *stopped).splitlines()[1].split()[1:3] == ["-", "stopped"]
    empty = json.loads(redrive.output("experiment", "report", "patience", "--json", "--tenant", "zoo", *options))
    assert [arm["submitted"] for arm in empty["arms"]] == [0, 0]

    # New jobs have the task's policy again.
    (job_id,) = submit(redrive, stopped, tmp_path, 1)
    assert "experiment" not in json.loads(redrive.output("jobs", "show", job_id, "--json", *stopped))


def test_an_unknown_experiment_is_an_error_with_the_nearest_name(redrive, store, tmp_path):
    options = configure(tmp_path, store, "redrive.yaml", EXPERIMENT)
    submit(redrive, options, tmp_path, 1)
    result = redrive("experiment", "report", "patince", *options)
    assert result.returncode == 1
    assert "there is no experiment 'patince'" in result.stderr and "did you mean 'patience'?" in result.stderr
    result = redrive("experiment", "report", "xyz", *options)
    assert "see which there are: redrive experiment list" in result.stderr


def test_a_wrong_experiment_stops_a_worker_at_the_start(redrive, store, tmp_path):
    options = configure(tmp_path, store, "redrive.yaml", EXPERIMENT.replace("0.5}", "0.4}"))
    result = redrive("work", *options)
    assert result.returncode == 2
    assert "redrive.yaml:11: experiments.patience.arms: the shares add up to 0.9" in result.stderr
    assert "hint: share: 0.6 for 'patient' would make it 1" in result.stderr


def test_a_job_cannot_choose_its_arm(redrive, store, tmp_path):
    options = configure(tmp_path, store, "redrive.yaml", EXPERIMENT)
    result = redrive("enqueue", "call", "--retry", '{"experiment":"patience/patient"}', *options)
    assert result.returncode == 2
