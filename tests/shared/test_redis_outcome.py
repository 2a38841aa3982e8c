"""What a promoted Redis server says of a commit whose answer was lost with its primary."""
import re
import subprocess

import pytest

from tests.kit.program import BINARY
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for


def word(server, name):
    return re.search(rf"^{name}:(\S+)", server.call("INFO", "replication"), re.M)[1]


@pytest.fixture(name="pair")
def two_servers():
    with start_or_skip("redis") as first, start_or_skip("redis") as second:
        yield first, second


class Library:
    """The functions of a store, as a handle calls them."""

    def __init__(self, server):
        self.name = re.search(r"redrive_\d+_\w+?(?=_hello)", str(server.call("FUNCTION", "LIST")))[0]

    def call(self, server, function, *words):
        return server.call("FCALL", f"{self.name}_{function}", 1, "{redrive}:root", *words)

    def told(self, server):
        """History and id, as every answer tells them."""
        return self.call(server, "hello")[0].split(" ")[4:2:-1]

    def commit(self, server, who, number, history, identity):
        return self.call(server, "commit", who, number, identity, history, "", 0, 0, "origin", 0, 0, 0, 0)[1]

    def outcome(self, server, who, number):
        return int(self.call(server, "outcome", who, number))


def follow(second, first):
    second.call("REPLICAOF", "127.0.0.1", first.port)
    wait_for(lambda: word(second, "master_link_status") == "up", "the second follows the first")


def test_a_promoted_server_knows_the_commits_that_it_has_got_and_refuses_the_others(pair):
    first, second = pair
    subprocess.run([str(BINARY), "migrate", "--store", first.url], check=True, capture_output=True, timeout=LIMIT_S)
    library = Library(first)
    follow(second, first)
    history, identity = library.told(first)
    assert library.commit(first, "writer", 1, history, identity) == "OK"
    wait_for(lambda: second.call("GET", "{redrive}:m:writer") == "1", "the commit is replicated")
    second.call("REPLICAOF", "NO", "ONE")
    assert library.commit(first, "writer", 2, history, identity) == "OK"  # which the second never gets
    first.kill()
    assert library.outcome(second, "writer", 2) == 0
    assert library.outcome(second, "writer", 2) == 0  # however often it is asked
    # Nor is it made when it comes late, nor one of the former history at all.
    history_now, _ = library.told(second)
    assert history_now != history
    assert library.commit(second, "writer", 2, history_now, identity)[:2] == ["REFUSED", "number"]
    assert library.commit(second, "writer", 3, history, identity)[:2] == ["REFUSED", "history"]
    assert library.commit(second, "writer", 3, history_now, identity) == "OK"
    assert library.outcome(second, "writer", 3) == 1
    assert library.outcome(second, "another", 1) == 0


def test_that_a_commit_was_given_up_is_known_to_the_replica_as_well(pair):
    first, second = pair
    subprocess.run([str(BINARY), "migrate", "--store", first.url], check=True, capture_output=True, timeout=LIMIT_S)
    library = Library(first)
    follow(second, first)
    assert library.outcome(first, "writer", 1) == 0
    wait_for(lambda: second.call("GET", "{redrive}:m:writer") == "1x", "it is replicated")
    second.call("REPLICAOF", "NO", "ONE")
    history, identity = library.told(second)
    assert library.commit(second, "writer", 1, history, identity)[:2] == ["REFUSED", "number"]
