"""Every example of docs/http.md runs."""

import re
import subprocess

from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S


def examples():
    text = (ROOT / "docs" / "http.md").read_text()
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        yield from re.findall(r"^\$ (.*)$", block, re.M)


def test_every_example_runs(api):
    commands = list(examples())
    assert len(commands) > 20
    for command in commands:
        asked = command.replace("127.0.0.1:7070", f"127.0.0.1:{api.port}").replace("curl -s", "curl -fsS")
        result = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert result.returncode == 0, (command, result.stderr)
        assert result.stdout.startswith("{"), command
