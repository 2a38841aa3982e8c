"""Traces from end to end: a traceparent goes through every interface, and spans reach a strict collector."""

import http.client
import http.server
import json
import socket
import subprocess
import threading

import pytest

from tests.kit import servers
from tests.kit.faktory import FaktoryClient
from tests.kit.program import BINARY, environment
from tests.kit.server import Bench
from tests.kit.waiting import LIMIT_S, wait_for
from tests.server.collector import Collector

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT_SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{PARENT_SPAN}-01"

TASKS = """
defaults: {retry: {strategy: fixed, initial_delay: 1ms, min_delay: 1ms, max_attempts: 3, jitter: none}}
tasks:
  good: {run: {exec: [sh, -c, 'printf %s "$TRACEPARENT"']}}
  bad: {retry: {max_attempts: 2}, run: {exec: [sh, -c, 'echo no service >&2; exit 75']}}
  remote: {queue: elsewhere}
"""


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    one.configure(TASKS)
    yield one
    one.close()


@pytest.fixture
def collector():
    one = Collector()
    yield one
    one.close()


def otel(collector, **more):
    """Batches are sent at once."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "0", **more}


def submit(server, task, traceparent=None, body="{}"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port(), timeout=LIMIT_S)
    try:
        connection.request("POST", f"/v1/tasks/{task}", body, {"traceparent": traceparent} if traceparent else {})
        answer = connection.getresponse()
        assert answer.status == 202
        return json.loads(answer.read())["id"]
    finally:
        connection.close()


def attempts(collector, task, n):
    found = wait_for(lambda: len(collector.spans(f"process {task}")) >= n and collector.spans(f"process {task}"), f"{n} attempts")
    assert len(found) == n
    return sorted(found, key=lambda span: span["attributes"]["redrive.attempt"])


def result_of(server, job_id):
    def ended():
        job = json.loads(server.get(f"/v1/jobs/{job_id}")[1])
        return job if job["state"] in ("completed", "dead_letter") else None

    return wait_for(ended, "the job's end")["result"]


def test_a_request_and_its_attempt_are_spans_of_the_clients_trace(bench, collector):
    server = bench.serve(env=otel(collector, OTEL_SERVICE_NAME="mailer", OTEL_RESOURCE_ATTRIBUTES="host.name=a%20b,team=core",
                                  OTEL_EXPORTER_OTLP_HEADERS="x-key=a%2Cb"))
    job = submit(server, "good", PARENT)
    (run,) = attempts(collector, "good", 1)
    (request,) = wait_for(lambda: collector.spans("submit good"), "the span of the request")
    assert (request["traceId"], request["parentSpanId"], request["kind"]) == (TRACE, PARENT_SPAN, 4)
    assert (run["traceId"], run["parentSpanId"], run["kind"]) == (TRACE, request["spanId"], 5)
    assert "links" not in run and run["status"] == {}
    assert run["resource"]["service.name"] == "mailer" and run["resource"]["host.name"] == "a b"
    assert collector.headers[0]["x-key"] == "a,b"
    said = run["attributes"]
    assert said["messaging.system"] == "redrive" and said["messaging.destination.name"] == "default"
    assert (said["messaging.message.id"], said["redrive.task"], said["redrive.outcome"]) == (job, "good", "completed")
    # The handler is given the span of its attempt.
    assert result_of(server, job) == f"00-{TRACE}-{run['spanId']}-01"
    wait_for(lambda: server.metric("redrive_trace_spans_sent_total") == 2, "both are counted")
    assert server.metric("redrive_trace_spans_dropped_total") == 0


def test_a_retry_has_a_link_to_the_attempt_before_and_the_class_of_its_error(bench, collector):
    server = bench.serve(env=otel(collector))
    submit(server, "bad", PARENT)
    first, second = attempts(collector, "bad", 2)
    assert first["parentSpanId"] == second["parentSpanId"] and first["traceId"] == second["traceId"] == TRACE
    assert "links" not in first
    assert [(link["traceId"], link["spanId"]) for link in second["links"]] == [(TRACE, first["spanId"])]
    assert [span["attributes"]["redrive.outcome"] for span in (first, second)] == ["retrying", "dead_letter"]
    for span in (first, second):
        assert span["status"] == {"code": 2, "message": "no service"}
        assert span["attributes"]["error.type"] == "transient"


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_other_stores_keep_the_trace_of_a_job(bench, collector, kind):
    with servers.KINDS[kind]() as store:
        bench.config.write_text(bench.config.read_text("utf-8").replace(f"sqlite:{bench.database}", store.url), "utf-8")
        server = bench.serve(env=otel(collector))
        job = submit(server, "bad", PARENT)
        first, second = attempts(collector, "bad", 2)
        (request,) = wait_for(lambda: collector.spans("submit bad"), "the span of the request")
        assert (request["traceId"], request["parentSpanId"]) == (TRACE, PARENT_SPAN)
        assert first["traceId"] == second["traceId"] == TRACE
        assert first["parentSpanId"] == second["parentSpanId"] == request["spanId"]
        assert json.loads(server.get(f"/v1/jobs/{job}")[1])["traceparent"] == f"00-{TRACE}-{request['spanId']}-01"
        server.stop()


class Receiver(http.server.BaseHTTPRequestHandler):
    """The service of an http handler."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(self.headers["traceparent"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_service_that_is_called_gets_the_span_of_the_attempt(bench, collector):
    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as service:
        service.seen = []
        threading.Thread(target=service.serve_forever, daemon=True).start()
        bench.configure(f"tasks: {{hook: {{run: {{http: 'http://127.0.0.1:{service.server_port}/'}}}}}}\n")
        server = bench.serve(env=otel(collector))
        submit(server, "hook", PARENT)
        (run,) = attempts(collector, "hook", 1)
        service.shutdown()
    assert service.seen == [f"00-{TRACE}-{run['spanId']}-01"]


def test_a_job_without_a_trace_begins_one_with_its_first_attempt(bench, collector):
    server = bench.serve(env=otel(collector))
    submit(server, "bad")
    submit(server, "bad", "not a traceparent")
    spans = attempts(collector, "bad", 4)
    assert len({span["traceId"] for span in spans}) == 2 and not collector.spans("submit bad")
    for trace in {span["traceId"] for span in spans}:
        first, second = [span for span in spans if span["traceId"] == trace]
        assert "parentSpanId" not in first and second["parentSpanId"] == first["spanId"]


def test_what_the_parent_does_not_sample_is_not_sent(bench, collector):
    server = bench.serve(env=otel(collector, OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0"))
    for traceparent in (PARENT[:-2] + "00", None):
        job = submit(server, "good", traceparent)
        assert result_of(server, job)[-2:] in ("00", "02")
    submit(server, "good", PARENT)
    attempts(collector, "good", 1)


def test_a_traceparent_goes_through_every_interface_without_a_collector(bench):
    """And without one nothing is exported: what the handler gets is the submitter's span."""
    bench.configure(TASKS, listen="{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    server = bench.serve().ready()
    assert result_of(server, submit(server, "good", PARENT)) == PARENT
    assert result_of(server, submit(server, "good")) is None
    status, text = server.send("POST", "/v1/jobs", [{"task": "good", "traceparent": PARENT, "retry": {"max_retries": 7}},
                                                     {"task": "good", "traceparent": 7}])
    assert status == 201
    one, other = [item["id"] for item in json.loads(text)["items"]]
    assert result_of(server, one) == PARENT and result_of(server, other) is None
    shown = bench.job(one)
    assert shown["traceparent"] == PARENT and shown["retry"] == {"max_retries": 7} and shown["max_attempts"] == 8
    assert "traceparent" not in bench.job(other)
    # From the environment of a command, as a handler's own is.
    done = subprocess.run([str(BINARY), "enqueue", "good", "-c", str(bench.config)], env=environment(TRACEPARENT=PARENT),
                          capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert result_of(server, done.stdout.strip()) == PARENT
    faktory = FaktoryClient(server.port("faktory"))
    try:
        faktory.push("faktory-1", "good", custom={"traceparent": PARENT, "a": 1})
        assert result_of(server, "faktory-1") == PARENT
    finally:
        faktory.socket.close()
    # A remote worker finds it in the job that it claims.
    submit(server, "remote", PARENT)
    status, text = server.send("POST", "/v1/claim", {"queues": ["elsewhere"], "wait": 30})
    assert status == 200 and json.loads(text)["jobs"][0]["traceparent"] == PARENT


def test_the_same_request_in_another_span_is_still_the_same_request(bench):
    server = bench.serve().ready()
    connection = server.connect()
    answers = []
    for span in ("1111111111111111", "2222222222222222"):
        connection.request("POST", "/v1/jobs", json.dumps([{"task": "remote"}]),
                           {"Idempotency-Key": "once", "traceparent": f"00-{TRACE}-{span}-01"})
        answer = connection.getresponse()
        answers.append((answer.status, json.loads(answer.read())))
    connection.close()
    assert [status for status, _ in answers] == [201, 201]
    assert answers[1][1]["items"][0]["existed"]


def test_jobs_run_while_no_collector_is_there(bench):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        port = nobody.getsockname()[1]
        server = bench.serve(env={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "0",
                                  "OTEL_BSP_EXPORT_TIMEOUT": "1"})
        jobs = [submit(server, "good", PARENT) for _ in range(3)]
        assert all(result_of(server, job) for job in jobs)
        wait_for(lambda: server.metric("redrive_trace_spans_dropped_total") == 6, "all are dropped")
        assert server.metric("redrive_trace_spans_sent_total") == 0
        server.wait_log(r"WARN +trace_spans_dropped spans=\d+ error=")
        assert server.stop() == 0


def test_a_collector_that_hangs_holds_nothing_up_and_a_stop_ends(bench):
    let_go = threading.Event()
    collector = Collector(lambda: let_go.wait() and None)
    try:
        server = bench.serve(env=otel(collector, OTEL_BSP_MAX_QUEUE_SIZE="2", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1"))
        jobs = [submit(server, "good") for _ in range(8)]
        assert all(result_of(server, job) for job in jobs)
        # One is being sent, two wait, and the others found the queue full.
        wait_for(lambda: server.metric("redrive_trace_spans_dropped_total") >= 5, "the rest is dropped")
        assert server.stop() == 0
        assert sum(int(n) for n in server.wait_log(r"trace_spans_dropped spans=(\d+) ")) == 8
    finally:
        let_go.set()
        collector.close()


def test_a_collector_that_is_busy_is_asked_again(bench):
    answers = [(503, {}, ""), (429, {"Retry-After": "1"}, "")]
    collector = Collector(lambda: answers.pop() if answers else None)
    try:
        server = bench.serve(env=otel(collector))
        submit(server, "good")
        attempts(collector, "good", 1)
        assert collector.asked == 3
        wait_for(lambda: server.metric("redrive_trace_spans_sent_total") == 1, "it is counted")
        assert server.metric("redrive_trace_spans_dropped_total") == 0
    finally:
        collector.close()


def test_what_a_collector_refuses_is_dropped(bench):
    answers = [(200, {}, '{"partialSuccess":{"rejectedSpans":"1"}}'), (400, {}, "no")]
    collector = Collector(lambda: answers.pop() if answers else None)
    try:
        server = bench.serve(env=otel(collector))
        for dropped in (1, 2):
            submit(server, "good")
            wait_for(lambda n=dropped: server.metric("redrive_trace_spans_dropped_total") == n, f"{dropped} dropped")
        submit(server, "good")
        wait_for(lambda: server.metric("redrive_trace_spans_sent_total") == 1, "the third is taken")
        assert collector.asked == 3
    finally:
        collector.close()


def test_a_worker_sends_what_is_left_when_it_ends(bench, collector):
    bench.enqueue("good")
    environ = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url + "/v1/traces", "OTEL_BSP_SCHEDULE_DELAY": "86400000"}
    worker = bench.work("--until-idle", env=environ)
    assert worker.wait() == 0
    assert len(collector.spans("process good")) == 1


@pytest.mark.parametrize("name,value,expected", [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "http://localhost:4318"),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/json"),
    ("OTEL_TRACES_SAMPLER", "sometimes", "always_on"),
    ("OTEL_TRACES_SAMPLER_ARG", "2", "0 to 1"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "name=value"),
    ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "from 1 to"),
])
def test_a_bad_value_is_named_at_the_start(bench, name, value, expected):
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "traceidratio", name: value}
    server = bench.serve(env=environ)
    assert server.wait() == 2
    assert name in server.log() and expected in server.log() and "secret" not in server.log()
