"""The installed package in a virtual environment that has what its metadata asks for, and nothing else."""

import importlib.metadata
import shutil
import subprocess
import sys

from conftest import LIMIT_S
from packaging.requirements import Requirement


def with_requirements(name, extras=()):
    """The distributions that pip would install for it."""
    found = {name: importlib.metadata.distribution(name)}
    for text in found[name].requires or []:
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            assert needed.specifier.contains(importlib.metadata.version(needed.name)), text
            found.update(with_requirements(needed.name, needed.extras))
    return found


class Fresh:
    """A new virtual environment, whose Python is run outside of the source tree."""

    def __init__(self, folder):
        self.folder = folder
        self.distributions = {}
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
        (self._site,) = (folder / "env").glob("lib/python*/site-packages")

    def install(self, *extras):
        """The package and what it asks for, as they were installed for the tests."""
        for name, found in with_requirements("redrive", extras).items():
            if name not in self.distributions:
                self.distributions[name] = found
                self._copy(found)

    def _copy(self, distribution):
        for file in distribution.files:
            if ".." not in file.parts:
                (self._site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), self._site / file)

    def run(self, *words):
        command = [str(self.folder / "env" / "bin" / "python"), "-I", *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout


CORE = """
import asyncio, importlib.util, redrive

@redrive.retry(max_attempts=3, strategy="immediate")
async def fetch(calls=[]):
    calls.append(1)
    if len(calls) < 3:
        raise ConnectionError
    return len(calls)

assert asyncio.run(fetch()) == 3
with redrive.RetryHandler() as handler:
    assert handler.submit_job(handler.create_job("t", 7), lambda context, payload: payload).value == 7
assert importlib.util.find_spec("httpx") is None
print(redrive.__file__)
"""

APP = """
import redrive

app = redrive.App("http://127.0.0.1:1")

@app.task(name="send", retry=3)
def send(to): ...
"""


HTTP = """
import sys
import httpx, redrive

client = httpx.Client(base_url=sys.argv[1], trust_env=False)

@redrive.retry(max_attempts=3, strategy="immediate", retry_on=[httpx.HTTPStatusError])
def get(path):
    return client.get(path).raise_for_status().text

@redrive.retry
def get_by_class(path):
    return client.get(path).raise_for_status().text

assert get("/flaky") == "there"
try:
    get_by_class("/missing")
except httpx.HTTPStatusError as exc:
    assert redrive.classify(exc).failure_class == "permanent"
try:
    httpx.Client(trust_env=False).get("http://127.0.0.1:1")
except httpx.ConnectError as exc:
    assert redrive.classify(exc).failure_class == "network"
assert redrive.classify(httpx.ReadTimeout("late")).failure_class == "transient"
response = httpx.Response(429, headers={"Retry-After": "7"}, request=httpx.Request("GET", sys.argv[1]))
limited = httpx.HTTPStatusError("slow down", request=response.request, response=response)
assert redrive.classify(limited).failure_class == "rate_limited"
assert redrive.describe(limited).retry_after == 7
"""


def test_the_package_in_a_fresh_environment_alone_and_with_the_extra_http(tmp_path, source):
    fresh = Fresh(tmp_path)
    fresh.install()
    assert sorted(fresh.distributions) == ["cffi", "pycparser", "redrive"]
    assert str(tmp_path / "env") in fresh.run("-c", CORE)
    (tmp_path / "shop.py").write_text(APP)
    assert '"max_attempts": 3' in fresh.run("-m", "redrive", "config", "shop:app")

    fresh.install("http")
    assert "httpx" in fresh.distributions
    source.will_say("/flaky", 503, 503, "there")
    fresh.run("-c", HTTP, source.url)


def test_the_wheel_is_named_after_the_oldest_interpreter_that_it_serves():
    found = importlib.metadata.distribution("redrive")
    tags = [line for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    assert [tag.split("-")[:2] for tag in tags] == [["Tag: cp39", "abi3"]]
    assert any(str(file).endswith("_core.abi3.so") for file in found.files)
    assert found.metadata["Requires-Python"] == ">=3.9"
