"""docs/handlers.md: every row of its tables is an example that is run here."""

import base64
import http.server
import json
import os
import re
import threading

import pytest

from tests.kit.program import ROOT

TEXT = (ROOT / "docs" / "handlers.md").read_text("utf-8")
CLASSES = ("transient", "rate_limited", "network", "system", "database", "permanent", "validation", "authentication")


def table(heading):
    """The rows below a heading line of a table, as lists of cells."""
    lines = TEXT.split(f"\n{heading}\n")[1].splitlines()[1:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return rows


class Place:
    """Tasks, and what became of one job of each."""

    def __init__(self, redrive, directory):
        self.redrive = redrive
        self.dir = directory
        self.tasks = {}
        self.rows = []

    def run(self, payload="{}", env=None, codes=(0, 3)):
        config = {"store": f"sqlite:{self.dir}/jobs.db", "log": {"level": "error"}, "classify": self.rows,
                  "defaults": {"breaker": {"failure_threshold": 1000}, "retry": {"max_attempts": 1}},
                  "tasks": {name: {"run": run} for name, run in self.tasks.items()}}
        path = self.dir / "redrive.yaml"
        path.write_text(json.dumps(config))
        for words in [["enqueue", name, payload, "--id", name] for name in self.tasks] + [["work", "--until-idle"]]:
            done = self.redrive(*words, "-c", str(path), env=env)
            assert done.returncode in (codes if words[0] == "work" else [0]), done.stderr
        jobs = {}
        for name in self.tasks:
            done = self.redrive("jobs", "show", name, "--json", "-c", str(path))
            assert done.returncode == 0, done.stderr
            jobs[name] = json.loads(done.stdout)
        return jobs


@pytest.fixture
def place(redrive, tmp_path):
    return Place(redrive, tmp_path)


def class_of(job):
    return "success" if job["state"] == "completed" else job["last_error"]["class"]


def test_exit_codes(place):
    expected = {}
    for codes, class_, _ in table("| exit code | class | as in |"):
        if codes == "others":
            codes = "2, 3, 63, 79, 125, 128, 193, 255"
        first, _, last = codes.partition(" to ")
        for code in [first, last] if last else codes.split(", "):
            expected[f"exit-{code}"] = class_
            place.tasks[f"exit-{code}"] = {"exec": ["sh", "-c", f"exit {code}"]}
    assert len(expected) >= 30
    assert {name: class_of(job) for name, job in place.run().items()} == expected


def test_handler_that_cannot_run(place):
    (place.dir / "no-interpreter").write_text("#!/nowhere/at/all\n")
    (place.dir / "no-interpreter").chmod(0o755)
    (place.dir / "stream.py").write_text("import no_such_module_here\n")
    place.tasks = {
        "interpreter": {"exec": [f"{place.dir}/no-interpreter"]},
        "script": {"exec": ["python3", f"{place.dir}/nowhere.py"]},
        "program": {"exec": ["sh", "-c", "no-such-program-here"]},
        "module": {"stream": ["python3", f"{place.dir}/stream.py"]},
    }
    jobs = place.run(codes=[1])
    # They wait for a second, which may be over by now.
    assert {job["state"] for job in jobs.values()} <= {"scheduled", "queued"}
    assert all(job["deferrals"] > 0 for job in jobs.values())
    assert {job["attempts"] for job in jobs.values()} == {0}


def test_signal_time_out_and_traceback(place):
    place.tasks = {
        "signal": {"exec": ["sh", "-c", "kill -SEGV $$"]},
        "time": {"exec": ["sleep", "30"], "timeout": "200ms"},
        "type": {"exec": ["python3", "-c", "raise ValueError('no total')"]},
    }
    jobs = place.run()
    assert {name: class_of(job) for name, job in jobs.items()} == {
        "signal": "system", "time": "transient", "type": "validation"}
    assert jobs["time"]["last_error"]["type"] == "TimeoutError"
    assert (jobs["type"]["last_error"]["type"], jobs["type"]["last_error"]["message"]) == (
        "ValueError", "ValueError: no total")


def test_words_of_messages(place):
    expected = {}
    for words, class_ in table("| in the message | class |"):
        for word in words.split(", "):
            name = "m-" + re.sub(r"\W", "-", word)
            expected[name] = class_
            place.tasks[name] = {"exec": ["sh", "-c", f"echo 'it says: {word.upper()} again' >&2; exit 3"]}
    assert len(expected) == 27  # as many as core/classify/table.c has
    source = (ROOT / "src" / "core" / "classify" / "table.c").read_text("utf-8")
    assert len(re.findall(r'^    \{"[a-z _]+", [A-Z_]+\},$', source, re.M)) == 27
    assert {name: class_of(job) for name, job in place.run().items()} == expected


def test_rows_of_classify_come_first(place):
    place.rows = [{"exit_code": 3, "class": "rate_limited"}, {"exit_code": 44, "task": "mirror", "class": "success"},
                  {"message": "card (declined|expired)", "class": "permanent"}]
    assert all(str(row["class"]) in TEXT for row in place.rows)
    place.tasks = {"a": {"exec": ["sh", "-c", "exit 3"]}, "mirror": {"exec": ["sh", "-c", "exit 44"]},
                   "other": {"exec": ["sh", "-c", "exit 44"]},
                   "card": {"exec": ["sh", "-c", "echo Card Expired >&2; exit 75"]}}
    assert {name: class_of(job) for name, job in place.run().items()} == {
        "a": "rate_limited", "mirror": "success", "other": "transient", "card": "permanent"}


def test_environment_and_input(place):
    kept = re.search(r"^    (PATH HOME .*)$", TEXT, re.M).group(1).replace("LC_*", "LC_TIME").split()
    facts = [row[0] for row in table("| variable | has |")]
    show = "import json,os,sys; print(json.dumps([sorted(os.environ), sys.stdin.read(), os.environ['REDRIVE_TASK']]))"
    place.tasks = {"show": {"exec": [os.path.realpath("/usr/bin/python3"), "-c", show], "pass_env": ["WANTED"]}}
    env = {name: "/tmp" for name in kept if name not in ("PATH", "TMPDIR", "TZ", "LC_TIME", "LANG")}
    env.update(TZ="UTC", LC_TIME="C", LANG="C", TMPDIR=str(place.dir), WANTED="1", SECRET="2", REDRIVE_OTHER="3")
    names, given, task = place.run(payload='{"a":  [1]}', env=env)["show"]["result"]
    assert set(names) - {"LC_CTYPE"} == {*kept, *facts, "WANTED"}  # Python sets that one by itself
    assert (given, task) == ('{"a":  [1]}', "show")


STREAM = """
import json, os, sys
for line in sys.stdin:
    job = json.loads(line)
    assert sorted(job) == ["attempt", "id", "max_attempts", "payload", "task"], job
    if job["task"] == "babbles":
        print("not JSON", flush=True)
    word = job["task"].removeprefix("s-")
    print(json.dumps({"id": job["id"], "status": word, "message": "no", "error_type": "KeyError", "retry_after": 7,
                      "result": [os.environ.get("REDRIVE_JOB_ID")]}), flush=True)
"""


def test_stream(place):
    (place.dir / "stream.py").write_text(STREAM)
    expected = {"babbles": "network"}
    for word, class_ in table("| status | class |"):
        if class_ == "that class":
            expected.update({f"s-{name}": name for name in CLASSES})
        else:
            expected[f"s-{word}"] = "validation" if word == "FAIL" else class_
    place.tasks = {name: {"stream": ["python3", f"{place.dir}/stream.py"]} for name in expected}
    jobs = place.run()
    assert {name: class_of(job) for name, job in jobs.items()} == expected
    assert jobs["s-SUCCESS"]["result"] == [None]
    assert jobs["babbles"]["last_error"]["type"] == "ProtocolError"
    told = {row[0] for row in table("| in an answer | means |")}
    assert told == {"id", "status", "result", "message", "error_type", "error_types", "stacktrace",
                    "http_status, sqlstate", "retry_after", "snooze"}


BASES = """
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    answer = {"id": job["id"], "status": "FAIL", "error_types": ["ConnectTimeout", "TimeoutException", "HTTPError"],
              "http_status": 503, "stacktrace": "at bases.py:6"}
    print(json.dumps(answer), flush=True)
"""


def test_stream_answer_names_base_types(place):
    """`retry_on` of a base class retries what derives from it, as `except` would catch it."""
    (place.dir / "bases.py").write_text(BASES)
    run = {"stream": ["python3", f"{place.dir}/bases.py"]}
    config = {"store": f"sqlite:{place.dir}/jobs.db", "log": {"level": "error"},
              "defaults": {"retry": {"strategy": "immediate", "max_attempts": 3}},
              "tasks": {"listed": {"run": run, "retry": {"retry_on": ["HTTPError"]}},
                        "other": {"run": run, "retry": {"retry_on": ["ValueError"]}}}}
    path = place.dir / "redrive.yaml"
    path.write_text(json.dumps(config))
    for words in (["enqueue", "listed", "--id", "listed"], ["enqueue", "other", "--id", "other"], ["work", "--until-idle"]):
        done = place.redrive(*words, "-c", str(path))
        assert done.returncode in (0, 3), done.stderr
    jobs = {name: json.loads(place.redrive.output("jobs", "show", name, "--json", "-c", str(path)))
            for name in config["tasks"]}
    assert (jobs["listed"]["attempts"], jobs["listed"]["reason"]) == (3, "exhausted")
    assert (jobs["other"]["attempts"], jobs["other"]["reason"]) == (1, "not_retriable")
    assert jobs["listed"]["last_error"]["type"] == "ConnectTimeout"
    assert jobs["listed"]["last_error"]["stacktrace"] == "at bases.py:6"


class HttpServer(http.server.ThreadingHTTPServer):
    request_queue_size = 128


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, _, extra = self.path[1:].partition("-")
        self.send_response(int(status))
        if extra == "after":
            self.send_header("Retry-After", "7")
        names = " ".join(sorted(name for name in self.headers if name.startswith("Redrive-")))
        body = b"rate limit exceeded" if extra == "limit" else json.dumps(names).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def http_examples():
    """Paths and what they are to be; exceptions stand before the range that they are taken from."""
    expected = {}
    for answer, class_ in table("| answer | class |"):
        codes = re.findall(r"\d{3}", answer)
        if " to " in answer:
            first, last = map(int, codes)
            codes = [c for c in map(str, range(first, last + 1))
                     if c not in expected and c not in ("204", "205", "304") and int(c) % 100 in (0, 3, 4, 29, 99)]
        suffix = "-after" if "Retry-After" in answer else "-limit" if "message" in answer else ""
        expected.update({code + suffix: class_ for code in codes})
    return expected


def test_http(place):
    expected = http_examples()
    assert expected["503-after"] == expected["403-limit"] == "rate_limited" and expected["404"] == "permanent"
    server = HttpServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        place.tasks = {f"h{path}": {"http": f"http://127.0.0.1:{server.server_port}/{path}"} for path in expected}
        place.tasks["refused"] = {"http": "http://127.0.0.1:1/"}
        jobs = place.run()
    finally:
        server.shutdown()
        server.server_close()
    classes = {name.removeprefix("h"): class_of(job) for name, job in jobs.items()}
    assert classes == {**expected, "refused": "network"}
    headers = re.search(r"^    (Redrive-Job-Id .*)$", TEXT, re.M).group(1)
    assert jobs["h200"]["result"].split() == sorted(headers.split())


def test_signed_requests_are_verified_as_documented(place):
    """The receiver's lines of the documentation accept what is sent, and nothing else."""
    namespace = {}
    code = TEXT.split("```python\n", 1)[1].split("```", 1)[0]
    exec("import base64, hmac, time\n" + code, namespace)
    secret = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
    seen = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((dict(self.headers), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        place.tasks = {"signed": {"http": {"url": url, "secret": "${HOOK}", "headers": {"X-Key": "a ${KEY}"}}}}
        env = dict(os.environ, HOOK=secret, KEY="b c")
        assert place.run(payload='{"a":  [1]}', env=env)["signed"]["state"] == "completed"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    headers, body = seen[0]
    assert headers["webhook-id"] == "signed" and headers["X-Key"] == "a b c" and body == b'{"a":  [1]}'
    assert namespace["is_genuine"](secret, headers, body)
    assert not namespace["is_genuine"](secret, headers, body + b" ")
    assert not namespace["is_genuine"](secret.replace("M", "N"), headers, body)
    assert not namespace["is_genuine"](secret, {**headers, "webhook-timestamp": "1700000000"}, body)
