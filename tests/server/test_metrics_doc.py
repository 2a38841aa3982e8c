"""Metrics of real processes, and that the manual, the dashboard and the alert rules use them as they are."""

import http.client
import json
import re

import pytest
import yaml

from tests.kit.faktory import FaktoryClient
from tests.kit.program import ROOT
from tests.kit.server import Bench
from tests.kit.tokens import token_hash
from tests.kit.waiting import LIMIT_S, wait_for

MANUAL = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "redrive.json").read_text("utf-8"))
RULES = yaml.safe_load((ROOT / "docs" / "prometheus" / "redrive.rules.yaml").read_text("utf-8"))

TASKS = """
tasks:
  quick: {queue: fast, run: {exec: [cat]}, limits: {retry_budget: {}}}
  never: {run: {exec: [sh, -c, 'exit 65']}}
experiments:
  patience: {task: never, arms: {control: {share: 0.5}, slow: {share: 0.5, retry: {initial_delay: 1s}}}}
"""


def series_of(text):
    """Name → set of label names, without the suffixes of histograms."""
    found = {}
    histograms = set(re.findall(r"^# TYPE (\S+) histogram$", text, re.M))
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        name = base if base in histograms else name
        found.setdefault(name, set()).update(set(re.findall(r'(\w+)="', labels)) - {"le"})
    return found


def documented(kind):
    """Name → label names, of one of the two tables of the manual."""
    table = re.search(rf"^\| metric of {kind} \|.*?\n\n", MANUAL, re.M | re.S).group(0)
    return {name: set(labels.split(",")) if labels else set()
            for name, labels in re.findall(r"^\| `(\w+)(?:\{([\w,]+)\})?` \|", table, re.M)}


STORE, PROCESS = documented("the store"), documented("a process")


@pytest.fixture(name="text", scope="module")
def fixture_text(tmp_path_factory):
    """The page of a server that has run jobs of both kinds."""
    one = Bench(tmp_path_factory.mktemp("metrics"))
    try:
        one.configure(TASKS)
        server = one.serve().ready()
        for task in ("quick", "never"):
            assert server.send("POST", f"/tasks/{task}", {})[0] == 202
        wait_for(lambda: server.metrics_sum("redrive_jobs_finished_total") == 2, "both jobs")
        yield server.get("/metrics")[1]
    finally:
        one.close()


def value(text, series):
    found, = re.findall(rf"^{re.escape(series)} (\S+)$", text, re.M)
    return float(found)


def test_arms_have_the_figures_of_the_report(bench):
    bench.configure(TASKS)
    server = bench.serve().ready()
    for _ in range(20):
        assert server.send("POST", "/tasks/never", {})[0] == 202
    wait_for(lambda: server.metrics_sum("redrive_experiment_jobs_finished_total") == 20, "all jobs")
    text = server.get("/metrics")[1]
    experiment = json.loads(server.get("/v1/experiments/patience")[1])
    assert sum(arm["submitted"] for arm in experiment["arms"]) == 20 and len(experiment["arms"]) == 2
    for arm in experiment["arms"]:
        labels = f'experiment="patience",arm="{arm["name"]}"'
        assert value(text, f"redrive_experiment_jobs_submitted_total{{{labels}}}") == arm["submitted"] > 0
        for outcome in ("completed", "dead", "cancelled"):
            assert value(text, f'redrive_experiment_jobs_finished_total{{{labels},outcome="{outcome}"}}') == arm[outcome]
        assert value(text, f"redrive_experiment_attempts_total{{{labels}}}") == arm["attempts"]
        assert value(text, f"redrive_experiment_completion_seconds_total{{{labels}}}") == arm["sums"]["time_ms"] / 1000


# Series of a process that has a certificate.
OVER_TLS = {"redrive_certificate_end_time_seconds"}


def without_tls(series):
    return {name: labels for name, labels in series.items() if name not in OVER_TLS}


def test_manual_has_every_series_and_its_labels(text):
    assert OVER_TLS < set(PROCESS)
    assert series_of(text) == without_tls({**STORE, **PROCESS})


def expressions():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if isinstance(variable["query"], dict):
            yield variable["name"], variable["query"]["query"]
    for rule in RULES["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


def selectors(expression):
    """Name, label names and what stands before, of each series that an expression uses."""
    for found in re.finditer(r"\b((?:redrive|process)_\w+)(?:\{([^}]*)\})?", expression):
        yield found.group(1), set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", found.group(2) or "")), expression[:found.start()]


@pytest.mark.parametrize("title,expression", expressions())
def test_dashboard_and_rules_use_series_that_exist(text, title, expression):
    exported = {**series_of(text), **{name: PROCESS[name] for name in OVER_TLS}}
    target = {"job", "instance"}
    used = list(selectors(expression))
    assert used or expression.startswith("up{"), title
    for name, labels, _ in used:
        base = re.sub(r"_(bucket|sum|count)$", "", name) if name not in exported else name
        assert base in exported, name
        assert labels - target <= exported[base], name
    by = {label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in group.split(", ")}
    assert by - target - {"le"} <= set().union(*(exported.get(re.sub(r"_(bucket|sum|count)$", "", n), exported.get(n, set()))
                                                 for n, _, _ in used), set()), title


@pytest.mark.parametrize("title,expression", expressions())
def test_series_of_the_store_are_taken_once_however_many_servers_export_them(title, expression):
    for name, _, before in selectors(expression):
        if name not in STORE or expression.startswith("label_values("):
            continue
        # The innermost aggregation is a max, and it keeps every label that is not fixed by the selector.
        found = re.search(r"\b(\w+)(?: by \(([^)]*)\))? \((?:rate\(|increase\()?$|\b(max)\((?:rate\(|increase\()?$", before)
        assert found and "max" in (found.group(1), found.group(3)), title
        fixed = set(re.findall(r'(\w+)="', expression[len(before):].split("}")[0]))
        kept = set((found.group(2) or "").split(", "))
        assert STORE[name] - fixed <= kept, title


def test_remote_workers_are_in_the_histograms_of_the_server(bench):
    server = bench.serve("--faktory", "127.0.0.1:0").ready()
    assert server.send("POST", "/jobs", {"task": "far", "payload": {}})[0] == 201
    status, text = server.send("POST", "/claim", {"worker": "w", "queues": ["default"], "n": 1})
    job = json.loads(text)["jobs"][0]
    assert status == 200
    outcome = {"items": [{"id": job["id"], "token": job["token"], "status": "SUCCESS"}]}
    assert server.send("POST", "/settle", outcome)[0] == 200
    client = FaktoryClient(server.port("faktory"), wid="f1", pid=1, labels=[], hostname="x")
    client.push("f-job-0001", "farther")
    assert client.fetch("default")["jid"] == "f-job-0001"
    client.ack("f-job-0001")
    for task in ("far", "farther"):
        assert server.metrics_sum("redrive_queue_wait_seconds_count", task=task) == 1
        assert server.metrics_sum("redrive_attempt_duration_seconds_count", task=task, outcome="completed") == 1


# ---- Of a worker -------------------------------------------------------------------------------


def test_worker_exports_its_own_histograms(bench):
    bench.configure(TASKS)
    bench.redrive("enqueue", "quick", "{}", "--tenant", "zoo")
    worker = bench.work("--metrics", "127.0.0.1:0")
    wait_for(lambda: worker.metrics_sum("redrive_attempt_duration_seconds_count") == 1, "the job")
    status, text = worker.get("/metrics")
    assert status == 200
    # Of a worker that has run nothing else the histograms have no other outcome, but all else is there.
    assert series_of(text) == without_tls(PROCESS)
    assert worker.metric('redrive_queue_wait_seconds_count{queue="fast",task="quick"}') == 1
    assert worker.get("/jobs")[0] == 404
    assert worker.send("POST", "/metrics", {})[0] in (405, 413)
    connection = http.client.HTTPConnection("127.0.0.1", worker.port(), timeout=LIMIT_S)
    connection.request("DELETE", "/metrics")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    connection.close()
    assert len(re.findall(rf":{worker.port()}\b", worker.log())) == 1
    assert worker.stop() == 0


def test_worker_with_tokens_asks_for_one_that_may_read(bench):
    bench.configure(f"""
tokens:
  - {{name: reader, hash: "{token_hash('r')}", scopes: [read]}}
  - {{name: sender, hash: "{token_hash('s')}", scopes: [enqueue]}}
{TASKS}""", listen="{metrics: '127.0.0.1:0'}")
    worker = bench.work()
    assert worker.get("/metrics")[0] == 401
    assert worker.get("/metrics", "wrong")[0] == 401
    assert worker.get("/metrics", "s")[0] == 403
    assert worker.get("/metrics", "r")[0] == 200


def test_worker_without_tokens_serves_programs_of_this_machine_only(bench):
    bench.configure(TASKS)
    worker = bench.work("--metrics", "0.0.0.0:0")
    assert worker.wait() == 2
    assert "without tokens only loopback addresses are served" in worker.log()
    worker = bench.work("--metrics", "127.0.0.1:0")
    connection = http.client.HTTPConnection("127.0.0.1", worker.port(), timeout=LIMIT_S)
    connection.request("GET", "/metrics", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 403
    connection.close()
