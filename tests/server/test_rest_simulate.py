"""The simulator over HTTP: the same figures as on the command line, and no more work than there may be."""

import json
import subprocess
import threading

import pytest

from tests.kit.program import BINARY
from tests.kit.waiting import LIMIT_S


def test_figures_are_those_of_the_command_line(api, tmp_path):
    flags = ["--outage", "30s", "--rate", "10", "--strategies", "full-jitter,breaker-parks", "--seed", "7"]
    printed = subprocess.run([BINARY, "simulate", "--json", *flags], cwd=tmp_path, capture_output=True, check=True, timeout=LIMIT_S).stdout
    told = api.ok("GET", "/simulate", outage="30s", rate="10", strategies="full-jitter,breaker-parks", seed=7)
    assert {name: told[name] for name in ("options", "strategies", "best")} == json.loads(printed)
    assert "the service is down from 60 s to 90 s" in told["description"] and told["reading"].endswith(".")


def test_calls_over_time_add_up(api):
    told = api.ok("GET", "/simulate", outage="20s", strategies="none,breaker-parks", duration="140s")
    assert len(told["calls_per_s"]) == len(told["strategies"]) == 2
    for calls, strategy in zip(told["calls_per_s"], told["strategies"]):
        assert sum(calls) * told["step_ms"] / 1000 <= strategy["calls"] + 1
        assert max(calls) <= strategy["peak_calls_per_s"]


def test_a_task_is_compared_with_its_own_policy(api):
    told = api.ok("GET", "/simulate", outage="5s", strategies="none", task="mail")
    assert [(s["name"], s["attempts"]) for s in told["strategies"]] == [("none", 8), ("configured", 2)]


EXPERIMENT = """
experiments:
  patience: {task: mail, arms: {control: {share: 0.5}, patient: {share: 0.5, retry: {initial_delay: 10s, max_attempts: 5}}}}
"""


def test_an_experiment_is_that_of_the_command_line(start, tmp_path):
    server = start(EXPERIMENT)
    flags = ["-c", "redrive.yaml", "--experiment", "patience", "--outage", "20s", "--duration", "5m"]
    printed = subprocess.run([BINARY, "simulate", "--json", *flags], cwd=tmp_path, capture_output=True, check=True, timeout=LIMIT_S).stdout
    told = server.api.ok("GET", "/simulate", outage="20s", duration="5m", experiment="patience")
    assert {name: told[name] for name in ("options", "strategies", "best", "experiment")} == json.loads(printed)
    assert [arm["name"] for arm in told["experiment"]["arms"]] == ["control", "patient"] == [s["name"] for s in told["strategies"]]
    assert sum(arm["submitted"] for arm in told["experiment"]["arms"]) > 5000
    assert len(told["calls_per_s"]) == 2 and "reading" not in told
    for query, words in (({"experiment": "patiense"}, "patience"), ({"experiment": ""}, "there is no"),
                         ({"experiment": "patience", "task": "mail"}, "in place of 'task'"),
                         ({"experiment": "patience", "strategies": "none"}, "in place of 'strategies'")):
        problem = server.api.problem(400, "GET", "/simulate", **query)
        assert problem["field"] == "experiment" and words in str(problem), problem


def test_a_server_without_experiments_says_so(api):
    assert "no experiments" in api.problem(400, "GET", "/simulate", experiment="patience")["hint"]


@pytest.mark.parametrize("query, field", [
    ({"outage": "long"}, "outage"),
    ({"outage": "7h"}, "outage"),
    ({"duration": "2d"}, "duration"),
    ({"rate": "fast"}, "rate"),
    ({"rate": "-1"}, None),
    ({"rate": "1e99"}, None),
    ({"rate": "100000"}, None),
    ({"attempts": "0"}, "attempts"),
    ({"attempts": "101"}, "attempts"),
    ({"workers": "100001"}, "workers"),
    ({"error_rate": "2"}, None),
    ({"strategies": "best"}, "strategies"),
    ({"strategies": ","}, "strategies"),
    ({"outge": "5s"}, None),
])
def test_what_makes_no_sense_or_is_too_much_is_refused(api, query, field):
    problem = api.problem(400, "GET", "/simulate", **query)
    assert field is None or problem["field"] == field


def test_work_that_grows_while_it_runs_is_cut_off(start):
    server = start()
    before = server.cpu_s()
    problem = server.api.problem(400, "GET", "/simulate", rate="200", duration="490s", outage="400s", attempts="100",
                                 strategies="none,exponential,full-jitter", capacity="1", workers="100000")
    assert "too much" in problem["detail"] and problem["hint"]
    assert server.cpu_s() - before < 30  # some seconds with sanitizers, and a bound in any case


def test_one_at_a_time_and_other_requests_meanwhile(api):
    answers = []

    def ask():
        answers.append(api("GET", "/simulate", outage="300s", rate="40"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    api.submit()
    assert api.ok("GET", "/jobs")["items"]
    for thread in threads:
        thread.join()
    statuses = [answer.status for answer in answers]
    assert set(statuses) <= {200, 503} and 200 in statuses
    assert all(answer.headers["Retry-After"] == "1" for answer in answers if answer.status == 503)
