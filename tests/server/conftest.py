import pytest

from tests.kit.faktory import FaktoryServer
from tests.kit.rest import RestServer
from tests.kit.server import Bench
from tests.kit.tokens import token_line


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    yield one
    one.close()


@pytest.fixture
def start(tmp_path):
    """Starts a server of the resources; `extra` is added to its configuration."""
    servers = []

    def start_one(extra=""):
        servers.append(RestServer(tmp_path, extra))
        return servers[-1]

    yield start_one
    for server in servers:
        server.close()


@pytest.fixture
def api(start):
    return start().api


@pytest.fixture
def tenants(start):
    """Two tenants with every scope, and one who may only read."""
    everything = "enqueue, work, read, admin"
    tokens = "tokens:\n" + token_line("red", everything, "red") + token_line("blue", everything, "blue")
    api = start(tokens + token_line("reader", "read", "red")).api
    return api.of("red"), api.of("blue"), api.of("reader")


@pytest.fixture
def start_server(tmp_path):
    """Starts a Faktory server."""
    servers = []

    def open_one(*arguments, config=None):
        if config is not None:
            path = tmp_path / "redrive.yaml"
            path.write_text(config)
            arguments = ("--config", str(path), *arguments)
        servers.append(FaktoryServer(f"sqlite:{tmp_path}/jobs.db", *arguments))
        return servers[-1]

    yield open_one
    for server in servers:
        server.close()


@pytest.fixture
def server(start_server):
    return start_server()
