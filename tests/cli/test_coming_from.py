"""Every configuration and every command of docs/coming-from.md, as they stand there."""

import json
import os
import re
import subprocess

import pytest

from tests.kit.program import ROOT, environment
from tests.kit.waiting import LIMIT_S

DOC = (ROOT / "docs" / "coming-from.md").read_text("utf-8")
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```", DOC, re.M | re.S) for line in block.splitlines()]


@pytest.fixture
def place(redrive, tmp_path):
    config, = re.findall(r"^```yaml\n(.*?)^```", DOC, re.M | re.S)
    (tmp_path / "redrive.yaml").write_text(config, "utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redrive").symlink_to(redrive.binary)
    return tmp_path


def shell(place, command):
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(["sh", "-c", command], cwd=place, env=environment(PATH=path), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)


def delays(place, task):
    """The bounds of each delay, in seconds."""
    result = shell(place, f"redrive policy explain {task} --json")
    assert result.returncode == 0, result.stderr
    retries = json.loads(result.stdout)["retries"]
    return [(r.get("min_ms", r.get("delay_ms")) / 1000, r.get("max_ms", r.get("delay_ms")) / 1000) for r in retries]


def test_commands_run(place):
    assert len(COMMANDS) >= 12
    for command in COMMANDS:
        result = shell(place, command)
        assert result.returncode == 0, (command, result.stderr)


def test_configuration_has_nothing_to_complain_of(place):
    result = shell(place, "redrive config check")
    assert (result.returncode, result.stderr) == (0, "")


def test_delays_are_those_of_the_other_queues(place):
    assert delays(place, "celery") == [(0, 1), (0, 2), (0, 4)]
    sidekiq = delays(place, "sidekiq")
    assert sidekiq == [(n**4 + 15, n**4 + 15 + 10 * (n + 1)) for n in range(25)]
    assert 19 < sum(least for least, _ in sidekiq) / 86400 < 22
    river = delays(place, "river")
    assert len(river) == 24
    assert river[:3] == [(0.9, 1.1), (1.8, 2.2), (15.3, 18.7)]
    assert delays(place, "bullmq") == [(1, 1), (2, 2)]
    assert delays(place, "task-api") == [(5, 5), (10, 10), (20, 20)]
    assert delays(place, "own-worker") == [(5, 5), (5, 5)]
    assert delays(place, "procrastinate") == [(5, 5)] * 5
    assert delays(place, "beanstalkd") == [(10, 10)] * 10


def test_a_class_that_is_not_retried_is_when_the_policy_names_it(place):
    words = re.search(r"`(retry_on: all)`", DOC).group(1)
    (place / "all.yaml").write_text(f"tasks: {{all: {{retry: {{{words}}}}}}}\n", "utf-8")
    for name in ("permanent", "validation", "authentication"):
        some = shell(place, f"redrive policy explain --class {name} --json")
        assert json.loads(some.stdout)["retries"] == []
        every = shell(place, f"redrive policy explain all --class {name} -c all.yaml --json")
        assert len(json.loads(every.stdout)["retries"]) == 5
