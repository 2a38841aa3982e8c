"""examples/python-app, as its page says."""

import os
import pathlib
import subprocess
import sys

from conftest import LIMIT_S

from redrive import App

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python-app"


def test_news(server, source, tmp_path):
    env = {
        **os.environ,
        "JOBS_URL": server.url,
        "NEWS_CACHE": str(tmp_path / "news.txt"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], cwd=EXAMPLE, env=env, check=True, capture_output=True, text=True, timeout=LIMIT_S
        ).stdout

    source.will_say("/", "it rains\nmore\n")
    url = f"{source.url}/"
    ids = [line.split()[0] for line in run("news.py", url, "not-an-address").splitlines()]
    assert "is there already" in run("news.py", url)
    run("-m", "redrive", "worker", "news:app", "--until-idle")
    jobs = [App(server.url).job(id_) for id_ in ids]
    assert jobs[0]["result"] == "it rains"
    assert (jobs[1]["state"], jobs[1]["attempts"]) == ("dead_letter", 1)
    assert (tmp_path / "news.txt").read_text() == f"{url} it rains\n"
