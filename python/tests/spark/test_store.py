"""Jobs of a Redrive server: submitted from a DataFrame, and read as one."""

import json

import pytest

import redrive
from redrive.spark import StoreError, Submitted, read_jobs, submit_jobs


@pytest.fixture
def jobs(spark):
    rows = [(f"job-{n}", json.dumps({"n": n})) for n in range(2500)]
    return spark.createDataFrame(rows, "id string, payload string").repartition(2)


def test_jobs_are_submitted_once_and_their_results_read(spark, jobs, server):
    assert submit_jobs(jobs, server.url, "square", queue="numbers", priority=3) == Submitted(2500, 0)
    assert submit_jobs(jobs, server.url, "square", queue="numbers") == Submitted(0, 2500)

    app = redrive.App(server.url)

    @app.task(name="square", queue="numbers", retry=False)
    def square(n):
        if n == 7:
            raise ValueError("seven")
        return {"square": n * n}

    redrive.Worker(app, queues=["numbers"], concurrency=4, until_idle=True).run()
    done = {row["id"]: row for row in read_jobs(spark, server.url, task="square").collect()}
    assert len(done) == 2500
    row = done["job-12"]
    assert (row["state"], row["payload"], row["result"]) == ("completed", '{"n":12}', '{"square":144}')
    assert row["finished_at"] >= row["created_at"]
    (dead,) = read_jobs(spark, server.url, task="square", state="dead_letter,failed").collect()
    assert (dead["id"], dead["error_type"], dead["error_msg"]) == ("job-7", "ValueError", "seven")


@pytest.mark.parametrize(
    ("rows", "words"),
    [([("a", "{")], "the payload of a is not JSON"), ([(None, "{}")], "a row has no id")],
)
def test_rows_that_are_no_jobs(spark, server, rows, words):
    with pytest.raises(StoreError, match=words):
        submit_jobs(spark.createDataFrame(rows, "id string, payload string"), server.url, "square")


def test_what_cannot_be_meant(spark, jobs, server):
    with pytest.raises(redrive.InvalidArgumentError, match="id string, payload string"):
        submit_jobs(jobs.withColumnRenamed("id", "key"), server.url, "square")
    with pytest.raises(redrive.InvalidArgumentError, match="is not the address of a server"):
        read_jobs(spark, "postgres://x/y")
    with pytest.raises(StoreError, match="colour"):
        submit_jobs(jobs.limit(1), server.url, "square", colour="red")


def test_a_server_that_is_away(spark, jobs):
    with pytest.raises(StoreError, match="hint: is `redrive serve` running there"):
        submit_jobs(jobs.limit(1), "http://127.0.0.1:9", "square", attempts=2)
