"""common - a server of its own for the measurements of the dashboard, and connections to it."""
import contextlib
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from interfaces import Server, end, free_port, wait_for_port  # noqa: E402

# What each page of web/pages/ asks for when it loads.
PAGES = {
    "overview": ["/summary?queues=8", "/rates", "/latency"],
    "queues": ["/queues"],
    "jobs": ["/jobs?limit=50", "/counts?", "/bulk"],
    "dead": ["/retry/dead-letters/retries", "/retry/dead-letters/groups?"],
    "tasks": ["/tasks"],
    "breakers": ["/retry/circuit-breakers", "/retry/circuit-breakers/history?minutes=180"],
    "limits": ["/limits"],
    "cron": ["/cron"],
    "workers": ["/workers"],
}


def redrive():
    return os.environ.get("REDRIVE_BIN", str(ROOT / "build" / "redrive"))


@contextlib.contextmanager
def serve(store=None, config=""):
    """`redrive serve` on a store; None: an SQLite file in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="redrive-dashboard-") as folder:
        port = free_port()
        path = pathlib.Path(folder) / "redrive.yaml"
        path.write_text(f"store: {store or f'sqlite:{folder}/jobs.db'}\nlisten: {{http: '127.0.0.1:{port}', faktory: 'off'}}\nlog: {{level: error}}\n{config}")
        process = subprocess.Popen([redrive(), "serve", "-c", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_port(port, process)
            yield Server(process, port, None)
        finally:
            end(process)


class Client:
    """One connection that stays open."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method, path, body=None):
        self.connection.request(method, "/v1" + path, None if body is None else json.dumps(body))
        answer = self.connection.getresponse()
        raw = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {raw[:300]!r}")
        return json.loads(raw) if raw else None
