"""Clients that others have written, fetched when they are needed: where that is not possible, their tests are skipped."""

import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from tests.kit.program import BUILD

HERE = pathlib.Path(__file__).resolve().parent
NODE_CLIENT = "faktory-worker@4.7.1"
GO_CLIENT = ("github.com/contribsys/faktory", "github.com/contribsys/faktory_worker_go")
GO_OLDEST = (1, 22)  # as in go.mod
# Go's own library takes it the better part of a minute; the next run finds it there.
GO_CACHE = BUILD / "go"

# A registry may be slow, or refuse once and then answer.
FETCH_S = 120
TRIES = 4
BUILD_S = 800  # Go builds its own library first, on a machine that may be busy

_had = {}


def _once(name, get):
    """What `get` gives, or its reason to skip, for every module that asks."""
    if name not in _had:
        try:
            _had[name] = get()
        except pytest.skip.Exception as reason:
            _had[name] = reason
    if isinstance(_had[name], pytest.skip.Exception):
        raise _had[name]
    return _had[name]


def _fetch(command, folder, what, env=None):
    said = ""
    for attempt in range(TRIES):
        time.sleep(attempt)
        try:
            result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True,
                                    timeout=FETCH_S, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{what} does not answer")
        if result.returncode == 0:
            return
        said = (result.stderr.strip().splitlines() or [""])[-1]
    pytest.skip(f"{what} has not given it: {said}")


def _install_node(folder):
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm and node are not installed")
    _fetch(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", NODE_CLIENT], folder, "the npm registry")
    return folder / "node_modules"


def _build_go(folder):
    """Fetching may fail, and building what was fetched may not."""
    if not shutil.which("go"):
        pytest.skip("Go is not installed")
    version = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    number = re.match(r"go(\d+)\.(\d+)", version)
    if not number or tuple(map(int, number.groups())) < GO_OLDEST:
        pytest.skip(f"Go is too old for the client: {version.strip()}")
    source = folder / "source"
    shutil.copytree(HERE / "faktory_go", source)
    env = {**os.environ, "GOPATH": f"{GO_CACHE}/path", "GOMODCACHE": f"{GO_CACHE}/modules", "GOCACHE": f"{GO_CACHE}/cache",
           "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    _fetch(["go", "mod", "download", *GO_CLIENT], source, "the Go module proxy", env)
    result = subprocess.run(
        ["go", "build", "-ldflags=-s -w", "-o", str(folder / "faktory_go"), "."], cwd=source,
        env={**env, "GOPROXY": "off", "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false"},
        capture_output=True, text=True, timeout=BUILD_S, check=False, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    return folder / "faktory_go"


def node_modules(tmp_path_factory):
    return _once("node", lambda: _install_node(tmp_path_factory.mktemp("node")))


def go_program(tmp_path_factory):
    return _once("go", lambda: _build_go(tmp_path_factory.mktemp("go")))
