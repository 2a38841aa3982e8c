"""What processes on one store agree upon: ticks, breakers, limits, pauses, and who is dead."""
import datetime
import json
import signal
import statistics
import threading
import time

from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.fleet import Client, run_noting
from tests.shared.load import settled
from tests.torture.rig import Rig

REMOTE_BREAKER = """
tasks:
  call:
    retry: {strategy: fixed, initial_delay: 10ms, min_delay: 10ms, jitter: none, max_attempts: 50, total_timeout: 0}
    breaker: {failure_threshold: 3, recovery_timeout: RECOVERY, recovery_jitter: 0, half_open_max: 2, success_threshold: 2,
              release_rate: 10, release_growth: 0}
"""


EIGHT = 8  # processes that want the same thing


def most_at_once(fleet):
    """How many jobs were run at one time, by the clock of the handlers."""
    running = most = 0
    events = sorted([(e["at"], 1) for e in fleet.seen("start")] + [(e["at"], -1) for e in fleet.seen("end")])
    for _, step in events:
        running += step
        most = max(most, running)
    return most


def all_completed(fleet, n):
    wait_for(lambda: len(fleet.seen("end")) >= n, lambda: f"{n} ends; there are {len(fleet.seen('end'))}")
    wait_for(lambda: not fleet.jobs("queued", "running", "parked", "retrying", "scheduled"),
             "all have ended")
    ids = [entry["id"] for entry in fleet.seen("end")]
    assert len(ids) == len(set(ids)) == n


# ---- Setting up ----------------------------------------------------------------------------------


def test_empty_store_is_set_up_by_many_at_once(fleet):
    for _ in range(6):
        fleet.serve()
    for server in fleet.servers:
        server.ready()
        assert server.stop() == 0


# ---- Cron entries ---------------------------------------------------------------------------------


ENTRIES = 8
ROUNDS = 3


def move_marks(fleet, quick, to_ms):
    """As if the last tick of every entry had been at that time."""
    if quick.name == "postgres":
        database = fleet.url.rsplit("/", maxsplit=1)[1]
        quick.sql(f"""UPDATE redrive.shared SET version = version + 1, value = convert_to(regexp_replace(
                          convert_from(value, 'UTF8'), '"last_tick_ms":[0-9]+', '"last_tick_ms":{to_ms}'), 'UTF8')
                      WHERE kind = 4; UPDATE redrive.shared_version SET version = version + 1""", database)
    else:
        prefix = "{" + fleet.url.rsplit("=", maxsplit=1)[1] + "}:"
        # A script is a commit of its own.
        change = f"""local rows = redis.call('HGETALL', '{prefix}s:4')
            for i = 1, #rows, 2 do
                local version, json = string.match(rows[i + 1], '^(%d+) (.*)$')
                json = string.gsub(json, '"last_tick_ms":%d+', '"last_tick_ms":{to_ms}')
                redis.call('HSET', '{prefix}s:4', rows[i], (version + 1) .. ' ' .. json)
            end
            redis.call('HINCRBY', '{prefix}root', 'commits', 1)
            return redis.call('HINCRBY', '{prefix}root', 'shared', 1)"""
        assert int(quick.call("EVAL", change, 0)) > 0


def ticks(fleet):
    jobs = [job for job in fleet.jobs() if job["task"] == "store_status"]
    return sorted(json.loads(job["payload"])["entry"] if isinstance(job["payload"], str) else job["payload"]["entry"]
                  for job in jobs)


def test_each_tick_is_made_once_by_three_servers(fleet, quick):
    now = datetime.datetime.now(datetime.timezone.utc)
    minute = (now.minute - 5) % 60  # the next one is most of an hour away
    entries = [f"entry-{i}" for i in range(ENTRIES)]
    fleet.configure("tasks: {store_status: {}, wake: {}}\ncron:\n" + "".join(
        f"  {name}: {{task: store_status, schedule: '{minute} * * * *', overlap: allow, payload: {{entry: {name}}}}}\n" for name in entries))
    for _ in range(3):
        fleet.serve().ready()
    for done in range(1, ROUNDS + 1):
        move_marks(fleet, quick, int((now.timestamp() - 3 * 3600) * 1000))
        expected = sorted(entries * done)

        def all_ticked(wanted=expected):
            fleet.enqueue("wake")  # whoever sleeps hears of it
            found = ticks(fleet)
            assert len(found) <= len(wanted), found
            return found == wanted

        wait_for(all_ticked, lambda: f"ticks: {ticks(fleet)}")
    for server in fleet.servers:
        assert server.stop() == 0
    assert ticks(fleet) == sorted(entries * ROUNDS)


# ---- Breakers ------------------------------------------------------------------------------------


def claim_at_once(clients, until, enough):
    """All of them claim one job after the other until the time has come or there are enough; (time, client,
    job) of each."""
    taken = []

    def go(client):
        while time.monotonic() < until and len(taken) < enough:
            taken.extend((time.monotonic(), client, job) for job in client.claim(1))

    threads = [threading.Thread(target=go, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def test_breaker_holds_for_all_processes(fleet):
    # So long that all of them have asked before it is over.
    fleet.configure(REMOTE_BREAKER.replace("RECOVERY", "5s"))
    clients = [Client(fleet.serve("--no-work").ready()) for _ in range(EIGHT)]
    fleet.submit("call", [{}] * 40)
    first, second = clients[:2]

    failing = first.claim(3)
    assert len(failing) == 3
    opened = time.monotonic()
    first.settle(failing, "network")
    assert second.claim(10) == [], "opened in one process, it is open in all"
    assert len(fleet.jobs("parked")) >= 10

    # Two probes over all, however many ask and however long.
    probes = claim_at_once(clients, opened + LIMIT_S, 2)
    probes += claim_at_once(clients, time.monotonic() + 0.5, 1000)
    assert len(probes) == 2, probes
    assert min(at for at, _, _ in probes) >= opened + 4.95

    # It closes, and lets ten a second go, over all. They may be claimed long after that, and then many at once, but
    # not before: at no time have more been claimed than can have been let go.
    closed = time.monotonic()
    for _, client, job in probes:
        client.settle([job])
    claimed = sorted(claim_at_once(clients, closed + LIMIT_S, 25), key=lambda claim: claim[0])
    assert len(claimed) >= 25
    for n, (at, _, _) in enumerate(claimed, start=1):
        assert n <= 6 + 10 * (at - closed), f"{n} jobs were let go within {at - closed:.2f} s"
    assert len({job["id"] for _, _, job in claimed}) == len(claimed)


def test_eight_processes_send_one_probe_at_a_time(fleet):
    fleet.configure(REMOTE_BREAKER.replace("RECOVERY", "1s").replace("half_open_max: 2", "half_open_max: 1"))
    clients = [Client(fleet.serve("--no-work").ready()) for _ in range(EIGHT)]
    fleet.submit("call", [{}] * 20)
    failing = clients[0].claim(3)
    opened = time.monotonic()
    clients[0].settle(failing, "network")
    for round_ in range(3):
        probes = claim_at_once(clients, opened + LIMIT_S, 1)
        probes += claim_at_once(clients, time.monotonic() + 0.6, 1000)
        assert len(probes) == 1, (round_, probes)
        _, client, job = probes[0]
        opened = time.monotonic()
        client.settle([job], "network")  # and it opens again


# ---- Limits --------------------------------------------------------------------------------------


def test_concurrency_is_limited_over_all_processes(fleet):
    fleet.configure("tasks:\n  slow: {limits: {concurrency: 3}, " + run_noting(4) + "}\n")
    fleet.work()
    fleet.work()
    submitted = 0

    def both_have_worked():  # whoever settles a job is the first to see that there is room for one
        nonlocal submitted
        fleet.submit("slow", [{"sleep": 0.05}] * 40)
        submitted += 40
        all_completed(fleet, submitted)
        return len({entry["pid"] for entry in fleet.seen("start")}) > 4

    wait_for(both_have_worked, "both have worked")
    assert most_at_once(fleet) == 3


def test_rate_is_limited_over_all_processes(fleet):
    fleet.configure("tasks:\n  paced: {limits: {rate: 10/s, burst: 5}, " + run_noting(4) + "}\n")
    fleet.work()
    fleet.work()
    fleet.submit("paced", [{}] * 25)
    all_completed(fleet, 25)
    # Handlers may take a while to start; the store's own clock has the moment of the claim.
    starts = sorted(datetime.datetime.fromisoformat(job["started_at"]).timestamp() for job in fleet.jobs())
    for i, earlier in enumerate(starts):
        for n, later in enumerate(starts[i:], start=1):
            assert n <= 5 + 10 * (later - earlier) + 1.1, f"{n} jobs started within {later - earlier:.3f} s"
    assert starts[-1] - starts[0] >= 1.5


def test_eight_processes_keep_to_a_limit_of_one(fleet):
    """And each end of a job is soon followed by the next start: not by a look of somebody once a second. A busy machine
    holds up some of them, and not half."""
    fleet.configure("tasks:\n  alone: {limits: {concurrency: 1}, " + run_noting(1) + "}\n")
    for _ in range(EIGHT):
        fleet.work()
    fleet.submit("alone", [{"sleep": 0.01}] * 60)
    all_completed(fleet, 60)
    assert most_at_once(fleet) == 1
    starts = sorted(entry["at"] for entry in fleet.seen("start"))
    ends = sorted(entry["at"] for entry in fleet.seen("end"))
    gap = statistics.median(start - end for end, start in zip(ends, starts[1:]))
    assert gap < 0.75, f"the next job starts {gap:.2f} s after the end of one"


def test_eight_processes_on_one_rate_get_on(fleet):
    """All of them change the same row with each claim: whoever comes second tries again, and none of them
    goes without for long. A busy machine holds up some jobs: those that came fastest are looked at."""
    fleet.configure("tasks:\n  paced: {limits: {rate: 100/s, burst: 20}, " + run_noting(2) + "}\n")
    for _ in range(EIGHT):
        fleet.work()
    fleet.submit("paced", [{"sleep": 0.02}] * 600)
    all_completed(fleet, 600)
    starts = sorted(datetime.datetime.fromisoformat(job["started_at"]).timestamp() for job in fleet.jobs())
    assert starts[-1] - starts[0] >= 4.5
    took = min(later - earlier for earlier, later in zip(starts, starts[100:]))
    assert took < 7.5, f"100 jobs at 100 a second took {took:.1f} s"
    assert len({entry["pid"] for entry in fleet.seen("start")}) > EIGHT, "more than half of the slots have worked"


# ---- Pauses --------------------------------------------------------------------------------------


def test_pause_by_one_process_stops_the_others(fleet):
    """Within a second, or ten on a busy machine: all jobs would take fifty."""
    fleet.configure("tasks:\n  short: {" + run_noting(2) + "}\n")
    fleet.work()
    fleet.work()
    fleet.submit("short", [{"sleep": 0.5}] * 400)
    wait_for(lambda: len({entry["pid"] for entry in fleet.seen("start")}) == 4, "both work")
    assert fleet.redrive("queues", "pause", "default").returncode == 0
    paused = time.time()
    wait_for(lambda: not fleet.jobs("running"), "the jobs that were under way")
    late = [job["id"] for job in fleet.jobs()
            if job["started_at"] and datetime.datetime.fromisoformat(job["started_at"]).timestamp() > paused + 10]
    assert late == []
    before = len(fleet.seen("start"))
    assert 0 < before < 400
    assert fleet.redrive("queues", "resume", "default").returncode == 0
    wait_for(lambda: len(fleet.seen("end")) >= before + 4, "they go on")


# ---- Deaths --------------------------------------------------------------------------------------


def test_jobs_of_a_killed_worker_come_back_after_their_lease(fleet):
    fleet.configure("tasks:\n  long: {lease: 6s, heartbeat: 300ms, " + run_noting(2) + "}\n")
    dying = fleet.work()
    submitted = time.time()
    jobs = fleet.submit("long", [{"sleep": 3}] * 2)
    wait_for(lambda: len(fleet.seen("start")) == 2, "both run")
    dying.kill()
    fleet.work()
    wait_for(lambda: len(fleet.seen("start")) == 4, "they run again")
    again = fleet.seen("start")[2:]
    assert {entry["id"] for entry in again} == set(jobs)
    assert all(entry["attempt"] == 2 for entry in again)
    # They were claimed after they had been submitted; how long after, a loaded machine decides.
    assert all(entry["at"] >= submitted + 6 for entry in again), "not before their lease was over"


def test_rolling_restart_loses_nothing(durable, tmp_path):
    """Two servers are stopped in good order and started again in turn; clients go on with the other one."""
    rig = Rig(seed=3, place=tmp_path, store=durable.url, servers=2, workers=0)
    try:
        rig.begin()
        for i, member in enumerate(rig.members * 2, start=1):
            rig.let_clients_work(member)
            assert rig.wait_for(lambda wanted=6 * i: settled(rig) >= wanted, LIMIT_S)
            rig.end(member.process)
            member.process = rig.start(*member.words)
        rig.drain()
        assert rig.judge() == []
        assert settled(rig) >= 24
    finally:
        rig.close()


def test_a_stop_waits_only_for_jobs_that_are_still_held(fleet):
    """One is settled at another server, of which the first one hears nothing but from the store; one is held."""
    fleet.configure()
    first, other = fleet.serve("--grace", "1h").ready(), fleet.serve().ready()
    fleet.submit("mail", [{}] * 2)
    gone, held = Client(first).claim(n=2, lease=600)
    Client(other).settle([gone])
    still_here = Client(first)
    first.signal(signal.SIGTERM)
    wait_for(lambda: still_here.ask("GET", "/ready")[0] == 503, "it is not ready")
    time.sleep(0.5)  # longer than between two questions to the store: it is still there for the other job
    assert still_here.ask("GET", f"/jobs/{held['id']}")[1]["state"] == "running"
    Client(other).settle([held])
    assert first.wait() == 0


# ---- Metrics -------------------------------------------------------------------------------------

def test_servers_export_the_same_figures_of_the_store_and_their_own_histograms(fleet):
    """So that a maximum over servers counts each job once, and a sum over histograms too."""
    fleet.configure("tasks: {quick: {run: {exec: ['true']}}}\n")
    servers = [fleet.serve().ready() for _ in range(2)]
    fleet.submit("quick", [{}] * 20)
    for server in servers:
        wait_for(lambda: server.metrics_sum("redrive_jobs_finished_total", outcome="completed") == 20, "all jobs")
        assert server.metrics_sum("redrive_attempts_started_total") == 20
        assert server.metrics_sum("redrive_jobs", state="completed") == 20
    for name in ("redrive_attempt_duration_seconds_count", "redrive_queue_wait_seconds_count"):
        assert sum(server.metrics_sum(name, task="quick") for server in servers) == 20
