"""Runs that end by themselves look at their alerts before they do, and deliver them."""

import http.server
import json
import subprocess
import threading

import pytest

from tests.kit.program import environment
from tests.kit.waiting import LIMIT_S

N_RECORDS = 4

CONFIG = """
store: sqlite:jobs.db
tasks:
  bad: {run: {exec: [sh, -c, 'exit 75']}, retry: {max_retries: 0}, breaker: {failure_threshold: 0, failure_rate: 0}}
alerts:
"""
COMMAND = "command: [sh, -c, 'cat > alert.$$']"


class Place:
    def __init__(self, redrive, path):
        self.binary, self.path = redrive.binary, path

    def configure(self, *rules):
        (self.path / "redrive.yaml").write_text(CONFIG + "".join(f"  - {{{rule}}}\n" for rule in rules), "utf-8")

    def run(self, *words):
        done = subprocess.run([self.binary, *words], cwd=self.path, env=environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, done.stderr

    def run_bad_jobs(self, how, first=0):
        """Jobs that die, as records of a batch or with a worker that stops when it is idle."""
        ids = [f"r{i}" for i in range(first, first + N_RECORDS)]
        if how == "batch":
            (self.path / "in.jsonl").write_text("".join(json.dumps({"id": i}) + "\n" for i in ids), "utf-8")
            code, err = self.run("batch", "bad", "in.jsonl")
        else:
            for i in ids:
                assert self.run("enqueue", "bad", "{}", "--id", i)[0] == 0
            code, err = self.run("work", "--until-idle")
        assert code == 3, err
        return err

    def alerts(self):
        return [json.loads(path.read_text("utf-8")) for path in self.path.glob("alert.*")]


@pytest.fixture(name="place")
def fixture_place(redrive, tmp_path):
    return Place(redrive, tmp_path)


BOTH = pytest.mark.parametrize("how", ["batch", "work"])


@BOTH
def test_sizes_and_rates_are_looked_at_when_the_work_is_done(place, how):
    place.configure(
        f'when: "dead_letters >= {N_RECORDS}", {COMMAND}',
        f'when: "error_rate > 0.9", min_runs: {N_RECORDS - 1}, {COMMAND}',  # runs weigh less with time
        f'when: "error_rate >= 0.9", min_runs: {N_RECORDS}, task: bad, {COMMAND}',
        f'when: "dead_letters > {N_RECORDS}", {COMMAND}',
    )
    err = place.run_bad_jobs(how)
    told = {(alert["condition"], alert["task"]): alert["value"] for alert in place.alerts()}
    assert told == {(f"dead_letters >= {N_RECORDS}", None): N_RECORDS, ("error_rate > 0.9", None): 1, ("error_rate >= 0.9", "bad"): 1}
    assert all(alert["status"] == "firing" for alert in place.alerts())
    assert err.count(" alert condition=") == 3


@BOTH
def test_an_episode_is_told_once_however_many_runs_it_lasts(place, how):
    place.configure(f'when: "dead_letters > 0", {COMMAND}')
    place.run_bad_jobs(how)
    place.run_bad_jobs(how, first=N_RECORDS)
    assert len(place.alerts()) == 1


class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200 if len(self.server.got) > self.server.refusals else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(name="webhook")
def fixture_webhook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    server.got, server.refusals = [], 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@BOTH
def test_a_webhook_that_refuses_at_first_has_it_before_the_process_ends(place, webhook, how):
    webhook.refusals = 1
    place.configure(f'when: "dead_letters > 0", webhook: "http://127.0.0.1:{webhook.server_port}/"')
    err = place.run_bad_jobs(how)
    assert [alert["value"] for alert in webhook.got] == [webhook.got[0]["value"]] * 2
    assert "alert_not_sent" not in err


def test_a_webhook_that_never_takes_it_is_given_up(place, webhook):
    webhook.refusals = 100
    place.configure(f'when: "dead_letters > 0", webhook: "http://127.0.0.1:{webhook.server_port}/"')
    assert " alert_not_sent " in place.run_bad_jobs("batch")
    assert len(webhook.got) >= 2
