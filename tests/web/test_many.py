"""Very many queues, breakers and jobs; and a browser whose clock is wrong."""

import contextlib
import os
import sqlite3

from tests.kit.waiting import wait_for

# REDRIVE_WEB_JOBS=1000000 for the whole of it, which takes a minute or two.
JOBS = int(os.environ.get("REDRIVE_WEB_JOBS", "21000"))
BREAKERS = 5000


def submit_all(ui, jobs):
    connection = ui.server.connect()
    with contextlib.closing(connection):
        for at in range(0, len(jobs), 1000):
            assert ui.ask_on(connection, "POST", "/v1/jobs", jobs[at:at + 1000])[0] == 201


def test_ten_thousand_queues(ui):
    submit_all(ui, [{"task": "remote", "queue": f"q-{i:05}", "delay": "1h"} for i in range(10_000)])
    ui.open().sees("all 10,000", "#page")
    ui.open("/ui/queues").sees("9,800 more: filter by name", "#page")
    assert len(ui.all("#page tbody tr")) == 200
    ui.type_into("#page input[type=search]", "q-09999")
    ui.find("tr[data-key='q-09999']")
    assert len(ui.all("#page tbody tr")) == 1
    ui.open("/ui/jobs?queue=q-09999").sees("q-09999", "#page tbody").sees("Jobs 1", "h1")


def test_thousands_of_breakers(ui):
    """One is tripped; the others are copies of its row, because 5,000 requests would take half a minute."""
    ui.call("POST", "/v1/retry/circuit-breakers/host-0000/trip")
    with contextlib.closing(sqlite3.connect(ui.bench.database, isolation_level=None, timeout=30)) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE meta SET shared_version = shared_version + 1")
        db.execute("""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)
            INSERT INTO shared (kind, tenant, key, version, value) SELECT kind, tenant, printf('host-%04d', i), version, value FROM n, shared
            WHERE kind = 0 AND key = 'host-0000'""", (BREAKERS,))
        db.execute("COMMIT")
    ui.open("/ui/breakers").sees(f"{BREAKERS - 296:,} more.", "#page").sees("host-0000", "#page tbody")
    assert len(ui.all("#page .scroll tbody tr")) == 300
    ui.open().sees(f"{BREAKERS:,} breakers are open", "#page")
    ui.call("POST", "/v1/retry/circuit-breakers/host-4999/reset")
    ui.open().sees(f"{BREAKERS - 1:,} breakers are open", "#page")


def test_a_large_store_is_searched_step_by_step(ui):
    """The one that is looked for is the oldest: a search that ends early is gone on with by the page."""
    oldest = ui.submit("remote", {"n": 0}, delay="1h", user="ann")
    submit_all(ui, [{"task": "remote", "delay": "1h"}] * (JOBS - 1))
    ui.open("/ui/jobs").sees(f"Jobs {JOBS:,}", "h1")
    ui.open("/ui/jobs?user=ann").sees(oldest, "#page")
    ui.open("/ui/jobs?user=nobody").find("#page .empty")
    wait_for(lambda: not ui.all("#page[aria-busy]"), "the search")
    assert "No job matches" in ui.text("#page .empty")
    for page in ("", "queues", "jobs?state=scheduled", "jobs?text=words", "dead", "tasks", "workers"):
        ui.open(f"/ui/{page}").find("#page .page")


def test_a_clock_that_differs_from_the_servers_changes_no_age(ui):
    job = ui.submit("mail", {"to": "bob"}, delay="17990s", id="later")  # a random id may look like an age
    wrong = ui.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {
        "source": "const real = Date.now; Date.now = () => real() + 100 * 3600 * 1000;"})
    try:
        ui.open(f"/ui/jobs/{job}").sees("in 4h 5", "#page").misses("ago", "#page .ahead")
        ui.open("/ui/jobs").sees("in 4h 5", "#page").misses("4d", "#page table")
        ui.open("/ui/queues").sees("in 4h 5", "#page")
    finally:
        ui.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", wrong)
