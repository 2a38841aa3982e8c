"""What a promoted Redis server says of a commit whose answer was lost with its primary."""
import re
import subprocess

import pytest
import servers
from serve_kit import BINARY, wait_for


def word(server, name):
    return re.search(rf"^{name}:(\S+)", server.call("INFO", "replication"), re.M)[1]


@pytest.fixture(name="pair")
def two_servers():
    try:
        with servers.Redis() as first, servers.Redis() as second:
            yield first, second
    except servers.Missing as missing:
        pytest.skip(str(missing))


def test_a_former_primary_does_not_take_another_unit_for_one_that_it_gave_up(pair):
    """Units of these numbers were given up on the first server, which has told nobody; the second has given the
    numbers out again, and the first takes over once more."""
    first, second = pair
    subprocess.run([str(BINARY), "migrate", "--store", first.url], check=True, capture_output=True, timeout=60)
    named = re.search(r"redrive_\d+_\w+?(?=_begin)", str(first.call("FUNCTION", "LIST")))[0]

    def call(server, function, *words):
        return server.call("FCALL", f"{named}_{function}", 1, "{redrive}:root", *words)

    def begin(server, who):
        return call(server, "begin", who, 1, "a-run", 4000, -1, 0)

    second.call("REPLICAOF", "127.0.0.1", first.port)
    wait_for(lambda: word(second, "master_link_status") == "up", "the second follows the first")
    for _ in range(3):
        call(first, "abort", begin(first, "quitter")[1], "quitter")
    wait_for(lambda: "OK" in str(first.call("FAILOVER")) or word(second, "role") == "master", "it may take over")
    wait_for(lambda: word(second, "role") == "master" and word(first, "role") == "slave"
             and word(first, "master_link_status") == "up", "they have exchanged their places")
    unit = begin(second, "writer")
    assert str(call(second, "commit", unit[1], "writer", 7, unit[3], "origin", 0, 0)) == "0"
    wait_for(lambda: first.call("HGET", "{redrive}:root", "holder") == "writer", "the commit is replicated")
    second.kill()
    first.call("REPLICAOF", "NO", "ONE")
    assert int(call(first, "fate", unit[1], "writer", unit[8])) == 1
    given_up = begin(first, "third")
    assert int(call(first, "fate", given_up[1], "third", given_up[8])) == 0
