"""Every example of docs/http.md runs."""

import re
import subprocess

from rest_client import ROOT, TIMEOUT_S, api, start  # noqa: F401 (fixtures)


def examples():
    text = (ROOT / "docs" / "http.md").read_text()
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        yield from re.findall(r"^\$ (.*)$", block, re.M)


def test_every_example_runs(api):  # noqa: F811
    commands = list(examples())
    assert len(commands) > 20
    for command in commands:
        asked = command.replace("127.0.0.1:7070", f"127.0.0.1:{api.port}").replace("curl -s", "curl -fsS")
        result = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert result.returncode == 0, (command, result.stderr)
        assert result.stdout.startswith("{"), command
