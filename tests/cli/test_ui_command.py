"""redrive ui: the dashboard for a store, which can be looked at and not changed."""

import gzip
import hashlib
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.cli.jobs import EVERY_STATE, Store
from tests.kit.program import BINARY, TIMEOUT_S, environment
from tests.kit.waiting import wait_for


class Ui:
    """One that runs until the end of the test."""

    def __init__(self, store, *words, env=None):
        self.process = subprocess.Popen(
            [str(BINARY), "ui", *words], cwd=store.directory, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**(env or {})))
        self.line = self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)

    @property
    def url(self):
        return self.line.strip()

    def ask(self, method, path, body=None, token=None):
        """Status and text; a path without /ui/ is one of the API."""
        request = urllib.request.Request(self.url.removesuffix("/ui/") + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        if path.startswith("/ui/"):
            request.add_header("Accept-Encoding", "gzip")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                packed = answer.headers["Content-Encoding"] == "gzip"
                body = answer.read()
                return answer.status, (gzip.decompress(body) if packed else body).decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, err


@pytest.fixture
def store(tmp_path):
    it = Store(tmp_path)
    it.seed(*EVERY_STATE)
    return it


def test_the_address_is_printed_and_leads_to_the_dashboard_until_a_signal_comes(store):
    with Ui(store, "--store", store.url) as ui:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ui/\n", ui.line)
        status, page = ui.ask("GET", "/ui/")
        assert status == 200 and "<title>" in page
        assert len(json.loads(ui.ask("GET", "/v1/jobs")[1])["items"]) == len(EVERY_STATE)
        code, out, err = ui.end()
        assert (code, out) == (0, "") and "Ctrl-C" in err
    with Ui(store, "--store", store.url, "--json") as ui:
        said = json.loads(ui.line)
        assert said["url"].endswith("/ui/") and said["store"] == store.url and said["needs_token"] is False
        assert ui.end(signal.SIGTERM) == (0, "", "")


def test_every_request_that_would_change_something_is_refused_by_the_server(store):
    changes = [("POST", "/v1/jobs", {"task": "mail"}), ("DELETE", "/v1/jobs/queued-1", None),
               ("POST", "/v1/jobs/retrying-1/retry", {}), ("POST", "/v1/claim", {"n": 1}),
               ("POST", "/v1/queues/default/pause", {}), ("PUT", "/v1/cron/x", {"task": "a", "schedule": "@daily"}),
               ("DELETE", "/v1/retry/dead-letters?older_than_hours=0", None),
               ("POST", "/v1/retry/dead-letters/retry", {"all": True}),
               ("POST", "/v1/retry/circuit-breakers/parking/trip", {})]
    before = store.output("jobs", "list", "--json")
    with Ui(store, "--store", store.url) as ui:
        for method, path, body in changes:
            status, text = ui.ask(method, path, body)
            assert status == 403 and "changes nothing" in json.loads(text)["detail"], path
        session = json.loads(ui.ask("GET", "/v1/session")[1])
        assert session["scopes"] == ["read"]  # the page shows no buttons
    assert store.output("jobs", "list", "--json") == before


def test_nothing_happens_in_time_because_of_it(store):
    """No tick: neither a job whose time has come nor a cron entry makes a difference."""
    config = store.directory / "redrive.yaml"
    config.write_text(f"store: {store.url}\ntasks: {{a: {{}}, soon: {{}}}}\ncron:\n  often: {{task: a, schedule: '* * * * *'}}\n")
    store.output("enqueue", "soon", "--id", "soon", "--delay", "1s")
    due = store.job("soon")["process_after"]
    with Ui(store) as ui:
        wait_for(lambda: json.loads(ui.ask("GET", "/v1/session")[1])["at"] > due)
        for _ in range(5):
            assert ui.ask("GET", "/v1/ready")[0] == 200  # goes through what would tick
        assert json.loads(ui.ask("GET", "/v1/jobs/soon")[1])["state"] == "scheduled"
        assert ui.end()[0] == 0
    assert store.json("cron", "list", "-c", str(config))["items"][0]["last_tick"] is None


def test_it_works_beside_a_server_of_the_same_store(store):
    server = subprocess.Popen(
        [str(BINARY), "--store", store.url, "serve", "--no-work", "--listen", "127.0.0.1:0", "--faktory", "off"],
        stderr=subprocess.PIPE, text=True, env=environment())
    try:
        line = ""
        while " serving " not in line:
            line = server.stderr.readline()
            assert line, "the server has ended"
        with Ui(store, "--store", store.url) as ui:
            store.output("enqueue", "mail", "--id", "from-elsewhere")
            wait_for(lambda: ui.ask("GET", "/v1/jobs/from-elsewhere")[0] == 200)
            assert ui.end()[0] == 0
        assert server.poll() is None
    finally:
        server.kill()
        server.communicate(timeout=TIMEOUT_S)


def test_tokens_of_the_configuration_are_asked_for_and_give_no_more_than_looking(store):
    config = store.directory / "own.yaml"
    digest = hashlib.sha256(b"all-of-it").hexdigest()
    config.write_text(f'store: {store.url}\ntokens:\n  - {{name: ops, hash: "sha256:{digest}", '
                      "scopes: [enqueue, work, read, admin], tenant: default}\n")
    config.chmod(0o600)
    with Ui(store, "-c", str(config)) as ui:
        assert ui.ask("GET", "/v1/jobs")[0] == 401
        assert ui.ask("GET", "/v1/jobs", token="all-of-it")[0] == 200
        assert ui.ask("DELETE", "/v1/jobs/queued-1", token="all-of-it")[0] == 403
        assert json.loads(ui.ask("GET", "/v1/session", token="all-of-it")[1])["scopes"] == ["read"]


def test_a_browser_is_opened_only_when_asked_for(store):
    programs = store.directory / "bin"
    programs.mkdir()
    opened = store.directory / "opened"
    (programs / "xdg-open").write_text(f"#!/bin/sh\necho \"$1\" >{opened}.new; mv {opened}.new {opened}\n")
    (programs / "xdg-open").chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin"}
    with Ui(store, "--store", store.url, env=env) as ui:
        assert ui.end()[0] == 0
    assert not opened.exists()
    with Ui(store, "--store", store.url, "--open", env=env) as ui:
        assert wait_for(lambda: opened.exists() and opened.read_text()) == ui.line
    with Ui(store, "--store", store.url, "--open", env={"PATH": str(store.directory)}) as ui:
        code, _, err = ui.end()
        assert code == 0 and "xdg-open" in err


def test_the_browser_has_the_usual_signals(store):
    """The program ignores SIGPIPE; a browser that does so too would not end with its pipes. Python, which runs the
    test, ignores SIGPIPE as well and hands that on, so that the script looks at what the program has left. The script reads
    its own state without starting a program, because a shell blocks all signals while it starts one."""
    own_signals = 'while read -r line; do case $line in Sig*) echo "$line" ;; esac; done </proc/$$/status'
    programs = store.directory / "bin"
    programs.mkdir()
    opened = store.directory / "opened"
    (programs / "xdg-open").write_text(f"#!/bin/sh\n{own_signals} >{opened}.new; mv {opened}.new {opened}\n")
    (programs / "xdg-open").chmod(0o755)
    with Ui(store, "--store", store.url, "--open", env={"PATH": f"{programs}:/usr/bin:/bin"}):
        wait_for(opened.exists, "the browser")
    masks = dict(line.split(":") for line in opened.read_text().splitlines())
    assert int(masks["SigIgn"], 16) >> (signal.SIGPIPE - 1) & 1 == 0
    assert int(masks["SigBlk"], 16) == 0


def test_no_store_is_made_where_there_is_none(tmp_path):
    result = subprocess.run([str(BINARY), "--store", "sqlite:none.db", "ui", "--json"], cwd=tmp_path, timeout=TIMEOUT_S,
                            capture_output=True, text=True, env=environment(), check=False)
    assert result.returncode == 1 and json.loads(result.stderr)["error"]["code"] == "NOT_FOUND"
    assert list(tmp_path.iterdir()) == []
