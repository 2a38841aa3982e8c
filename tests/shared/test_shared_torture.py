"""Servers and workers that share a store and are killed at any moment keep every promise they gave; and
the rig that says so notices when they do not."""
import re

import pytest

from tests.judge.events import counts
from tests.judge.planted import BUGS
from tests.judge.verdict import complaints
from tests.torture.rig import Rig
from tests.torture.sabotage import OF_SHARED

KILLS = 20
SERVERS = 2
WORKERS = 2


@pytest.fixture(scope="module")
def killed(durable, tmp_path_factory):
    """Servers and workers that were killed, and have come to their end since."""
    rig = Rig(seed=1, place=tmp_path_factory.mktemp("killed"), store=durable.url, servers=SERVERS, workers=WORKERS)
    rig.torture(KILLS)
    yield rig
    rig.close()


@pytest.fixture
def judge_after(tmp_path, make_server):
    """What is complained of after a sabotage."""
    made = []

    def judge(kind, name):
        made.append(Rig(seed=1, place=tmp_path, store=make_server(kind).url, servers=SERVERS, workers=0))
        made[-1].torture(4, OF_SHARED[kind][name])
        return made[-1].judge()

    yield judge
    for rig in made:
        rig.close()


def complains(found, sabotage):
    return any(re.search(sabotage.noticed, str(complaint)) for complaint in found)


def test_killed_servers_and_workers_keep_their_promises(killed):
    assert killed.judge() == []
    assert killed.kills >= KILLS


def test_all_were_at_it(killed):
    load = counts(killed.written())
    for interface in ("http", "faktory"):
        for event in ("acknowledged", "start", "settled"):
            assert load[interface, event] >= KILLS, load
    assert load[None, "start"] > 0, "servers and workers run jobs themselves"


@pytest.fixture(scope="module")
def history(killed):
    return killed.history()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_judge_notices_bugs_in_the_history(killed, history, bug):
    assert bug.kind in {found.kind for found in complaints(*bug.plant(history, killed.contract()))}


@pytest.mark.parametrize("kind, name", [(kind, name) for kind in sorted(OF_SHARED) for name in sorted(OF_SHARED[kind])])
def test_rig_notices_while_others_are_at_it(judge_after, kind, name):
    found = judge_after(kind, name)
    assert complains(found, OF_SHARED[kind][name]), found
