"""Workers and batches that are killed at any moment lose nothing, repeat nothing that has ended,
and start nothing early; and the rig that says so notices when it is not true."""
import re

import pytest

from tests.torture.evidence import Evidence, wrong_attempts
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
    assert any(re.search(OF_WORKERS[kind].noticed, complaint) for complaint in found), found


class Told:
    """A store with one job of three attempts, the second of which ended with this error."""

    def __init__(self, error):
        self.error = error

    def jobs(self):
        return [{"id": "a", "attempts": 3, "max_attempts": 5}]

    def attempts(self, _):
        return {"a": [{"number": number, "error": self.error if number == 2 else None} for number in (1, 2, 3)]}

    def figures(self):
        return {}

    def health(self):
        return None


@pytest.mark.parametrize("error, complaints", [("LeaseExpired", []), ("Refused", ["a: attempts out of order: [1, 3, 2]"])])
def test_only_an_attempt_that_has_lost_its_lease_may_start_late(error, complaints):
    log = [{"event": "start", "id": "a", "attempt": number} for number in (1, 3, 2)]
    assert list(wrong_attempts(Evidence(Told(error), log), stops=0)) == complaints
