"""A worker of the C library (tests/lib/queue_worker.c) while one of two shards fails; acme is on the first shard, hooli on
the second."""
import contextlib
import signal
import subprocess
import time

import pytest

from tests.kit.program import BUILD, environment
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.sharded import Place, state_of


class TwoShards:
    """Two shards, a server that runs no jobs, through which tests look at them, and a worker of the library."""

    def __init__(self, make_server, folder):
        first, self.second = (make_server("redis", durable=True) for _ in range(2))
        self.place = Place(folder, [first.url, self.second.url])
        self.log_path = folder / "worker.log"
        self.server = self.place.serve("--no-work").ready()
        self.acme, self.hooli = self.place.api(self.server, "acme"), self.place.api(self.server, "hooli")
        self.worker = None

    def log(self):
        return self.log_path.read_text("utf-8")

    def work(self, *words):
        self.worker = subprocess.Popen([str(BUILD / "tests/lib/queue_worker"), str(self.place.config), *words],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=open(self.log_path, "wb"), env=environment())

    def started(self, api, task):
        """A job that runs."""
        job = api.submit(task)
        wait_for(lambda: state_of(api, job) == "running", self.log)
        return job

    def ends(self, api, job, state):
        """Waits for it; at the first attempt."""
        wait_for(lambda: state_of(api, job) == state, self.log)
        assert api.ok("GET", f"/jobs/{job}")["attempts"] == 1, self.log()

    @contextlib.contextmanager
    def hanging(self):
        self.second.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.second.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.worker.send_signal(signal.SIGTERM)
        assert self.worker.wait(LIMIT_S) == 0, self.log()

    def close(self):
        if self.worker and self.worker.poll() is None:
            self.worker.kill()
            self.worker.wait()
        self.place.close()


@pytest.fixture
def two_shards(make_server, tmp_path):
    one = TwoShards(make_server, tmp_path)
    yield one
    one.close()


def test_leases_outlive_another_shard_that_hangs(two_shards):
    """The thread that extends leases does not wait for the worker's row, which is written every five seconds: the shard is
    known to hang five seconds later, when a lease that is not extended has ended."""
    two_shards.work()
    since = time.monotonic()
    job = two_shards.started(two_shards.acme, "long")
    time.sleep(max(0, since + 4.5 - time.monotonic()))
    with two_shards.hanging():
        time.sleep(9)
        assert two_shards.acme.ok("GET", f"/jobs/{job}")["attempts"] == 1, two_shards.log()
    two_shards.ends(two_shards.acme, job, "completed")
    two_shards.stop()


def test_a_failure_on_a_shard_that_is_away_does_not_stop_its_function(two_shards):
    two_shards.work()
    held = two_shards.started(two_shards.hooli, "torn")
    two_shards.second.kill()
    wait_for(lambda: "settlement_failed" in two_shards.log(), two_shards.log)
    for job in [two_shards.acme.submit("torn") for _ in range(5)]:
        two_shards.ends(two_shards.acme, job, "completed")
    two_shards.second.start()
    two_shards.ends(two_shards.hooli, held, "retrying")
    two_shards.stop()


def test_a_run_of_a_shard_that_hangs_does_not_stop_its_function(two_shards):
    two_shards.work()
    held = two_shards.started(two_shards.hooli, "slow")
    with two_shards.hanging():
        time.sleep(3)
        since = time.monotonic()
        for job in [two_shards.acme.submit("slow") for _ in range(4)]:
            two_shards.ends(two_shards.acme, job, "completed")
        assert time.monotonic() - since < 24, two_shards.log()  # the settlement on the shard is given up after 30 s
    two_shards.ends(two_shards.hooli, held, "completed")
    two_shards.stop()


def test_a_worker_until_idle_gives_up_a_job_of_a_shard_that_is_away(two_shards):
    job = two_shards.hooli.submit("brief")
    two_shards.work("until-idle")
    wait_for(lambda: state_of(two_shards.hooli, job) == "running", two_shards.log)
    two_shards.second.kill()
    assert two_shards.worker.wait(LIMIT_S) == 1, two_shards.log()
    assert "settlement_lost" in two_shards.log() and "a shard is away" in two_shards.log()
