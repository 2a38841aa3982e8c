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


class Scene:
    """A server that runs no jobs, through which tests look at them, and a worker of the library."""

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
def scene(make_server, tmp_path):
    one = Scene(make_server, tmp_path)
    yield one
    one.close()


def test_leases_outlive_another_shard_that_hangs(scene):
    """The thread that extends leases does not wait for the worker's row, which is written every five seconds."""
    scene.work()
    since = time.monotonic()
    job = scene.started(scene.acme, "long")
    time.sleep(max(0, since + 4.5 - time.monotonic()))
    with scene.hanging():
        time.sleep(9)
        assert scene.acme.ok("GET", f"/jobs/{job}")["attempts"] == 1, scene.log()
    scene.ends(scene.acme, job, "completed")
    scene.stop()


def test_a_failure_on_a_shard_that_is_away_does_not_stop_its_function(scene):
    scene.work()
    held = scene.started(scene.hooli, "torn")
    scene.second.kill()
    wait_for(lambda: "settlement_failed" in scene.log(), scene.log)
    for job in [scene.acme.submit("torn") for _ in range(5)]:
        scene.ends(scene.acme, job, "completed")
    scene.second.start()
    scene.ends(scene.hooli, held, "retrying")
    scene.stop()


def test_a_run_of_a_shard_that_hangs_does_not_stop_its_function(scene):
    scene.work()
    held = scene.started(scene.hooli, "slow")
    with scene.hanging():
        time.sleep(3)
        since = time.monotonic()
        for job in [scene.acme.submit("slow") for _ in range(4)]:
            scene.ends(scene.acme, job, "completed")
        assert time.monotonic() - since < 15, scene.log()
    scene.ends(scene.hooli, held, "completed")
    scene.stop()


def test_a_worker_until_idle_gives_up_a_job_of_a_shard_that_is_away(scene):
    job = scene.hooli.submit("brief")
    scene.work("until-idle")
    wait_for(lambda: state_of(scene.hooli, job) == "running", scene.log)
    scene.second.kill()
    assert scene.worker.wait(LIMIT_S) == 1, scene.log()
    assert "settlement_lost" in scene.log() and "a shard is away" in scene.log()
