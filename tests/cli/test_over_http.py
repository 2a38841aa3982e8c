"""The command line over HTTP, where it takes time, is interrupted, or meets another server than it expects. What commands print
over HTTP is in the transcripts."""

import contextlib
import hashlib
import http.server
import json
import signal
import subprocess
import threading
import time
import urllib.request

import pytest

from tests.cli.jobs import EVERY_STATE, Store
from tests.kit.program import BINARY, TIMEOUT_S, environment
from tests.kit.server import Server
from tests.kit.waiting import wait_for

CONFIG = """
store: sqlite:{directory}/jobs.db
listen: {{http: '127.0.0.1:0', faktory: 'off', insecure: true}}
tokens:
  - {{name: ops, hash: "sha256:{ops}", scopes: [enqueue, work, read, admin], tenant: default}}
"""
TOKEN = "secret-of-ops"
# Retention would remove the one that is forty days old.
JOBS = [job for job in EVERY_STATE if job.get("age_s", 0) < 86400]


def run(*words, env=None, stdin=None):
    settings = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run([str(BINARY), *words], capture_output=True, timeout=TIMEOUT_S, check=False,
                          env=environment(**(env or {})), **settings)


class Place:
    """A store, and a server on it that runs nothing."""

    def __init__(self, directory, *jobs):
        self.directory = directory
        self.store = Store(directory)
        self.store.seed(*jobs)
        self.config = directory / "redrive.yaml"
        self.config.write_text(CONFIG.format(directory=directory, ops=hashlib.sha256(TOKEN.encode()).hexdigest()))
        self.token = directory / "ops"
        self.token.write_text(TOKEN + "\n")
        for path in self.config, self.token:
            path.chmod(0o600)
        self.server = Server(directory, "--no-work", "-c", self.config)
        self.url = None

    def ready(self):
        self.url = self.server.url
        return self

    def stop(self):
        self.server.close()

    def here(self, *words, **options):
        return run("-c", str(self.config), *words, **options)

    def there(self, *words, **options):
        return run("--server", self.url, "--token-file", str(self.token), *words, **options)

    def begin(self, *words):
        """A command through the server that goes on."""
        return subprocess.Popen([str(BINARY), "--server", self.url, "--token-file", str(self.token), *words],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())

    def ask(self, path, body=None):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body else None,
                                         {"Authorization": f"Bearer {TOKEN}"})
        return json.loads(urllib.request.urlopen(request, timeout=TIMEOUT_S).read())


@pytest.fixture
def own(tmp_path):
    it = Place(tmp_path, *JOBS)
    yield it.ready()
    it.stop()


@pytest.fixture
def empty(tmp_path):
    it = Place(tmp_path)
    yield it.ready()
    it.stop()


def test_a_page_is_as_long_as_was_asked_for_though_the_server_ends_its_own_earlier(tmp_path):
    large = Place(tmp_path, EVERY_STATE[5])
    try:
        assert large.here("enqueue", "pay", "--lines", stdin=(b'"' + b"x" * 950000 + b'"\n') * 10).returncode == 0
        listed = json.loads(large.ready().there("jobs", "list", "--json", "--limit", "10").stdout)
        assert len(listed["items"]) == 10 and listed["next"]
    finally:
        large.stop()


def state_of(place, job):
    return json.loads(place.here("jobs", "show", job, "--json").stdout)["state"]


def test_ages_count_from_the_beginning_of_a_redrive_at_a_rate(empty):
    """The server is asked for a second page when the job on it is old enough, and was not before."""
    empty.store.seed({"state": "dead_letter", "id": "old", "task": "mass", "count": 101, "age_s": 60})
    empty.store.seed({"state": "dead_letter", "id": "young", "task": "mass"})
    result = json.loads(empty.there("dlq", "retry", "--task", "mass", "--older-than", "3s", "--rate", "30/s", "--json").stdout)
    assert (result["matched"], result["redriven"]) == (101, 101)
    assert state_of(empty, "young") == "dead_letter"


def test_a_result_is_waited_for_and_printed_as_the_handler_gave_it(own):
    call = own.begin("enqueue", "enrich", "{}", "--id", "waited", "--wait", "20s")
    wait_for(lambda: b'"queued"' in own.here("jobs", "show", "waited", "--json").stdout, lambda: "the job is there")

    job = next(job for job in own.ask("/v1/claim", {"tasks": ["enrich"], "n": 10, "wait": 5})["jobs"] if job["id"] == "waited")
    own.ask("/v1/settle", {"items": [{"id": "waited", "token": job["token"], "status": "SUCCESS", "result": {"done": 1}}]})
    out, err = call.communicate(timeout=TIMEOUT_S)
    assert (call.returncode, out, err) == (0, b'waited\ncompleted\n{"done": 1}\n', b"")


def test_ctrl_c_ends_a_redrive_at_a_rate_between_two_jobs(own):
    call = own.begin("dlq", "retry", "--all", "--rate", "1/min", "--json")
    wait_for(lambda: len(json.loads(own.here("dlq", "list", "--json").stdout)["items"]) == 2, "one is redriven")
    call.send_signal(signal.SIGINT)
    out, _ = call.communicate(timeout=TIMEOUT_S)
    assert call.returncode == 1
    assert json.loads(out) == {"dry_run": False, "matched": 3, "at_least": False, "redriven": 1, "refused": 0, "finished": False}
    runs = own.ask("/v1/bulk")["items"]
    assert [(run["verb"], run["state"], run["changed"]) for run in runs] == [("retry", "stopped", 1)]


def test_a_server_that_ends_in_a_redrive_at_a_rate_is_told_with_how_far_it_came(own):
    call = own.begin("dlq", "retry", "--all", "--rate", "1/min", "--json")
    wait_for(lambda: any(run["changed"] == 1 for run in own.ask("/v1/bulk")["items"]), "one is redriven")
    time.sleep(1)  # it has been asked for at least once since
    own.stop()
    out, err = call.communicate(timeout=TIMEOUT_S)
    assert call.returncode == 1 and out == b""
    assert json.loads(err.splitlines()[-1])["error"]["detail"] == "1 of 3 were changed when it was asked last"


def error_of(result, code=1):
    assert result.returncode == code, result
    return json.loads(result.stderr.splitlines()[-1])["error"]


@contextlib.contextmanager
def server_of(handler):
    """The address of a server that is not Redrive's."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_server_that_is_not_redrive_is_told_apart():
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = {"/v1": (200, b"<html>hello</html>"), "/lo": (302, b"")}[self.path[:3]]
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with server_of(Other) as url:
        error = error_of(run("--server", url, "stats", "--json"), 2)
        assert "not a server of Redrive" in error["message"]
        error = error_of(run("--server", url + "/lo", "stats", "--json"))
        assert "302" in error["message"] and "redirects are not followed" in error["hint"]


def test_a_run_that_a_restart_has_lost_is_an_error_with_its_last_counts():
    class Restarted(http.server.BaseHTTPRequestHandler):
        looks = 0

        def answer(self, status, **members):
            body = json.dumps(members).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            if self.path == "/v1/session":
                self.answer(200, name="ops", tenant="default", version="9.9.9", at="2026-05-01T12:00:00.000Z")
            elif Restarted.looks == 0:
                Restarted.looks += 1
                self.answer(200, id="7", state="running", changed=2, refused=1)
            else:
                self.answer(404, type="urn:redrive:not-found", detail="there is no run '7'")

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(202, id="7", matched=5, at_least=False)

        def log_message(self, *_):
            pass

    with server_of(Restarted) as url:
        error = error_of(run("--server", url, "dlq", "retry", "--all", "--json"))
        assert error["message"] == "the run is gone: the server was restarted"
        assert error["detail"] == "2 of 5 were changed when it was asked last"
        assert error["hint"] == "the same command goes on with the rest"


def test_a_server_without_the_route_is_of_another_version():
    session = json.dumps({"needs_token": False, "name": "anonymous", "tenant": "default", "version": "9.9.9",
                          "scopes": [], "at": "2026-05-01T12:00:00.000Z"}).encode()
    problem = json.dumps({"type": "urn:redrive:not_found", "title": "not found", "status": 404,
                          "detail": "no such path: '/v1/stats'"}).encode()

    class Old(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            is_session = self.path == "/v1/session"
            body = session if is_session else problem
            self.send_response(200 if is_session else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with server_of(Old) as url:
        error = error_of(run("--server", url, "stats", "--json"))
        assert "does not have what this command needs" in error["message"] and "9.9.9" in error["detail"]


@contextlib.contextmanager
def server_that_answers(text):
    """One that says of itself that it is Redrive's, and answers all else with this text."""
    session = json.dumps({"needs_token": False, "name": "anonymous", "tenant": "default", "version": "9.9.9",
                          "scopes": [], "at": "2026-05-01T12:00:00.000Z"})

    class Said(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = (session if self.path == "/v1/session" else text).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with server_of(Said) as url:
        yield url


@pytest.mark.parametrize("text", ['{"items":[]} rest', '{"items":[1]}', '{"items":[],"next":"more"}', '{"itms":[]}', "[]", '{"items":[{]'])
@pytest.mark.parametrize("words", [["queues", "list"], ["limits", "list"], ["breakers", "show", "a"]], ids=lambda words: words[0])
def test_an_answer_that_is_no_whole_list_is_refused(text, words):
    with server_that_answers(text) as url:
        error = error_of(run("--server", url, *words, "--json"), 2)
        assert error["code"] == "PARSE" and error["message"] == "the answer of the server cannot be read", error


def test_words_and_members_of_another_version_are_printed_harmlessly():
    odd = json.dumps({"items": [{"key": "a", "tenant": "default", "state": "x\u001b[31mred\u0007", "failure_rate": "high",
                                 "thresholds": {"window": 1e300, "on_open": "b\u001b"}}, {}], "next": None})
    with server_that_answers(odd) as url:
        for words in (["breakers", "list"], ["breakers", "show", "a"], ["limits", "list"], ["queues", "list"]):
            done = run("--server", url, *words)
            assert done.returncode == 0, done
            assert b"\x1b" not in done.stdout and b"\x07" not in done.stdout
        assert b"x?[31mred?" in run("--server", url, "breakers", "show", "a").stdout


def test_a_change_whose_answer_is_lost_is_not_sent_again():
    """libcurl sends a request twice if a connection that was kept breaks; the job may be there by then."""
    session = json.dumps({"needs_token": False, "name": "anonymous", "tenant": "default", "version": "0.1.0",
                          "scopes": [], "at": "2026-05-01T12:00:00.000Z"}).encode()
    posts = []

    class Dying(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = session if self.path == "/v1/session" else b'{"items":[]}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            posts.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.close_connection = True

        def log_message(self, *_):
            pass

    with server_of(Dying) as url:
        error = error_of(run("--server", url, "enqueue", "mail", "{}", "--json"))
        assert len(posts) == 1, (posts, error)


class TakesJobs(http.server.BaseHTTPRequestHandler):
    """A server that knows its client and no task; what becomes of jobs is that of the test."""

    protocol_version = "HTTP/1.1"
    SESSION = json.dumps({"name": "x", "tenant": "default", "version": "0.1.0", "at": "2026-01-01T00:00:00.000Z"}).encode()

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, self.SESSION if self.path == "/v1/session" else b'{"items":[],"next":null}')

    def log_message(self, *_):
        pass


def test_a_bad_line_among_a_thousand_costs_some_twenty_requests(tmp_path):
    """A batch that is refused is tried by halves, and not line by line."""
    refused = json.dumps({"type": "urn:redrive:invalid", "status": 400, "detail": "payload: the task wants one"}).encode()

    class Choosy(TakesJobs):
        posts = 0

        def do_POST(self):
            jobs = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            Choosy.posts += 1
            many = jobs if isinstance(jobs, list) else [jobs]
            made = [{"id": f"of {job['payload']}", "state": "queued", "existed": False} for job in many]
            if any(job["payload"] == 700 for job in many):
                self.answer(400, refused)
            else:
                self.answer(201, json.dumps({"items": made} if isinstance(jobs, list) else made[0]).encode())

    (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(1000)))
    with server_of(Choosy) as url:
        result = run("--server", url, "enqueue", "t", "--lines", "--from", str(tmp_path / "lines"))
    assert (result.returncode, result.stdout.decode()) == (1, "".join(f"of {n}\n" for n in range(1000) if n != 700))
    assert b"line 701: payload: the task wants one" in result.stderr and b"1 of 1000 lines were refused" in result.stderr
    assert Choosy.posts < 30


def test_lines_stop_where_the_server_cannot_go_on(tmp_path):
    """As on a store: what was taken before is said, and from which line on to go on."""
    away = json.dumps({"type": "urn:redrive:io", "status": 503, "detail": "the store is away"}).encode()

    class Tired(TakesJobs):
        posts = 0

        def do_POST(self):
            n = len(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            Tired.posts += 1
            items = [{"id": f"{Tired.posts}-{i}", "state": "queued", "existed": False} for i in range(n)]
            if Tired.posts < 3:
                self.answer(201, json.dumps({"items": items}).encode())
            else:
                self.answer(503, away)

    (tmp_path / "lines").write_text("1\n" * 5000)
    with server_of(Tired) as url:
        result = run("--server", url, "enqueue", "t", "--lines", "--from", str(tmp_path / "lines"), "--json")
    error = error_of(result)
    assert (error["code"], error["message"]) == ("IO", "stopped at line 2001: the store is away")
    assert error["hint"] == (
        "the jobs of the lines before it are there; whether those of lines 2001 to 3000 are is not known; go on with line 2001")
    assert len(result.stdout.splitlines()) == 2000 and Tired.posts == 3


def test_a_certificate_of_its_own_is_trusted_when_it_is_named(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=own", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "pem")], check=True, capture_output=True)
    (tmp_path / "key").chmod(0o600)
    it = Place(tmp_path, EVERY_STATE[5])
    it.stop()
    text = it.config.read_text().replace("insecure: true", f"tls: {{cert: {tmp_path}/pem, key: {tmp_path}/key}}")
    it.config.write_text(text)
    it.server = Server(tmp_path, "--no-work", "-c", it.config)
    try:
        it.ready()
        it.url = it.url.replace("http://", "https://")
        error = error_of(it.there("jobs", "list", "--json"))
        assert error["code"] == "DENIED" and "--ca-file" in error["hint"]
        trusted = it.there("jobs", "list", "--json", env={"REDRIVE_CA_FILE": str(tmp_path / "pem")})
        assert trusted.stdout == it.there("--ca-file", str(tmp_path / "pem"), "jobs", "list", "--json").stdout
        assert trusted.returncode == 0 and b"done-1" in trusted.stdout
        assert error_of(it.there("--ca-file", "nowhere", "jobs", "list", "--json"), 2)["code"] == "CONFIG"
        plain_http = run("--server", it.url.replace("https", "http"), "jobs", "list", "--json")
        assert "https://" in error_of(plain_http)["hint"]
    finally:
        it.stop()


def test_the_token_is_in_no_log_and_in_no_output(own):
    result = own.there("jobs", "list", "--log-level", "debug")
    assert TOKEN.encode() not in result.stdout + result.stderr + own.server.log_path.read_bytes()
