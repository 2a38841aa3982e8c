"""Servers that are killed under load keep every promise that they gave their clients; and the rig that
says so notices when they do not."""
import re

import pytest

from tests.judge.events import counts
from tests.judge.planted import BUGS
from tests.judge.verdict import complaints
from tests.torture.rig import Rig
from tests.torture.sabotage import OF_SERVERS
from tests.torture.stores import AnyStore, history_of

KILLS = 20


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A server that was killed, and has come to its end since."""
    rig = Rig(seed=1, place=tmp_path_factory.mktemp("killed"), servers=1, workers=0)
    rig.torture(KILLS)
    yield rig
    rig.close()


@pytest.fixture
def make_rig(request, tmp_path):
    made = []

    def make(**size):
        made.append(Rig(seed=request.node.nodeid, place=tmp_path, **size))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


def complains(found, sabotage):
    return any(re.search(sabotage.noticed, str(complaint)) for complaint in found)


def test_killed_server_keeps_its_promises(killed):
    assert killed.judge() == []
    assert killed.kills >= KILLS


def test_clients_were_at_it_all_the_time(killed):
    load = counts(killed.written())
    for interface in ("http", "faktory"):
        for event in ("acknowledged", "start", "settled"):
            assert load[interface, event] >= KILLS, load
        assert load[interface, "end:TRANSIENT_FAIL"] > 0
    assert load[None, "start"] > 0, "the server runs jobs itself"


def test_any_store_can_be_read_through_the_program(killed):
    """As the file that this one is says it, but for the first attempt that was a success, which has no row; a job
    that was put off or given back has rows before it, of no attempt."""
    program = AnyStore(killed.store.url, killed.command())
    jobs = killed.store.jobs()
    assert sorted((job["id"], job["state"], job["attempts"], job["queue"]) for job in program.jobs()) == \
        sorted((job["id"], job["state"], job["attempts"], job["queue"]) for job in jobs)
    assert program.live() == killed.store.live() == []
    ids = [job["id"] for job in jobs]
    ours, theirs = killed.store.attempts(ids), program.attempts(ids)
    for i in ids:
        if all(row["number"] == 0 for row in ours[i]):
            last = theirs[i].pop()
            assert (last["number"], last["outcome"]) == (1, "completed")
        assert ours[i] == theirs[i]
    assert complaints(history_of(program, killed.written()), killed.contract()) == []


@pytest.fixture(scope="module")
def history(killed):
    return killed.history()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_judge_notices_bugs_in_the_history(killed, history, bug):
    assert bug.kind in {found.kind for found in complaints(*bug.plant(history, killed.contract()))}


@pytest.mark.parametrize("kind", sorted(OF_SERVERS))
def test_rig_notices_while_servers_are_killed(make_rig, kind):
    rig = make_rig(servers=1, workers=0)
    rig.torture(4, OF_SERVERS[kind])
    found = rig.judge()
    assert complains(found, OF_SERVERS[kind]), found


def test_killed_server_and_workers_share_a_store(make_rig):
    rig = make_rig(servers=1, workers=2)
    rig.torture(8)
    assert rig.judge() == []
