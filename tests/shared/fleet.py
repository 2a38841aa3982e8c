"""fleet.py - servers and workers on one store, all of one configuration, and what their handlers saw."""
import http.client
import json
import subprocess
import sys

from tests.judge import events
from tests.kit.program import BINARY, HANDLERS, environment
from tests.kit.server import Bench
from tests.kit.waiting import LIMIT_S

# A task's `run`, whose places are `processes` in each process.
NOTING = "run: {{stream: [{python}, {handler}, DIR/logs/handler.log], processes: {processes}}}"


def run_noting(processes):
    """Handlers that write down what they do."""
    return NOTING.format(python=sys.executable, handler=HANDLERS / "noting_handler.py", processes=processes)


class Fleet(Bench):
    def __init__(self, directory, url):
        self.logs = directory / "logs"
        self.logs.mkdir()
        super().__init__(directory, url)

    def submit(self, task, payloads):
        """Many at once; their ids."""
        lines = "".join(json.dumps(payload) + "\n" for payload in payloads)
        done = subprocess.run([str(BINARY), "enqueue", task, "--lines", "-c", str(self.config)], input=lines, text=True,
                              capture_output=True, env=environment(), timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def jobs(self, *states):
        named = ["--state", ",".join(states)] if states else []
        done = self.redrive("jobs", "export", *named)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def seen(self, event):
        """What handlers have written down, in the order in which it happened."""
        return [entry for entry in events.read(self.logs) if entry["event"] == event]


class Client:
    """A connection to one server."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port(), timeout=LIMIT_S)

    def ask(self, method, path, body=None):
        """Status, body and headers."""
        self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None, answer.headers

    def claim(self, n=1, queue="default", worker="w", lease=30):
        status, body, _ = self.ask("POST", "/claim", {"queues": [queue], "n": n, "worker": worker, "lease": lease})
        assert status == 200, body
        return body["jobs"]

    def settle(self, jobs, status="SUCCESS"):
        items = [{"id": job["id"], "token": job["token"], "status": status} for job in jobs]
        code, body, _ = self.ask("POST", "/settle", {"items": items})
        assert code == 200 and all(item["status"] == 200 for item in body["items"]), body
