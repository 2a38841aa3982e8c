"""SIGHUP while work is under way: what the former configuration has begun ends well."""

import json
import time

import pytest

from serve_kit import Bench, wait_for

GATED = """
tasks:
  gated:
    run: {concurrency: SLOTS, exec: [sh, -c, 'touch DIR/begun; while [ ! -e DIR/gate ]; do sleep 0.05; done']}
"""


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    yield one
    one.close()


def test_worker_is_listed_while_the_jobs_of_the_former_configuration_end(bench):
    """One row has the name of both: it is that of the new configuration."""

    def slots():
        return [worker["slots"] for worker in json.loads(server.get("/v1/workers")[1])["items"]]

    bench.configure(GATED.replace("SLOTS", "2"))
    server = bench.serve().ready()
    job = bench.enqueue("gated")
    wait_for((bench.dir / "begun").exists, "the job starts")
    bench.configure(GATED.replace("SLOTS", "3"))
    server.reload()
    wait_for(lambda: slots() == [3], "the new configuration's row")
    (bench.dir / "gate").touch()
    wait_for(lambda: bench.state(job) == "completed", "the job ends")
    until = time.monotonic() + 2  # less than a row's period: one that were removed would be missed
    while time.monotonic() < until:
        assert slots() == [3]
        time.sleep(0.05)
    assert server.stop() == 0
