"""The examples do what their READMEs say."""
import json
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import time

import pytest

from conftest import BINARY, ROOT

LIMIT_S = 60


class Example:
    """A copy of an example, and the program beside it."""

    def __init__(self, name, tmp_path):
        self.place = tmp_path / name
        shutil.copytree(ROOT / "examples" / name, self.place, ignore=shutil.ignore_patterns("*.db*"))
        # Debian's own programs before any others of the same name.
        self.env = {"PATH": "/usr/bin:" + os.environ["PATH"], "HOME": str(tmp_path), "REDRIVE": str(BINARY)}

    def run(self, *words):
        return subprocess.run([str(BINARY), *words], cwd=self.place, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)

    def script(self, name="run.sh"):
        done = subprocess.run(["./" + name], cwd=self.place, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr + done.stdout
        return done

    def job(self, job_id):
        done = self.run("jobs", "show", job_id, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def query(self, file, sql):
        db = sqlite3.connect(self.place / file)
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()


def wait_for(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_missing_picture_is_tried_three_times_and_kept_with_its_traceback(tmp_path):
    example = Example("thumbnail", tmp_path)
    done = example.script()
    tries = re.findall(r"job=thumbnail-missing .*?attempt=(\d/3)", done.stderr)
    assert [t for i, t in enumerate(tries) if i == 0 or t != tries[i - 1]] == ["1/3", "2/3", "3/3"]
    for picture in ("dawn", "rings", "stripes"):
        assert example.job(f"thumbnail-{picture}")["state"] == "completed"
        assert (example.place / "thumbnails" / f"{picture}.png").stat().st_size > 100
    row, = example.query("thumbnails.db", """SELECT job_id, job_type, status, attempts, max_attempts, last_error,
                                            error_stacktrace, input_data FROM failed_jobs""")
    assert row[:5] == ("thumbnail-missing", "thumbnail", "FAILED", 3, 3)
    assert "FileNotFoundError" in row[6] and "Traceback" in row[6]
    assert json.loads(row[7])["input"] == "pictures/missing.ppm"

    assert "FileNotFoundError: [Errno 2]" in example.run("dlq", "list").stdout
    assert "FileNotFoundError: FileNotFoundError" not in example.run("dlq", "list").stdout

    shutil.copy(example.place / "pictures/dawn.ppm", example.place / "pictures/missing.ppm")
    assert example.run("dlq", "retry", "thumbnail-missing").returncode == 0
    assert example.run("work", "--until-idle").returncode == 0
    assert example.job("thumbnail-missing")["state"] == "completed"


@pytest.fixture
def webhook(tmp_path):
    example = Example("webhook", tmp_path)
    port = free_port()
    for name in ("redrive.yaml", "run.sh"):
        path = example.place / name
        path.write_text(path.read_text().replace("8700", str(port)))
    yield example


def test_webhook_needs_three_attempts(webhook):
    webhook.script()
    job = webhook.job("joke-1")
    assert (job["state"], job["attempts"], job["queue"]) == ("completed", 3, "api")
    first, second, third = job["history"]
    assert (first["error"]["class"], second["error"]["class"]) == ("rate_limited", "transient")
    assert (first["error"]["code"], second["error"]["code"]) == (503, 500)
    assert second["delay"] == 4 and third["outcome"] == "completed"
    assert "joke" in job["result"]
    listed = json.loads(webhook.run("cron", "list", "--json").stdout)["items"]
    assert [entry["name"] for entry in listed] == ["digest-every-two-minutes"]


def test_job_of_a_killed_worker_is_rescued(webhook):
    """The lease is short here; the server never answers the first worker."""
    config = webhook.place / "redrive.yaml"
    text = config.read_text().replace("lease: 30s", "lease: 1s")
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    port = silent.getsockname()[1]
    config.write_text(re.sub(r"127\.0\.0\.1:\d+/joke", f"127.0.0.1:{port}/joke", text))
    assert webhook.run("enqueue", "fetch-joke", "{}", "--id", "stalled").returncode == 0
    worker = subprocess.Popen([str(BINARY), "work"], cwd=webhook.place, env=webhook.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: webhook.job("stalled")["state"] == "running", "the first start")
    finally:
        worker.kill()
        worker.wait()
        silent.close()
    config.write_text(text)
    port = re.search(r"127\.0\.0\.1:(\d+)/joke", text).group(1)
    server = subprocess.Popen(["./flaky-server", port], cwd=webhook.place, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL)
    worker = subprocess.Popen([str(BINARY), "work"], cwd=webhook.place, env=webhook.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: webhook.job("stalled")["state"] == "completed", "the rescue")
    finally:
        worker.terminate()
        worker.wait(timeout=LIMIT_S)
        server.terminate()
        server.wait()
    first = webhook.job("stalled")["history"][0]
    assert (first["error"]["class"], first["outcome"]) == ("system", "retrying")
