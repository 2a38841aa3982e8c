"""An application's transaction that stays open on PostgreSQL, and a server that has other callers as well."""
import concurrent.futures
import contextlib
import random
import statistics
import subprocess
import threading
import time

import pytest

from tests.kit.servers import find_postgres
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.fleet import Client, Fleet

# For so long the server tries an operation that needs a lock (src/engine/waits/aside.h).
ASIDE_S = 5


class Session:
    """psql, whose transaction stays open from one statement to the next."""

    def __init__(self, server):
        self.process = subprocess.Popen(
            [find_postgres("psql"), "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p", str(server.port), "-U",
             server.superuser, "-d", "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def sql(self, text):
        self.process.stdin.write(f"{text};\n\\echo the end\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "the end\n":
                return "".join(lines).strip()
            lines.append(line)
        raise AssertionError(f"psql is gone: {lines}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(LIMIT_S)
        self.process.stdout.close()


@pytest.fixture
def place(tmp_path):
    """A PostgreSQL server, a fleet with one server, and a session of an application."""
    with start_or_skip("postgres") as database:
        fleet = Fleet(tmp_path, database.url)
        fleet.configure()
        session = None
        try:
            fleet.serve().ready()
            session = Session(database)
            yield database, fleet, session
        finally:
            if session:
                session.close()
            fleet.close()


def timed(call, *words):
    since = time.monotonic()
    answer = call(*words)
    return time.monotonic() - since, answer


def work_for(seconds, server, queue):
    """Submits, claims and settles in a loop: how long each claim and settle took."""
    client = Client(server)
    took = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        status, body, _ = client.ask("POST", "/jobs", {"task": "other", "queue": queue, "payload": {}})
        assert status in (200, 201, 202), body
        seconds, jobs = timed(client.claim, 1, queue)
        took.append(seconds)
        if jobs:
            took.append(timed(client.settle, jobs)[0])
    return took


def work_on_both(seconds, servers):
    """What work_for says of each of two servers, at the same time: what slows the machine down slows both of them."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(work_for, [seconds] * 2, servers, ["others", "control"]))


@contextlib.contextmanager
def repeating(server, body, n=1):
    """Clients that submit a job again and again; their answers."""
    answers, stops = [], threading.Event()

    def repeat():
        client = Client(server)
        while not stops.is_set():
            answers.append(client.ask("POST", "/jobs", body)[:2])

    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        ends = [pool.submit(repeat) for _ in range(n)]
        try:
            yield answers
        finally:
            stops.set()
            for end in ends:
                end.result()


@pytest.mark.parametrize("field,n", [("id", 1), ("unique_key", 1), ("id", 20)])
def test_claims_and_settles_go_on_while_a_submit_waits_for_an_open_transaction(place, field, n):
    database, fleet, session = place
    server, _ = servers = fleet.servers[0], fleet.serve().ready()
    work_on_both(1, servers)
    session.sql("BEGIN")
    session.sql(f"SELECT redrive.submit('mail', '{{}}', {field} => 'taken')")
    with repeating(server, {"task": "mail", "payload": {}, field: "taken"}, n) as answers:
        took, control = work_on_both(ASIDE_S + 2, servers)
        wait_for(lambda: len(answers) >= n, "the submits are answered")
        refused = list(answers)
        session.sql("ROLLBACK")
    for status, body in refused:
        assert status == 503, body
        assert "still open" in str(body) and "pg_stat_activity" in str(body), body
    # As long as the submit waited, a claim took 4.7 s and more.
    assert max(took) < max(ASIDE_S / 2, *control), sorted(took)[-5:]
    assert statistics.median(took) < 5 * statistics.median(control), (statistics.median(took), statistics.median(control))
    assert len(took) > len(control) / 3, (len(took), len(control))
    assert database.sql("SELECT count(*) FROM redrive.jobs WHERE type = 'mail'") == "1"


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_submit_that_waits_is_answered_once_the_transaction_ends(place, end):
    database, fleet, session = place
    client = Client(fleet.servers[0])
    session.sql("BEGIN")
    session.sql("SELECT redrive.submit('mail', '{}', id => 'one')")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        submits = [pool.submit(Client(fleet.servers[0]).ask, "POST", "/jobs", {"task": "mail", "payload": {}, "id": "one"})
                   for _ in range(4)]
        assert client.claim() == []
        assert not any(submit.done() for submit in submits)
        session.sql(end)
        answers = [submit.result() for submit in submits]
    assert all(status in (200, 201, 202) and body["id"] == "one" for status, body, _ in answers), answers
    assert database.sql("SELECT count(*) FROM redrive.jobs") == "1"


def test_a_task_that_an_open_transaction_is_the_first_to_name_is_no_lock(place):
    database, fleet, session = place
    server = fleet.servers[0]
    client = Client(server)
    for _ in range(2):
        client.ask("POST", "/jobs", {"task": "other", "payload": {}})  # the tenant is there
    session.sql("BEGIN")
    session.sql("SELECT redrive.submit('fresh', '{}')")
    status, body, _ = client.ask("POST", "/jobs", {"task": "fresh", "payload": {}})  # one that waits is refused: 503
    assert status in (200, 201, 202), body
    session.sql("SELECT redrive.submit('fresh', '{}')")
    session.sql("COMMIT")
    wait_for(lambda: database.sql("SELECT queued FROM redrive.job_counts WHERE task_name = 'fresh'") == "3", "all are there")
    jobs = [job for _ in range(5) for job in client.claim(10)]
    assert sorted(job["task"] for job in jobs) == ["fresh"] * 3 + ["other"] * 2
    client.settle(jobs)
    assert fleet.redrive("doctor").returncode == 0


def test_a_server_that_is_told_to_stop_does_not_wait_for_an_open_transaction(place):
    database, fleet, session = place
    session.sql("BEGIN")
    session.sql("SELECT redrive.submit('mail', '{}', id => 'one')")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        submit = pool.submit(Client(fleet.servers[0]).ask, "POST", "/jobs", {"task": "mail", "payload": {}, "id": "one"})
        wait_for(lambda: "lock timeout" in database.log.read_text(), "the submit waits")
        assert fleet.servers[0].stop() == 0
        status, body, _ = submit.result()
        assert status == 503, body


@pytest.mark.slow
def test_applications_and_clients_that_want_the_same_ids_for_a_while(place):
    """Three applications hold transactions open, and commit or roll back; clients submit the same ids, others claim and
    settle. What was acknowledged is there once, and ends once."""
    database, fleet, _ = place
    server = fleet.serve().ready()
    until = time.monotonic() + 40
    acknowledged, ended, longest = set(), [], []
    chance = random.Random(1)

    def application(seed):
        own, session = random.Random(seed), Session(database)
        while time.monotonic() < until:
            session.sql("BEGIN")
            ids = {f"job-{own.randrange(400)}"}  # one: two applications that wait for each other are a deadlock
            for job in ids:
                session.sql(f"SELECT redrive.submit('task-{own.randrange(30)}', '{{}}', id => '{job}')")
            time.sleep(own.choice((0.01, 0.3, 2)))
            end = own.choice(("COMMIT", "ROLLBACK"))
            session.sql(end)
            acknowledged.update(ids if end == "COMMIT" else ())
        session.close()

    def client(seed):
        own, rest = random.Random(seed), Client(own_server(seed))
        while time.monotonic() < until:
            job = f"job-{own.randrange(400)}"
            status, body, _ = rest.ask("POST", "/jobs", {"task": f"task-{own.randrange(30)}", "payload": {}, "id": job})
            assert status in (200, 201, 202, 503), body
            if status != 503:
                acknowledged.add(job)

    def worker(seed):
        rest = Client(own_server(seed))
        while time.monotonic() < until:
            seconds, jobs = timed(rest.claim, 5)
            longest.append(seconds)
            if jobs:
                longest.append(timed(rest.settle, jobs)[0])
                ended.extend(job["id"] for job in jobs)

    def own_server(seed):
        return (fleet.servers[0], server)[seed % 2]

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        ends = [pool.submit(work, chance.randrange(1 << 30) * 2 + i)
                for work, n in ((application, 3), (client, 6), (worker, 3)) for i in range(n)]
        for end in ends:
            end.result()
    last = Client(server)
    for jobs in iter(lambda: last.claim(50), []):
        last.settle(jobs)
        ended.extend(job["id"] for job in jobs)
    assert len(ended) == len(set(ended))
    assert acknowledged == set(ended)
    assert statistics.quantiles(longest, n=100)[98] < ASIDE_S / 2, sorted(longest)[-10:]
    assert fleet.redrive("doctor").returncode == 0
