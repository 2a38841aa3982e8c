"""The command line over HTTP prints what it prints on a store, byte for byte, and says what is in the way."""

import contextlib
import hashlib
import http.server
import json
import re
import signal
import subprocess
import threading
import urllib.request

import pytest

from tests.cli.jobs import EVERY_STATE, Store
from tests.kit.program import BINARY, TIMEOUT_S, environment
from tests.kit.server import Server
from tests.kit.waiting import wait_for

CONFIG = """
store: sqlite:{directory}/jobs.db
listen: {{http: '127.0.0.1:0', faktory: 'off', insecure: true}}
tasks:
  enrich: {{queue: default}}
  pay: {{queue: money}}
  parking: {{}}
cron:
  nightly: {{task: enrich, schedule: "30 2 * * *", timezone: Europe/Berlin, payload: {{"all": true}}}}
tokens:
  - {{name: ops, hash: "sha256:{ops}", scopes: [enqueue, work, read, admin], tenant: default}}
  - {{name: looker, hash: "sha256:{looker}", scopes: [read], tenant: default}}
  - {{name: stranger, hash: "sha256:{stranger}", scopes: [read, enqueue, admin], tenant: acme}}
"""
MORE = [
    {"state": "completed", "id": "text-1", "result": "a line\nof text \x01 that is no JSON"},
    {"state": "completed", "id": "string-1", "result": '"a string"', "payload": '"text"'},
    {"state": "completed", "id": "null-1", "payload": "null"},
    {"state": "completed", "id": "large-1", "payload": "[" + ",".join(["12345678901234567890"] * 40) + "]"},
    {"state": "queued", "id": "größe/1 ?&#", "payload": '{"s": "\\u0001<b>\\u20ac"}'},
]


def token_of(name):
    return f"secret-of-{name}"


# Retention would remove the one that is forty days old.
JOBS = [job for job in EVERY_STATE if job.get("age_s", 0) < 86400]


class Place:
    """A store, and a server on it that runs nothing."""

    def __init__(self, directory, *jobs, more=""):
        self.directory = directory
        self.store = Store(directory)
        self.store.seed(*jobs)
        self.config = directory / "redrive.yaml"
        hashes = {name: hashlib.sha256(token_of(name).encode()).hexdigest() for name in ("ops", "looker", "stranger")}
        self.config.write_text(CONFIG.format(directory=directory, **hashes) + more)
        self.config.chmod(0o600)
        for name in hashes:
            (directory / name).write_text(token_of(name) + "\n")
            (directory / name).chmod(0o600)
        self.server = Server(directory, "--no-work", "-c", self.config)
        self.url = None

    def ready(self):
        self.url = self.server.url
        return self

    def stop(self):
        self.server.close()

    def run(self, *words, env=None, stdin=None):
        settings = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run([str(BINARY), *words], capture_output=True, timeout=TIMEOUT_S, check=False,
                              cwd=self.directory, env=environment(**(env or {})), **settings)

    def here(self, *words, **options):
        return self.run("-c", str(self.config), *words, **options)

    def there(self, *words, token="ops", **options):
        return self.run("--server", self.url, "--token-file", str(self.directory / token), *words, **options)

    def refusal(self, *words, code=1, **options):
        result = self.there(*words, "--json", **options)
        assert result.returncode == code, result
        return json.loads(result.stderr.splitlines()[-1])["error"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    it = Place(tmp_path_factory.mktemp("reads"), *JOBS, *MORE)
    yield it.ready()
    it.stop()


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


def outcome(result):
    return result.returncode, result.stdout, result.stderr


# ---- Looking -----------------------------------------------------------------------------------

LOOKS = [
    ["jobs", "list"],
    ["jobs", "list", "--limit", "3"],
    ["jobs", "list", "--order", "oldest", "--state", "retrying,parked", "--state", "failed"],
    ["jobs", "list", "--text", "connect to", "--class", "transient,network", "--newer-than", "90d"],
    ["jobs", "list", "--task", "no-such-task"],
    *(["jobs", "show", job["id"]] for job in JOBS + MORE),
    ["jobs", "show", "no-such-job"],
    ["dlq", "list"],
    ["dlq", "list", "--older-than", "1h", "--task", "enrich"],
    ["dlq", "show", "net-1"],
    ["dlq", "show", "done-1"],
    ["dlq", "groups"],
    ["dlq", "groups", "--limit", "1"],
    ["dlq", "stats"],
    ["dlq", "stats", "--queue", "money"],
    ["dlq", "retry", "--class", "validation", "--dry-run"],
    ["dlq", "retry", "--all", "--dry-run"],
    ["dlq", "purge", "--older-than", "30d", "--dry-run"],
    ["jobs", "export"],
    ["jobs", "export", "--format", "csv", "--limit", "12"],
    ["dlq", "export", "--task", "enrich"],
    ["queues", "list"],
    ["breakers", "list"],
    ["limits", "list"],
    ["experiment", "list"],
    ["breakers", "show", "parking"],
    ["breakers", "show", "parkin"],
    ["cron", "list"],
    ["health"],
    ["stats", "--tenant", "default"],
    ["top", "--once", "--tenant", "default", "--interval", "100ms"],
]


# Points in time, spans, new ids, and what they do to the width of a column.
TIMES = re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-][0-9:]+)|\b(\d+(\.\d+)?(ms|[smhd]))+\b"
                   rb"|\b[0-9a-f]{8}-[0-9a-f-]{27}\b| +")


def plain(words, text):
    """Without what no two calls have in common: the time of the look, and where it looked."""
    if words[0] == "top":  # title, chart, and ages: it looks twice
        return TIMES.sub(b" ", re.sub(rb"(?m)^(redrive top  .*|[ \xe2\x96\x81-\x88]*)\n", b"", text))
    text = re.sub(rb'"at":"[^"]*"', b'"at":null', text)
    return re.sub(rb'"(oldest_ready_age|p50|p90|p99)":[0-9.]+', rb'"\1":0', text)


def without_digits(text):
    """On a busy machine a second passes between two calls each time: spans with their units alone."""
    return re.sub(rb" +", b" ", re.sub(rb"\b(\d+(\.\d+)?(ms|[smhd]))+\b", lambda span: re.sub(rb"\d+", b"0", span[0]), text))


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_look_over_http_prints_what_a_look_at_the_store_prints(place, words, form):
    if words[0] == "top" and form:
        pytest.skip("top has no JSON")
    for _ in range(10):  # an age may change between two calls
        here, there = (call(*words, *form) for call in (place.here, place.there))
        texts = [plain(words, call.stdout) for call in (here, there)]
        if texts[0] == texts[1]:
            break
    else:
        texts = texts if form else [without_digits(text) for text in texts]
    assert (there.returncode, there.stderr) == (here.returncode, here.stderr)
    assert texts[1] == texts[0]
    assert here.stdout or here.returncode


def test_the_cursor_of_a_page_leads_to_the_next_one_on_either_side(place):
    words = ("jobs", "list", "--json", "--limit", "5", "--order", "oldest")
    first = json.loads(place.there(*words).stdout)
    assert len(first["items"]) == 5
    more = ("--cursor", first["next"])
    assert place.there(*words, *more).stdout == place.here(*words, *more).stdout != b""


def test_a_page_is_as_long_as_was_asked_for_though_the_server_ends_its_own_earlier(tmp_path):
    large = Place(tmp_path, EVERY_STATE[5])
    try:
        assert large.here("enqueue", "pay", "--lines", stdin=(b'"' + b"x" * 950000 + b'"\n') * 10).returncode == 0
        listed = json.loads(large.ready().there("jobs", "list", "--json", "--limit", "10").stdout)
        assert len(listed["items"]) == 10 and listed["next"]
    finally:
        large.stop()


# ---- Changing ----------------------------------------------------------------------------------

CHANGES = [
    ["jobs", "cancel", "queued-1", "scheduled-1"],
    ["jobs", "cancel", "queued-1"],
    ["jobs", "retry", "retrying-1", "failed-1", "no-such-job", "running-1"],
    ["dlq", "edit", "net-2", '{"amount": 12}', "--retry"],
    ["dlq", "edit", "hand-1", "{"],
    ["dlq", "edit", "queued-1", "{}"],
    ["dlq", "retry", "net-1"],
    ["dlq", "retry", "--task", "enrich", "--rate", "1000/s"],
    ["dlq", "retry", "--task", "enrich"],
    ["dlq", "remove", "hand-1"],
    ["dlq", "purge", "--older-than", "0", "--yes"],
    ["queues", "pause", "default"],
    ["queues", "pause", "default"],
    ["queues", "pause", "defalt"],
    ["jobs", "show", "retrying-1"],
    ["queues", "resume", "default"],
    ["breakers", "trip", "pay"],
    ["breakers", "reset", "pay"],
    ["breakers", "simulate-failure", "pay"],
    ["breakers", "disable", "no-such-breaker"],
    ["enqueue", "pay", '{"n": 1}', "--id", "new-1", "--priority", "5", "--delay", "1h", "--deadline", "3h",
     "--user", "ann", "--unique", "k", "--max-attempts", "3", "--retry", '{"strategy": "fixed"}'],
    ["enqueue", "pay", '{"n": 2}', "--id", "new-1"],
    ["jobs", "show", "new-1"],
    ["enqueue", "pay", '{"n": '],
    ["enqueue", "payy", "--id", "new-2"],
    ["enqueue", "pay", "--id", "new-3", "--wait", "10ms"],
    ["dlq", "add", "letters.json"],
    ["dlq", "add", "letters.json"],
    ["dlq", "show", "letter-1"],
    ["cron", "run", "nightly"],
    ["cron", "set", "tidy", "--task", "pay", "--schedule", "@daily", "--timezone", "Asia/Tokyo"],
    ["cron", "set", "tidy", "--task", "pay", "--schedule", "@hourly"],
    ["cron", "set", "nightly", "--task", "pay", "--schedule", "@hourly"],
    ["cron", "set", "broken", "--task", "pay", "--schedule", "sometimes"],
    ["cron", "remove", "tidy"],
    ["cron", "remove", "tidy"],
    ["cron", "run", "nightl"],
    ["jobs", "list", "--state", "queued,cancelled,scheduled", "--order", "oldest"],
]
LETTERS = [{"task": "pay", "id": "letter-1", "payload": [1], "service": "bank", "failed": {
    "class": "network", "reason": "deadline", "error_type": "OSError", "message": "no route", "stacktrace": "at 1"}},
    {"task": "enrich", "id": "letter-2", "failed": {}}]
# The server words some refusals itself.
OWN_WORDS = {("dlq", "edit", "hand-1"), ("cron", "set", "nightly"), ("cron", "remove", "tidy"), ("cron", "run", "nightl")}


def test_changes_over_http_print_and_do_what_they_do_on_the_store(tmp_path):
    """The same on two stores: on one directly, on the other through its server."""
    for side in "here", "there":
        (tmp_path / side).mkdir()
        (tmp_path / side / "letters.json").write_text(json.dumps(LETTERS))
    pair = {side: Place(tmp_path / side, *JOBS) for side in ("here", "there")}
    try:
        for words in CHANGES:
            results = [getattr(pair[side].ready(), side)(*words) for side in ("here", "there")]
            here, there = ([r.returncode, TIMES.sub(b" ", r.stdout), TIMES.sub(b" ", r.stderr)] for r in results)
            if tuple(words[:3]) in OWN_WORDS and here[0]:
                assert there[0] == here[0] and there[2], (words, there)
                continue
            assert there == here, words
    finally:
        for it in pair.values():
            it.stop()


def state_of(place, job):
    return json.loads(place.here("jobs", "show", job, "--json").stdout)["state"]


def test_a_deadline_that_has_passed_does_not_stop_a_redrive_at_a_rate(empty):
    assert empty.there("enqueue", "late", "{}", "--id", "late-1", "--deadline", "1s").returncode == 0
    wait_for(lambda: state_of(empty, "late-1") == "dead_letter", empty.server.log)
    empty.store.seed({"state": "dead_letter", "id": "late-2", "task": "late"})
    alone = empty.refusal("dlq", "retry", "late-1")
    assert alone["code"] == "STATE" and "its deadline has passed" in alone["message"]
    result = json.loads(empty.there("dlq", "retry", "--task", "late", "--rate", "1000/s", "--json").stdout)
    assert (result["matched"], result["redriven"], result["refused"]) == (2, 1, 1)
    assert (state_of(empty, "late-1"), state_of(empty, "late-2")) == ("dead_letter", "queued")


def test_ages_count_from_the_beginning_of_a_redrive_at_a_rate(empty):
    """The server is asked for a second page when the job on it is old enough, and was not before."""
    empty.store.seed({"state": "dead_letter", "id": "old", "task": "mass", "count": 101, "age_s": 60})
    empty.store.seed({"state": "dead_letter", "id": "young", "task": "mass"})
    result = json.loads(empty.there("dlq", "retry", "--task", "mass", "--older-than", "3s", "--rate", "30/s", "--json").stdout)
    assert (result["matched"], result["redriven"]) == (101, 101)
    assert state_of(empty, "young") == "dead_letter"


def test_lines_become_jobs_and_bad_ones_are_named(own):
    lines = b'{"n": 1}\n\nnot json\n{"n": 2}\n'
    result = own.there("enqueue", "pay", "--lines", stdin=lines)
    assert result.returncode == 1
    assert len(result.stdout.split()) == 2
    assert b"line 3: " in result.stderr and b"1 of 3 lines were refused" in result.stderr
    listed = json.loads(own.here("jobs", "list", "--task", "pay", "--state", "queued", "--json").stdout)
    assert sorted(job["payload"]["n"] for job in listed["items"]) == [1, 2]


def test_lines_that_the_server_refuses_are_named_one_by_one(tmp_path):
    strict = Place(tmp_path, EVERY_STATE[5], more="strict_tasks: true\n").ready()
    try:
        result = strict.there("enqueue", "payy", "--lines", stdin=b"1\n2\n")
    finally:
        strict.stop()
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"line 1: " in result.stderr and b"line 2: " in result.stderr
    assert b"2 of 2 lines were refused" in result.stderr


def test_a_result_is_waited_for_and_printed_as_the_handler_gave_it(own):
    call = subprocess.Popen(
        [str(BINARY), "--server", own.url, "--token-file", str(own.directory / "ops"), "enqueue", "enrich", "{}",
         "--id", "waited", "--wait", "20s"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    wait_for(lambda: b'"queued"' in own.here("jobs", "show", "waited", "--json").stdout, lambda: "the job is there")

    def ask(path, body):
        request = urllib.request.Request(own.url + path, json.dumps(body).encode(),
                                         {"Authorization": f"Bearer {token_of('ops')}"})
        return json.loads(urllib.request.urlopen(request, timeout=TIMEOUT_S).read())

    job = next(job for job in ask("/v1/claim", {"tasks": ["enrich"], "n": 10, "wait": 5})["jobs"] if job["id"] == "waited")
    ask("/v1/settle", {"items": [{"id": "waited", "token": job["token"], "status": "SUCCESS", "result": {"done": 1}}]})
    out, err = call.communicate(timeout=TIMEOUT_S)
    assert (call.returncode, out, err) == (0, b'waited\ncompleted\n{"done": 1}\n', b"")


def test_ctrl_c_ends_a_redrive_at_a_rate_between_two_jobs(own):
    call = subprocess.Popen(
        [str(BINARY), "--server", own.url, "--token-file", str(own.directory / "ops"), "dlq", "retry", "--all",
         "--rate", "1/min", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    wait_for(lambda: len(json.loads(own.here("dlq", "list", "--json").stdout)["items"]) == 2, "one is redriven")
    call.send_signal(signal.SIGINT)
    out, _ = call.communicate(timeout=TIMEOUT_S)
    assert call.returncode == 1
    assert json.loads(out) == {"dry_run": False, "matched": 3, "at_least": False, "redriven": 1, "refused": 0, "interrupted": True}


# ---- Whose jobs ---------------------------------------------------------------------------------


def test_the_tenant_is_that_of_the_token(place):
    assert json.loads(place.there("jobs", "list", "--json", token="stranger").stdout)["items"] == []
    assert place.there("jobs", "list", "--tenant", "acme", token="stranger").returncode == 0
    error = place.refusal("jobs", "list", "--tenant", "acme")
    assert error["code"] == "DENIED" and "default" in error["detail"]
    for words in (["stats"], ["queues", "list"], ["breakers", "list"], ["cron", "list"], ["top", "--once"],
                  ["dlq", "groups"], ["enqueue", "pay"]):
        assert b"acme" in place.there(*words, "--tenant", "acme").stderr, words


def test_a_token_that_may_only_look_is_refused_with_the_scope_it_lacks(place):
    assert place.there("jobs", "list", token="looker").returncode == 0
    error = place.refusal("jobs", "cancel", "queued-1", token="looker")
    assert error["code"] == "DENIED" and "admin" in error["message"] and "scope" in error["hint"]


# ---- What is in the way -------------------------------------------------------------------------


def error_of(result, code=1):
    assert result.returncode == code, result
    return json.loads(result.stderr.splitlines()[-1])["error"]


def test_a_server_that_is_away_is_named(place):
    error = error_of(place.run("--server", "http://127.0.0.1:1", "jobs", "list", "--json"))
    assert error["code"] == "IO" and "127.0.0.1:1" in error["detail"] and "redrive serve" in error["hint"]


def test_a_token_is_asked_for_and_one_that_is_not_known_is_refused(place, tmp_path):
    error = error_of(place.run("--server", place.url, "stats", "--json"))
    assert error["code"] == "DENIED" and "--token-file" in error["hint"]
    wrong = tmp_path / "wrong"
    wrong.write_text("no-such-token")
    wrong.chmod(0o600)
    error = error_of(place.run("--server", place.url, "--token-file", str(wrong), "stats", "--json"))
    assert error["code"] == "DENIED" and "does not know the token" in error["message"]


def test_the_file_of_the_token_is_looked_at(place, tmp_path):
    error = error_of(place.run("--server", place.url, "--token-file", "nowhere", "stats", "--json"))
    assert error["code"] == "NOT_FOUND" and "nowhere" in error["detail"]
    empty = tmp_path / "empty"
    empty.write_text("\n")
    empty.chmod(0o600)
    assert error_of(place.run("--server", place.url, "--token-file", str(empty), "stats", "--json"), 2)["code"] == "CONFIG"
    open_to_all = tmp_path / "open"
    open_to_all.write_text(token_of("ops"))
    open_to_all.chmod(0o644)
    result = place.run("--server", place.url, "--token-file", str(open_to_all), "health", "--json")
    warning = json.loads(result.stderr)["warning"]
    assert result.returncode == 0 and "other users can read" in warning["message"] and "chmod 600" in warning["hint"]


@pytest.mark.parametrize("url", ["127.0.0.1:7070", "ftp://host", "http://", "http://me:pw@host", "http://h/?a=b", "http://:1"])
def test_an_address_that_is_none_is_refused(place, url):
    error = error_of(place.run("--server", url, "stats", "--json"), 2)
    assert error["code"] == "USAGE" and "https://host:7070" in error["hint"] and "pw" not in str(error)


def test_a_token_goes_over_plain_http_to_this_machine_only(place):
    token = str(place.directory / "ops")
    error = error_of(place.run("--server", "http://192.0.2.1:7070", "--token-file", token, "stats", "--json"), 2)
    assert error["code"] == "USAGE" and "https://" in error["hint"]
    for name in ("http://127.0.0.1.example.invalid:1", "http://localhost.example.invalid:1"):
        assert error_of(place.run("--server", name, "--token-file", token, "stats", "--json"), 2)["code"] == "USAGE"


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


def test_a_server_that_is_not_redrive_is_told_apart(place):
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
        error = error_of(place.run("--server", url, "stats", "--json"), 2)
        assert "not a server of Redrive" in error["message"]
        error = error_of(place.run("--server", url + "/lo", "stats", "--json"))
        assert "302" in error["message"] and "redirects are not followed" in error["hint"]


def test_a_server_without_the_route_is_of_another_version(place):
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
        error = error_of(place.run("--server", url, "stats", "--json"))
        assert "does not have what this command needs" in error["message"] and "9.9.9" in error["detail"]


def test_a_change_whose_answer_is_lost_is_not_sent_again(place):
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
        error = error_of(place.run("--server", url, "enqueue", "mail", "{}", "--json"))
        assert len(posts) == 1, (posts, error)


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
        error = it.refusal("jobs", "list")
        assert error["code"] == "DENIED" and "--ca-file" in error["hint"]
        trusted = it.there("jobs", "list", "--json", env={"REDRIVE_CA_FILE": str(tmp_path / "pem")})
        assert outcome(trusted) == outcome(it.there("--ca-file", str(tmp_path / "pem"), "jobs", "list", "--json"))
        assert trusted.returncode == 0 and b"done-1" in trusted.stdout
        assert it.refusal("--ca-file", "nowhere", "jobs", "list", code=2)["code"] == "CONFIG"
        plain_http = it.run("--server", it.url.replace("https", "http"), "jobs", "list", "--json")
        assert "https://" in error_of(plain_http)["hint"]
    finally:
        it.stop()


# ---- Options and variables -----------------------------------------------------------------------


def test_variables_stand_for_the_options_and_a_store_that_is_named_wins(place):
    env = {"REDRIVE_SERVER": place.url, "REDRIVE_TOKEN_FILE": str(place.directory / "ops")}
    assert outcome(place.run("jobs", "show", "done-1", "--json", env=env)) == \
        outcome(place.here("jobs", "show", "done-1", "--json", env=env))
    error = error_of(place.run("--store", "sqlite:elsewhere.db", "jobs", "list", "--json", env=env))
    assert error["code"] == "NOT_FOUND" and "elsewhere.db" in str(error)


def test_what_needs_the_store_says_so_before_anything_else(place):
    local = [["work"], ["serve"], ["batch", "run", "f"], ["doctor"], ["move", "a", "b"], ["migrate"], ["backup", "f"],
             ["ui"]]
    for words in local:
        error = error_of(place.run("--server", "http://127.0.0.1:1", *words, "--json"), 2)
        assert error["code"] == "USAGE" and "needs the store" in error["message"], words
        by_variable = place.run(*words, "--json", env={"REDRIVE_SERVER": "http://127.0.0.1:1"})
        assert "REDRIVE_SERVER" in error_of(by_variable, 2)["hint"]


def test_what_needs_neither_store_nor_server_does_not_mind(place):
    env = {"REDRIVE_SERVER": "http://127.0.0.1:1"}
    for words in (["version"], ["policy", "explain"], ["cron", "next", "@daily"], ["help"], ["config", "show"]):
        assert place.run(*words, env=env).returncode == 0, words


def test_options_that_exclude_each_other_are_refused(place):
    for more in (["--store", "memory:"], ["-c", str(place.config)]):
        error = error_of(place.run("--server", place.url, *more, "stats", "--json"), 2)
        assert "exclude each other" in error["message"]
    assert "--server" in error_of(place.run("--token-file", "f", "stats", "--json"), 2)["hint"]
    assert "its own configuration" in place.refusal("stats", "--retry-max-attempts", "3", code=2)["hint"]


def test_the_token_is_in_no_log_and_in_no_output(place):
    result = place.there("jobs", "list", "--log-level", "debug")
    assert token_of("ops").encode() not in result.stdout + result.stderr + place.server.log_path.read_bytes()
