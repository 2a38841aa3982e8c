"""Clients that others have written, unchanged, against the Faktory door."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from faktory_kit import Door, LIMIT_S

HERE = pathlib.Path(__file__).resolve().parent
NODE_CLIENT = "faktory-worker@4.7.1"

CONFIG = """
tasks:
  Flaky:
    retry: {strategy: fixed, initial_delay: 200ms, max_retries: 3, jitter: false}
"""


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory):
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm and node are not installed")
    folder = tmp_path_factory.mktemp("node")
    try:
        result = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", NODE_CLIENT], cwd=folder,
            capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    if result.returncode != 0:
        pytest.skip("the npm registry cannot be reached: " + result.stderr.strip()[-200:])
    return folder / "node_modules"


@pytest.mark.parametrize("password", [None, "se:cret"])
def test_node_client_and_worker_run_unchanged(node_modules, tmp_path, password):
    (tmp_path / "redrive.yaml").write_text(CONFIG)
    arguments = ["--config", str(tmp_path / "redrive.yaml")]
    url = "tcp://127.0.0.1:"
    if password:
        arguments += ["--password", f"{password}=acme"]
        url = "tcp://:se%3Acret@127.0.0.1:"
    door = Door(f"sqlite:{tmp_path}/jobs.db", *arguments)
    try:
        result = subprocess.run(
            ["node", str(HERE / "faktory_node.js")], capture_output=True, text=True, timeout=LIMIT_S * 2, check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "NODE_PATH": str(node_modules), "FAKTORY_URL": f"{url}{door.port}"})
    finally:
        door.close()
    assert result.returncode == 0, result.stderr
    said = [json.loads(line) for line in result.stdout.splitlines()]
    assert said[0] == {"rejected": 0}
    runs = [line for line in said if "jobtype" in line]
    assert sorted(run["args"][0] for run in runs if run["jobtype"] == "Good") == [1, 2, 3, 4]
    assert {"jobtype": "Good", "args": [1, {"deep": ["ä"]}]} in runs
    flaky = [run for run in runs if run["jobtype"] == "Flaky"]
    assert [run.get("errtype") for run in flaky] == [None, "ECONNRESET"]
    assert [run["custom"] for run in flaky] == [{"trace": "t-1"}] * 2
    assert len([run for run in runs if run["jobtype"] == "Hopeless"]) == 1
    assert {"dead": 1, "working": 0, "failures": 2} in said
    assert said[-1] == {"dead": 0}
