"""The pipeline of examples/records runs as its README says."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.kit.program import ROOT, environment

EXAMPLE = ROOT / "examples" / "records"
LIMIT_S = 120


@pytest.fixture
def example(redrive, tmp_path):
    """A copy of the example, and the program in the path under its own name."""
    place = tmp_path / "records"
    shutil.copytree(EXAMPLE, place)
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "redrive").symlink_to(redrive.binary)
    return place


def shell(example, command):
    path = f"{example.parent / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", command],
        cwd=example,
        env=environment(PATH=path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def counts(example, task):
    with sqlite3.connect(f"file:{example}/redrive.db?mode=ro", uri=True, timeout=20) as db:
        sql = "SELECT completed, dead_letter FROM job_counts WHERE task_name = ?"
        return db.execute(sql, (task,)).fetchone()


def run_until_done(example, task):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        result = shell(example, f"redrive batch {task} --json")
        assert result.returncode in (0, 3), result.stderr
        if json.loads(result.stdout)["waiting"] == 0:
            return
        time.sleep(0.2)
    pytest.fail("records still wait")


def test_commands_of_the_readme_run_and_all_records_end(example):
    text = (example / "README.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 7
    for line in lines:
        if line.startswith("sqlite3") and not shutil.which("sqlite3"):
            with sqlite3.connect(example / "redrive.db") as db:
                db.execute(re.search(r'"(.*)"', line).group(1)).fetchall()
            continue
        result = shell(example, line)
        assert result.returncode in ((0, 3) if "batch" in line else (0,)), (line, result.stderr)
    run_until_done(example, "quick")
    assert counts(example, "quick") == (910, 90)
    assert (example / "results.csv").exists() and (example / "dead.jsonl").exists()


def test_shell_handler_does_the_same(example):
    assert shell(example, "python3 make_samples.py 100 > few.jsonl").returncode == 0
    result = shell(example, "redrive batch quick-sh few.jsonl --payload-field payload")
    assert result.returncode == 3, result.stderr
    run_until_done(example, "quick-sh")
    assert counts(example, "quick-sh") == (91, 9)


def test_delays_of_the_real_tasks_are_those_of_the_profile(example):
    for task in ("enrich", "enrich-sh"):
        result = shell(example, f"redrive policy explain {task} --json")
        assert result.returncode == 0, result.stderr
        retries = json.loads(result.stdout)["retries"]
        assert [retry["delay_ms"] // 60000 for retry in retries] == [2, 4, 8, 16, 32]
    assert shell(example, "redrive config check").returncode == 0


def test_cron_line_and_notebook_cell_are_calls_that_exist(example):
    text = (example / "README.md").read_text("utf-8")
    line = re.search(r"^```crontab\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1)
    words = re.search(r"(redrive batch .*?) >>", line).group(1)
    assert shell(example, words + " --help").returncode == 0
    dag = (example / "dag.py").read_text("utf-8")
    compile(dag, "dag.py", "exec")
    words = re.search(r'bash_command="(redrive .*?) \|\|', dag).group(1)
    assert shell(example, words + " --help").returncode == 0
    cell = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1)
    script = "records = [{'id': 1, 'payload': {'value': 1, 'unit': 'mg'}}]\n" + cell + "print(summary)"
    (example / "cell.py").write_text(script, "utf-8")
    result = shell(example, f"{sys.executable} cell.py")
    assert result.returncode == 0, result.stderr
    assert "'successful': 1" in result.stdout
