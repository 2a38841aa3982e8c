"""Commands on a PostgreSQL store: a server that restarts, applications that submit in SQL, programs
that cannot connect."""

import json
import pathlib
import time

import pytest

from tests.kit import servers
from tests.kit.server import Worker
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for

CONFIG = """
log: {{level: info}}
tasks:
  quick:
    queue: fast
    run: {{exec: [sh, -c, 'echo $REDRIVE_JOB_ID >> {dir}/effects']}}
"""


@pytest.fixture(scope="module")
def server():
    with start_or_skip("postgres") as postgres:
        yield postgres


class Place:
    """A database, a folder, and workers on both."""

    def __init__(self, server, folder, name):
        self.server, self.dir, self.name = server, folder, name
        server.sql(f"CREATE DATABASE {name}")
        self.url = server.url.rsplit("/", 1)[0] + "/" + name
        self.config = folder / "redrive.yaml"
        self.config.write_text(CONFIG.format(dir=folder))
        self.workers = []

    def work(self):
        self.workers.append(Worker(self.dir, "--config", self.config, "--store", self.url))
        return self.workers[-1]

    def sql(self, text):
        return self.server.sql(text, self.name)

    def effects(self):
        path = self.dir / "effects"
        return path.read_text().split() if path.exists() else []

    def states(self):
        return dict(line.split("|") for line in self.sql(
            "SELECT status, count(*) FROM redrive.jobs_by_status GROUP BY 1").splitlines())

    def close(self):
        for worker in self.workers:
            worker.close()


@pytest.fixture
def place(server, tmp_path, request):
    place = Place(server, tmp_path, "cli_" + str(abs(hash(request.node.name))))
    yield place
    place.close()


def test_a_job_that_an_application_submits_in_its_transaction_is_run(redrive, place):
    place.work()
    wait_for(lambda: place.sql("SELECT to_regclass('redrive.tasks') IS NOT NULL") == "t"
             and place.sql("SELECT count(*) FROM redrive.tasks") == "1", "the task is published")
    place.sql("BEGIN; SELECT redrive.submit('quick', '{}', id => 'never'); ROLLBACK")
    place.sql("BEGIN; SELECT redrive.submit('quick', '{}', id => 'once'); COMMIT")
    wait_for(lambda: place.states() == {"completed": "1"}, "the job is done")
    assert place.effects() == ["once"]
    assert place.sql("SELECT queue FROM redrive.final_results") == "fast"


def start_again(server):
    # A server that was killed leaves its children to find that out for themselves.
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            server.start()
            return
        except RuntimeError:
            assert time.monotonic() < until
            time.sleep(0.2)


def test_a_long_name_of_an_error_does_not_make_the_store_refuse_the_settlement(redrive, place):
    """Random, so that it stays too long for an index when it is compressed."""
    handler = place.dir / "handler.py"
    handler.write_text(
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    print('run', file=open('effects', 'a'), flush=True)\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'status': 'PERMANENT_FAIL',\n"
        "                      'error_type': os.urandom(4000).hex()}), flush=True)\n")
    place.config.write_text(json.dumps({"tasks": {
        "t": {"run": {"stream": ["sh", "-c", f"cd {place.dir} && exec python3 handler.py"]}}}}))
    where = ["-c", str(place.config), "--store", place.url]
    redrive.output("enqueue", "t", "{}", "--id", "a", *where)
    done = redrive("work", "--until-idle", *where)
    assert done.returncode == 3 and "settlement" not in done.stderr, done.stderr
    job = json.loads(redrive.output("jobs", "show", "a", "--json", *where))
    assert (job["state"], len(job["last_error"]["type"])) == ("dead_letter", 255)
    assert place.effects() == ["run"]


def test_a_worker_outlives_restarts_of_the_server(redrive, server, tmp_path):
    del server  # it skips where there is none
    with servers.Postgres(durable=True) as own:
        place = Place(own, tmp_path, "jobs")
        try:
            redrive.output("enqueue", "quick", "{}", "--id", "0", "--store", place.url)
            worker = place.work()
            for number, stop in enumerate((own.stop, own.kill), 1):
                wait_for(lambda n=number: place.states() == {"completed": str(n)}, "all is done")
                stop()
                wait_for(lambda: not own.answers(), "the server is gone")
                start_again(own)
                redrive.output("enqueue", "quick", "{}", "--id", str(number), "--store", place.url)
                assert worker.process.poll() is None
            wait_for(lambda: place.states() == {"completed": "3"}, "all is done")
            assert place.effects() == ["0", "1", "2"]
        finally:
            place.close()


def test_doctor_names_the_server_and_what_can_be_lost(redrive, place):
    redrive.output("enqueue", "quick", "{}", "--store", place.url)
    told = redrive("doctor", "--config", str(place.config), "--store", place.url)
    assert "PostgreSQL" in told.stdout
    assert "fsync is off" in told.stdout


def test_a_wrong_password_is_said_to_be_wrong_and_not_shown(redrive, tmp_path):
    with servers.Postgres() as locked:
        # Version 13 would keep the password in a way that scram-sha-256 cannot use.
        locked.sql("SET password_encryption = 'scram-sha-256'; ALTER ROLE redrive PASSWORD 'right'")
        hba = pathlib.Path(locked.data) / "pg_hba.conf"
        hba.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        locked.stop()
        locked.start()
        for user, words in (("redrive:wrong", "refused the password"),
                            ("redrive", "asks for a password")):
            url = f"postgres://{user}@127.0.0.1:{locked.port}/postgres"
            told = redrive("jobs", "list", "--store", url, env={"HOME": str(tmp_path)})
            assert told.returncode == 1
            assert words in told.stderr
            assert "wrong" not in told.stderr
        url = f"postgres://redrive:right@127.0.0.1:{locked.port}/postgres"
        redrive.output("enqueue", "quick", "{}", "--store", url)
        assert json.loads(redrive.output("jobs", "list", "--json", "--store", url))["items"]
