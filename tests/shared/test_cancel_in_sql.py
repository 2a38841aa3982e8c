"""redrive.cancel in SQL, with processes at work on the store."""
import concurrent.futures

from tests.kit.stores import start_or_skip
from tests.kit.waiting import wait_for
from tests.shared.fleet import Fleet

TASKS = "tasks: {slow: {run: {exec: ['sleep', '600']}, heartbeat: 500ms, lease: 5s, limits: {concurrency: 1}}}\n"


def test_a_running_job_is_cancelled_and_the_next_one_has_its_place(tmp_path):
    with start_or_skip("postgres") as server:
        fleet = Fleet(tmp_path, server.url)
        try:
            fleet.configure(TASKS)
            fleet.work()
            first, second = fleet.submit("slow", [{}, {}])

            def state(job):
                return server.sql(f"SELECT status FROM redrive.jobs_by_status WHERE id = '{job}'")

            wait_for(lambda: state(first) == "running", "the first one runs")
            assert server.sql(f"SELECT redrive.cancel('{first}')") == "cancelling"
            wait_for(lambda: state(first) == "cancelled", "it is cancelled")
            wait_for(lambda: state(second) == "running", "the second one has its place")
            assert server.sql("SELECT count(*) FROM redrive.shared WHERE kind = 7") == "0"
            assert server.sql(f"SELECT redrive.cancel('{second}')") == "cancelling"
            wait_for(lambda: state(second) == "cancelled", "so is the second one")
        finally:
            fleet.close()


def test_a_job_that_starts_meanwhile_is_not_locked_by_who_cancels_it(tmp_path):
    """The cancel waits for a claim, and finds that the job runs; its transaction goes on for long."""
    with start_or_skip("postgres") as server:
        fleet = Fleet(tmp_path, server.url)
        fleet.configure(TASKS)
        job, = fleet.submit("slow", [{}])
        seq = server.sql(f"SELECT seq FROM redrive.specs WHERE id = '{job}'")
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query ~ 'cancel'"
        with concurrent.futures.ThreadPoolExecutor() as pool:
            claim = pool.submit(server.sql, f"BEGIN; UPDATE redrive.job_states SET state = 3 WHERE seq = {seq}; "
                                            "SELECT pg_sleep(3); COMMIT")
            wait_for(lambda: server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1",
                     "the claim is under way")
            cancel = pool.submit(server.sql, f"BEGIN; SELECT redrive.cancel('{job}'); SELECT pg_sleep(5); COMMIT")
            wait_for(lambda: server.sql(waits) == "1", "the cancel waits for it")
            claim.result()
            wait_for(lambda: server.sql(sleeps) == "1" and server.sql(waits) == "0", "the cancel has its answer")
            server.sql(f"SELECT 1 FROM redrive.job_states WHERE seq = {seq} FOR UPDATE NOWAIT")
            assert "cancelling" in cancel.result()
