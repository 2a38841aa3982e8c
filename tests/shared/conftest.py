"""Several processes on one store: PostgreSQL and Redis servers of their own, which tests may harm."""
import pytest

from tests.kit.stores import start_or_skip
from tests.shared.fleet import Fleet
from tests.torture.rig import Rig

KINDS = ("postgres", "redis")


@pytest.fixture(scope="module", params=KINDS)
def durable(request):
    """A server that keeps what it has answered; a module's own."""
    with start_or_skip(request.param, durable=True) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def quick(request):
    """A server that does not wait for the disk; a module's own."""
    with start_or_skip(request.param) as server:
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
        made.append(start_or_skip(kind, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def make_rig(tmp_path):
    made = []

    def make(url, **size):
        made.append(Rig(seed=5, place=tmp_path, store=url, **{"servers": 2, "workers": 1, **size}))
        return made[-1]

    yield make
    for rig in made:
        rig.close()
