"""Workers and batches that are killed at any moment lose nothing, repeat nothing that has ended,
and start nothing early; and the rig that says so notices when it is not true."""
import re

import pytest

from tests.torture.rig import Rig
from tests.torture.sabotage import OF_WORKERS

KILLS = 20


@pytest.fixture
def rig(request, tmp_path):
    made = Rig(seed=request.node.nodeid, place=tmp_path)
    yield made
    made.close()


def test_killed_workers_lose_and_repeat_nothing(rig):
    rig.submit(20)
    rig.submit_lines(300)
    rig.torture(KILLS)
    assert rig.judge() == []
    assert rig.kills >= KILLS


def test_killed_batches_lose_and_repeat_nothing(rig):
    rig.torture_batch(KILLS)
    assert rig.judge() == []
    assert rig.kills >= KILLS


@pytest.mark.parametrize("kind", sorted(OF_WORKERS))
def test_rig_notices(rig, kind):
    rig.submit_lines(150)
    rig.torture(3, OF_WORKERS[kind])
    found = rig.judge()
    assert any(re.search(OF_WORKERS[kind].noticed, str(complaint)) for complaint in found), found
