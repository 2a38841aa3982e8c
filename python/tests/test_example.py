"""examples/python-app, as its page says."""

import http.server
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from redrive import App

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python-app"


class Source(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"it rains\nmore\n")

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def source():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Source)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_news(server, source, tmp_path):
    env = {
        **os.environ,
        "JOBS_URL": server.url,
        "NEWS_CACHE": str(tmp_path / "news.txt"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], cwd=EXAMPLE, env=env, check=True, capture_output=True, text=True, timeout=50
        ).stdout

    ids = [line.split()[0] for line in run("news.py", source, "not-an-address").splitlines()]
    assert "is there already" in run("news.py", source)
    run("-m", "redrive", "worker", "news:app", "--until-idle")
    jobs = [App(server.url).job(id_) for id_ in ids]
    assert jobs[0]["result"] == "it rains"
    assert (jobs[1]["state"], jobs[1]["attempts"]) == ("dead_letter", 1)
    assert (tmp_path / "news.txt").read_text() == f"{source} it rains\n"
