"""Several processes on one store: PostgreSQL and Redis servers of their own, which tests may harm."""
import os
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in ("torture", "servers", "server", "shared"):
    sys.path.insert(0, str(TESTS / folder))

import servers  # noqa: E402
from fleet import Fleet  # noqa: E402

KINDS = ("postgres", "redis")


def pytest_collection_modifyitems(config, items):
    """Slow ones are left out rather than skipped, so that what is skipped is what could not be tested."""
    if os.environ.get("REDRIVE_SLOW"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def start(kind, **options):
    try:
        return servers.KINDS[kind](**options)
    except servers.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=KINDS)
def durable(request):
    """A server that keeps what it has answered; a module's own."""
    with start(request.param, durable=True) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def quick(request):
    """A server that does not wait for the disk; a module's own."""
    with start(request.param) as server:
        server.stores = 0
        yield server


@pytest.fixture
def fleet(quick, tmp_path):
    """Processes on an empty store of that server."""
    quick.stores += 1
    if quick.name == "redis":
        url = f"{quick.url}?prefix=s{quick.stores}"
    else:
        quick.sql(f"CREATE DATABASE s{quick.stores}")
        url = quick.url.removesuffix("postgres") + f"s{quick.stores}"
    one = Fleet(tmp_path, url)
    yield one
    one.close()


@pytest.fixture
def make_server():
    """Servers that a test stops and kills: make_server("redis", durable=True)."""
    made = []

    def make(kind, **options):
        made.append(start(kind, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()
