"""Nothing starts before its time, to the millisecond, though a process knows the time of its store's server only from answers
that were under way for a while. Server and clients are on one machine: they have one clock."""
import concurrent.futures
import datetime
import itertools
import subprocess
import threading
import time

import pytest

from tests.kit.delay import DelayProxy
from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.fleet import Client, run_noting

ROUND_TRIP_MS = 40  # of the network before the store: each answer is half of it old, and half of it late
DELAY_S = 2
BACKOFF_S = 0.5
CLIENTS = 4
EACH = 50  # delayed jobs of a client
BY_COMMAND = 4
FAILING = 8

TASKS = """tasks:
  job: {lease: 30s, PROCESSES}
  failing:
    queue: mine
    retry: {max_attempts: 50, strategy: fixed, initial_delay: 500ms, jitter: false}
    breaker: {failure_threshold: 0, failure_rate: 0}
"""


@pytest.fixture(params=["near", "far"])
def store_fleet(request, fleet, quick):
    """Processes next to their store, and behind a network."""
    if request.param == "near":
        yield fleet
        return
    with DelayProxy(quick, round_trip_ms=ROUND_TRIP_MS) as network:
        fleet.url = network.through(fleet.url)
        yield fleet
        fleet.close()


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def submit_delayed(server):
    """Some jobs with a delay, over HTTP; when each was asked for."""
    client, asked = Client(server), {}
    for _ in range(EACH):
        before = time.time()
        status, body, _ = client.ask("POST", "/jobs", {"task": "job", "payload": {}, "delay": DELAY_S})
        assert status == 201, body
        asked[body["id"]] = before
    return asked


def submit_by_command(fleet, server=None):
    """The same by `redrive enqueue`, on the store or by way of a server."""
    where = ["--server", f"http://127.0.0.1:{server.port()}"] if server else ["-c", str(fleet.config)]
    asked = {}
    for _ in range(BY_COMMAND):
        before = time.time()
        done = subprocess.run([str(BINARY), "enqueue", "job", "{}", "--delay", f"{DELAY_S}s", *where], stdin=subprocess.DEVNULL,
                              text=True, capture_output=True, env=environment(), timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        asked[done.stdout.strip()] = before
    return asked


def submit_load(server, is_over):
    """Jobs that are ready at once; when each was asked for."""
    client, asked = Client(server), {}
    while not is_over.is_set():
        before = time.time()
        status, body, _ = client.ask("POST", "/jobs", [{"task": "job", "payload": {}}] * 20)
        assert status in (200, 201), body
        asked.update((item["id"], before) for item in body["items"])
        is_over.wait(0.1)
    return asked


def under_load(server, *calls):
    """What the calls return, made side by side and beside other jobs."""
    is_over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(len(calls) + 1) as pool:
        load = pool.submit(submit_load, server, is_over)
        results = [pool.submit(call, *words) for call, *words in calls]
        try:
            taken = [result.result(LIMIT_S) for result in results]
        finally:
            is_over.set()
        return taken, load.result(LIMIT_S)


def test_no_delayed_job_starts_before_its_time(store_fleet):
    fleet = store_fleet
    fleet.configure(TASKS.replace("PROCESSES", run_noting(2)))
    server = fleet.serve()
    fleet.work()
    taken, load = under_load(server, *[(submit_delayed, server)] * CLIENTS, (submit_by_command, fleet),
                             (submit_by_command, fleet, server))
    delayed = dict(itertools.chain.from_iterable(one.items() for one in taken))
    assert len(delayed) == CLIENTS * EACH + 2 * BY_COMMAND
    wait_for(lambda: len(fleet.seen("end")) == len(delayed) + len(load), lambda: f"{len(fleet.seen('end'))} ends")

    due = {job["id"]: moment(job["process_after"]) for job in fleet.jobs()}
    begun = {job["id"]: moment(job["started_at"]) for job in fleet.jobs()}
    starts = {entry["id"]: entry["at"] for entry in fleet.seen("start")}
    early = [f"{job}: {1000 * (before + DELAY_S - due[job]):.3f} ms" for job, before in delayed.items() if due[job] < before + DELAY_S]
    assert not early, f"{len(early)} times before the delay is over: {early[:5]}"
    early = [f"{job}: {1000 * (due[job] - at):.3f} ms" for job, at in starts.items() if at < due[job]]
    assert not early, f"{len(early)} starts before their time: {early[:5]}"
    early = [f"{job}: {1000 * (due[job] - at):.0f} ms" for job, at in begun.items() if at < due[job]]
    assert not early, f"{len(early)} starts that the store has before their time: {early[:5]}"
    # What has no delay waits for none: its time is not later than its answer was.
    late = [job for job in load if due[job] > starts[job]]
    assert not late


def test_a_failed_attempt_waits_for_all_of_its_delay(store_fleet):
    fleet = store_fleet
    fleet.configure(TASKS.replace("PROCESSES", run_noting(1)))
    server = fleet.serve()
    client = Client(server)
    status, body, _ = client.ask("POST", "/jobs", [{"task": "failing", "payload": {}}] * FAILING)
    assert status in (200, 201), body

    def fail_all():
        told = {}
        for _ in range(FAILING):
            asked = time.time()
            for job in wait_for(lambda: client.claim(queue="mine", lease=5), "a job to claim"):
                assert moment(job["lease_until"]) >= asked + 5, "a lease is as long as was asked for"
                failed = time.time()
                code, answer, _ = client.ask("POST", "/settle", {"items": [
                    {"id": job["id"], "token": job["token"], "status": "TRANSIENT_FAIL"}]})
                assert code == 200 and answer["items"][0]["state"] == "retrying", answer
                told[job["id"]] = again = moment(answer["items"][0]["process_after"])
                assert again >= failed + BACKOFF_S, f"{1000 * (failed + BACKOFF_S - again):.3f} ms early"
        return told

    (told,), _ = under_load(server, (fail_all,))
    due = {job["id"]: moment(job["process_after"]) for job in fleet.jobs() if job["id"] in told}
    assert due == told, "the answer says what the store has"
