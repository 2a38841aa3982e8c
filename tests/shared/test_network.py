"""A worker is cut off from its store, in the middle of whatever it is doing. Others go on, have its jobs when
their leases are over, and it works again when the network is back, without a restart."""
import socket
import time

import pytest

from tests.kit.network import Cable, OpenPostgres, OpenRedis, Unavailable
from tests.kit.stores import start_or_skip
from tests.shared.load import goes_on, until
from tests.torture.rig import Rig

CUTS = 2
CUT_S = 4  # longer than the leases of the rig
BACK_S = 100  # a request to Redis whose answer is lost is given up after 30 s, and each may lose one


@pytest.fixture
def cable():
    try:
        made = Cable()
    except Unavailable as missing:
        pytest.skip(str(missing))
    yield made
    made.close()


@pytest.fixture(params=[OpenPostgres, OpenRedis], ids=["postgres", "redis"])
def server(request, cable):
    with start_or_skip(request.param, cable.here, durable=True) as made:
        yield made


def works(rig, worker):
    """How many jobs it has completed."""
    return sum(job["worker"] == worker and job["state"] == "completed" for job in rig.store.jobs())


@pytest.mark.slow
def test_worker_that_is_cut_off_harms_nobody_and_comes_back(server, cable, tmp_path):
    rig = Rig(seed=7, place=tmp_path, store=server.url, servers=1, workers=1)
    try:
        rig.begin()
        goes_on(rig)
        far = rig.start_process(cable.command(rig.command("--store", server.url_from(cable.here), "work")))
        name = f"{socket.gethostname()}:{far.pid}"
        assert until(rig, lambda: works(rig, name) > 3, 30), "it works"
        for _ in range(CUTS):
            before = works(rig, name)
            cable.pull()
            rig.stops += 1  # it may wake up with jobs that others have by now
            end = time.monotonic() + CUT_S
            goes_on(rig, 40)
            time.sleep(max(0, end - time.monotonic()))
            cable.plug()
            assert until(rig, lambda wanted=before + 3: works(rig, name) >= wanted, BACK_S), "it works again"
            goes_on(rig)
        rig.end(far)
        rig.drain()
        assert rig.judge() == []
    finally:
        rig.close()
