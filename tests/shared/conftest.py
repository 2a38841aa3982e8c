"""Several processes on one store: PostgreSQL and Redis servers of their own, which tests may harm."""
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in ("torture", "servers", "doors"):
    sys.path.insert(0, str(TESTS / folder))

import servers  # noqa: E402

KINDS = ("postgres", "redis")


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
