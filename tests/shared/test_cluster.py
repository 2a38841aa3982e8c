"""A store in a Redis cluster: it lies on one node, is found from any, and is followed when a replica takes
that node's place or when its slot is moved."""
import subprocess
import time

import pytest

from tests.kit.cluster import Cluster
from tests.kit.program import BINARY, ROOT
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.fleet import Fleet
from tests.shared.load import endure, goes_on, invariants_hold
from tests.shared.unit import passes

CONFORMANCE = ROOT / "tests" / "store"
OF_NO_STORE = ("test_job_cursor", "test_job_json")
OTHERS_SEE_IT_MS = 2000
MOMENTS_S = 5  # on a loaded machine


@pytest.fixture(scope="module")
def calm():
    """One in which nobody dies."""
    with start_or_skip(Cluster) as cluster:
        yield cluster


@pytest.fixture
def durable():
    """One whose primaries are replaced soon, and which keeps what it has answered."""
    with start_or_skip(Cluster, durable=True, node_timeout_ms=OTHERS_SEE_IT_MS) as cluster:
        yield cluster


def redrive(*words):
    return subprocess.run([str(BINARY), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                          check=False)


def prefixes_apart(cluster, count):
    """Prefixes of stores that lie on as many nodes, by the node's port."""
    by_node = {}
    for i in range(1000):
        by_node.setdefault(cluster.owner(f"team{i}").port, f"team{i}")
        if len(by_node) == count:
            return by_node
    raise AssertionError(by_node)


def elsewhere(cluster, prefix):
    """A primary that does not have the store."""
    return next(node for node in cluster.nodes if node is not cluster.owner(prefix)
                and "master" in cluster.view(node)[node.id][0])


# ---- Where stores lie ----------------------------------------------------------------------------


def test_stores_lie_on_different_nodes_and_are_found_from_any(calm, tmp_path):
    by_node = prefixes_apart(calm, 3)
    for port, prefix in by_node.items():
        for i, node in enumerate(calm.nodes):  # replicas as well
            put = redrive("enqueue", "mail", f'{{"n": {i}}}', "--store", f"{node.url}?prefix={prefix}")
            assert put.returncode == 0, put.stderr
        keys = {node.port: node.call("EXISTS", "{" + prefix + "}:root") for node in calm.nodes}
        assert [at for at, found in keys.items() if found == "1"] == [port], keys
    for i, (port, prefix) in enumerate(by_node.items()):
        place = tmp_path / prefix
        place.mkdir()
        team = Fleet(place, f"{calm.url}?prefix={prefix}")
        assert len(team.jobs()) == len(calm.nodes), (i, port)
        team.close()


def test_work_is_heard_of_on_another_node(calm, tmp_path):
    """A worker that waits is woken by a commit, not by the clock."""
    prefix = "heard"
    fleet = Fleet(tmp_path, f"{elsewhere(calm, prefix).url}?prefix={prefix}")
    fleet.configure("tasks: {mail: {run: {exec: ['/bin/true']}}}\n")
    try:
        fleet.work()
        owner = calm.owner(prefix)
        wait_for(lambda: owner.call("PUBSUB", "NUMSUB", "{heard}:changed") == ["{heard}:changed", "1"], "the worker listens")
        fleet.submit("mail", [{}])
        wait_for(lambda: [job["state"] for job in fleet.jobs()] == ["completed"], "the job is done")
    finally:
        fleet.close()


def test_a_node_that_is_gone_is_passed_over(calm):
    for hosts in ("127.0.0.1:1,127.0.0.1:{}", "127.0.0.1:{},127.0.0.1:1"):
        url = "redis://" + hosts.format(calm.nodes[1].port) + "/0?prefix=several"
        put = redrive("enqueue", "mail", "{}", "--store", url)
        assert put.returncode == 0, put.stderr
    gone = redrive("enqueue", "mail", "{}", "--store", "redis://127.0.0.1:1,127.0.0.1:2?prefix=several")
    assert gone.returncode == 1 and "cannot reach" in gone.stderr, gone.stderr


def test_a_database_number_is_refused(calm):
    put = redrive("enqueue", "mail", "{}", "--store", f"{calm.url}/3")
    assert put.returncode != 0
    assert "database" in put.stderr and "hint: " in put.stderr and "prefix" in put.stderr, put.stderr


def test_what_a_fail_over_can_lose_is_said(calm):
    assert redrive("migrate", "--store", f"{calm.url}?prefix=told").returncode == 0
    said = redrive("doctor", "--store", f"{calm.url}?prefix=told").stdout
    assert "what a replica has not got when it becomes the primary" in said, said


@pytest.mark.parametrize("name", sorted(path.stem.removeprefix("test_") for path in CONFORMANCE.glob("test_*.c")
                                        if path.stem not in OF_NO_STORE))
def test_a_cluster_keeps_the_contract_of_a_store(calm, name):
    passes("store_tests", name, REDRIVE_TEST_STORE="redis", REDRIVE_TEST_REDIS=calm.url)


# ---- Under load ----------------------------------------------------------------------------------


def take_over(cluster, prefix):
    """The primary of a store dies, and a replica takes its place. When that was."""
    primary = cluster.owner(prefix)
    primary.kill()
    at = time.time()
    assert wait_for(lambda: cluster.owner(prefix), "a replica takes over") is not primary
    return at


def test_replica_takes_over_and_back_and_work_goes_on(durable, make_rig):
    """What was acknowledged in the last moments may be gone; what is there is whole."""
    prefix = "rig"
    rig = make_rig(f"{elsewhere(durable, prefix).url}?prefix={prefix}")
    killed = []

    def fail_over():
        killed.append(take_over(durable, prefix))

    def fail_back():
        rig.hold.touch()  # or there would be too much left in the end
        next(node for node in durable.nodes if not node.process).start()
        wait_for(durable.is_whole, "the old primary follows the new one")
        rig.hold.unlink()
        goes_on(rig)
        killed.append(take_over(durable, prefix))

    # An end that is lost would be waited for until the Faktory client's reservation is over.
    endure(rig, fail_over, fail_back, rig.take_back_lost_fetches, judge=False)
    invariants_hold(rig)
    there = {job["id"] for job in rig.store.jobs()}
    lost = [entry for entry in rig.written() if entry["event"] == "acknowledged" and entry["id"] not in there]
    assert all(any(abs(entry["at"] - at) < MOMENTS_S for at in killed) for entry in lost), lost


def test_replica_that_is_given_the_place_loses_nothing(durable, make_rig):
    """An operator's fail-over waits for the replica."""
    prefix = "rig"
    rig = make_rig(f"{durable.url}?prefix={prefix}")

    def hand_over():
        primary = durable.owner(prefix)
        replica = next(node for node in durable.nodes if primary.id in durable.masters(node))
        durable.hand_over(primary, replica)
        assert durable.owner(prefix) is replica

    endure(rig, hand_over)


def test_slot_is_moved_under_load_and_nothing_is_lost(durable, make_rig):
    prefix = "rig"
    rig = make_rig(f"{durable.url}?prefix={prefix}")

    def move():
        to = elsewhere(durable, prefix)
        assert durable.move(prefix, to) > 0
        assert durable.owner(prefix) is to

    def move_slowly():
        """So slowly that those who wait for it are told to try again."""
        assert durable.move(prefix, elsewhere(durable, prefix), midway=lambda: time.sleep(4)) > 0

    endure(rig, move, move_slowly)
