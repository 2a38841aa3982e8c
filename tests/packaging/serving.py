"""A server or a worker on a free loopback port, with a store of its own unless one is given."""
from tests.kit.server import Server, Worker


def store_words(folder, store):
    return "--store", store or f"sqlite:{folder}/jobs.db", "--log-format", "text"


class Serving(Server):
    """`words` are further options of `redrive serve`."""

    def __init__(self, folder, *words, store=None):
        super().__init__(folder, *words, "--listen", "127.0.0.1:0", "--faktory", "off", *store_words(folder, store))


class Working(Worker):
    """`words` are further options of `redrive work`. It answers with its metrics."""

    def __init__(self, folder, *words, store=None):
        super().__init__(folder, *words, "--metrics", "127.0.0.1:0", *store_words(folder, store))
