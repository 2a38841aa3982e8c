"""redrive.cancel in SQL, with processes at work on the store."""
from conftest import start
from fleet import Fleet
from serve_kit import wait_for

TASKS = "tasks: {slow: {run: {exec: ['sleep', '600']}, heartbeat: 500ms, lease: 5s, limits: {concurrency: 1}}}\n"


def test_a_running_job_is_cancelled_and_the_next_one_has_its_place(tmp_path):
    with start("postgres") as server:
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
