"""PgBouncer between processes and PostgreSQL: one that keeps sessions is as good as the server itself, any other
is refused before anything happens."""
import subprocess
import time

import pytest

from tests.kit import servers
from tests.kit.pgbouncer import PgBouncer
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.fleet import Fleet
from tests.shared.unit import passes

TASKS = "tasks: {quick: {run: {exec: ['true']}}}\n"
REFUSED = "the pool in front of the server does not keep sessions"


@pytest.fixture(scope="module")
def postgres():
    with start_or_skip("postgres") as server:
        yield server


@pytest.fixture
def pooled(postgres, tmp_path):
    """pooled("session"): processes whose store is behind a pool."""
    made = []

    def make(mode, **settings):
        pool = start_or_skip(PgBouncer, postgres, mode, settings=settings.items())
        made.append(pool)
        fleet = Fleet(tmp_path, pool.url)
        made.append(fleet)
        fleet.pool = pool
        fleet.configure(TASKS)
        return fleet

    yield make
    for one in reversed(made):
        one.close()


def through(pool, sql):
    """A client of the pool, under way."""
    return subprocess.Popen([servers.find_postgres("psql"), "-X", "-q", "-A", "-t", "-d", pool.url, "-c", sql],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def test_jobs_are_submitted_and_run_through_sessions(pooled):
    fleet = pooled("session")
    fleet.work()
    jobs = fleet.submit("quick", [{}] * 20)
    wait_for(lambda: len(fleet.jobs("completed")) >= len(jobs), "all are done")
    assert "INFO  completed" in fleet.servers[0].log()


def test_notices_are_heard_through_sessions(pooled):
    pool = pooled("session").pool
    passes("postgres/test_postgres_notify", "notify", REDRIVE_TEST_STORE="postgres", REDRIVE_TEST_POSTGRES=pool.url)


def test_the_last_session_of_a_pool_is_enough_for_a_command(pooled):
    fleet = pooled("session", default_pool_size=1)
    started = time.monotonic()
    fleet.submit("quick", [{}])
    assert time.monotonic() - started < LIMIT_S / 2, "it does not wait for a second one"


@pytest.mark.parametrize("settings", [{}, {"server_round_robin": 1}, {"default_pool_size": 1}],
                         ids=["last", "in_turn", "only"])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_pool_that_keeps_no_sessions_is_refused(pooled, mode, settings):
    fleet = pooled(mode, **settings)
    # Some sessions that can be given to anybody.
    clients = [through(fleet.pool, "SELECT pg_sleep(0.2)") for _ in range(4)]
    assert [client.wait(LIMIT_S) for client in clients] == [0] * 4
    for command in ("enqueue", "quick"), ("work", "--until-idle"), ("jobs", "list"):
        told = fleet.redrive(*command)
        assert told.returncode == 1
        assert REFUSED in told.stderr
        assert "pool_mode = session" in told.stderr
    assert REFUSED in fleet.redrive("doctor").stdout

    # Whoever shares the pool finds sessions as they were.
    clients = [through(fleet.pool, "SHOW enable_seqscan") for _ in range(4)]
    assert [client.communicate(timeout=LIMIT_S)[0].strip() for client in clients] == ["on"] * 4


def test_pool_that_lets_nobody_look_is_named_when_a_session_is_gone(pooled):
    fleet = pooled("transaction", max_client_conn=1)
    told = [fleet.redrive("enqueue", "quick") for _ in range(3)][-1]
    assert told.returncode == 1
    assert REFUSED in told.stderr
    assert "prepared statement" in told.stderr


def test_application_submits_in_sql_through_any_pool(pooled, postgres):
    fleet = pooled("transaction")
    fleet.url = postgres.url
    fleet.configure(TASKS)
    assert fleet.redrive("migrate").returncode == 0
    clients = [through(fleet.pool, f"SELECT redrive.submit('quick', '{{}}', id => 'sql-{n}')") for n in range(5)]
    ids = {client.communicate(timeout=LIMIT_S)[0].strip() for client in clients}
    assert ids == {f"sql-{n}" for n in range(5)}
    assert fleet.redrive("work", "--until-idle").returncode == 0
    assert ids <= {job["id"] for job in fleet.jobs("completed")}
