"""redrive stats and redrive health on a store with something to see."""

import json

import pytest


def stats(redrive, store, *words):
    return json.loads(redrive.output("stats", "--json", "--store", store, *words))


def test_counters_and_sizes_equal_what_was_done(redrive, seeded):
    document = stats(redrive, seeded)
    assert document["counters"]["jobs_received"] == 16
    assert document["counters"]["jobs_completed"] == 3
    assert document["counters"]["jobs_retried"] == 5
    assert document["counters"]["jobs_dlq"] == 1
    assert document["counters"]["jobs_cancelled"] == 1
    assert document["counters"]["jobs_parked"] == 2
    assert document["sizes"] == {
        "scheduled": 1,
        "retrying": 5,
        "queued": 2,
        "running": 1,
        "parked": 2,
        "completed": 3,
        "failed": 0,
        "dead_letter": 1,
        "cancelled": 1,
        "waiting": 0,
    }
    assert document["by_task"]["mail"]["jobs_retried"] == 5
    assert document["by_queue"]["texts"]["jobs_completed"] == 3
    assert document["by_class"]["network"]["jobs_retried"] == 5
    assert document["average_retries"] == pytest.approx(5 / 4)
    assert document["next_ready_time"] is not None
    assert document["oldest_ready_age"] >= 0


def test_workers_and_breakers_are_told_of(redrive, seeded):
    document = stats(redrive, seeded)
    assert document["breakers"] == {
        "total": 2,
        "closed": 1,
        "open": 1,
        "half_open": 0,
        "forced_open": 0,
        "disabled": 0,
    }
    (worker,) = document["workers"]
    assert worker["name"] == "seed-worker"
    assert (worker["running"], worker["slots"]) == (1, 4)
    assert (worker["runs"], worker["failed"]) == (9, 6)
    assert document["health"]["status"] == "unhealthy"


def test_one_tenant_is_shown_alone(redrive, seeded):
    document = stats(redrive, seeded, "--tenant", "zoo")
    assert document["tenant"] == "zoo"
    assert document["counters"]["jobs_received"] == 1
    assert [queue["queue"] for queue in document["queues"]] == ["animals"]
    assert stats(redrive, seeded, "--tenant", "nobody")["queues"] == []


def test_people_get_tables(redrive, seeded):
    text = redrive.output("stats", "--store", seeded)
    assert "health      unhealthy" in text
    assert "breakers    2: 1 closed, 1 open" in text
    assert "default/post" in text and "zoo/animals" in text
    (mail,) = [line for line in text.splitlines() if line.startswith("mail ")]
    assert mail.split() == ["mail", "7", "5", "0", "5", "0", "0", "0", "2", "0"]


def test_an_empty_store_is_healthy(redrive, store):
    redrive.output("migrate", "--store", store)
    assert stats(redrive, store)["counters"]["jobs_received"] == 0
    document = json.loads(redrive.output("health", "--json", "--store", store))
    assert document == {
        "status": "healthy",
        "health_score": 1,
        "success_rate": 1,
        "error_rate": 0,
        "latency_factor": 1,
        "breakers": 0,
        "breakers_open": 0,
        "workers": 0,
    }
    assert redrive.output("health", "--store", store).startswith("healthy\n")


def test_unhealthy_is_exit_code_1(redrive, seeded):
    result = redrive("health", "--json", "--store", seeded)
    document = json.loads(result.stdout)
    assert result.returncode == 1
    assert document["status"] == "unhealthy"
    assert document["health_score"] < 0.5
    assert (document["breakers"], document["breakers_open"]) == (2, 1)
    assert document["workers"] == 1
    assert json.loads(result.stderr)["error"]["message"] == "the queue is unhealthy"


def test_a_store_that_cannot_be_opened_is_a_failure(redrive, tmp_path):
    for command in ("stats", "health"):
        result = redrive(command, "--store", f"sqlite:{tmp_path}/no/such/place.db")
        assert result.returncode == 1
        assert result.stdout == "" and "cannot open the store" in result.stderr


def test_ready_jobs_without_workers_are_told_of(redrive, store):
    def line():
        return redrive.output("stats", "--store", store).splitlines()[0]

    redrive.output("enqueue", "mail", "--queue", "texts", "--store", store)
    assert line().endswith(", but no workers: 1 ready job waits")
    redrive.output("enqueue", "mail", "--store", store)
    assert line().endswith(", but no workers: 2 ready jobs wait")
    assert "no workers" in redrive.output("top", "--once", "--store", store)
    assert stats(redrive, store)["workers"] == []
    redrive("queues", "pause", "texts", "--store", store)
    assert line().endswith(", but no workers: 1 ready job waits")
    for job in json.loads(redrive.output("jobs", "list", "--json", "--store", store))["items"]:
        redrive("jobs", "cancel", job["id"], "--store", store)
    assert "but" not in line()


def test_who_has_workers_is_not_warned(redrive, seeded):
    assert "no workers" not in redrive.output("stats", "--store", seeded)


def test_every_column_of_the_queues_has_its_title(redrive, seeded):
    lines = redrive.output("stats", "--store", seeded).splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith("QUEUE ")]
    titles, row = lines[at].split(), lines[at + 1].split()
    assert titles[-2:] == ["WAITING", "OLDEST"] and len(row) == len(titles)
