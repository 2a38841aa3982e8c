"""Breakers, dead letters, queues and cron entries over HTTP. What the routes print is in the transcripts http-control.md,
http-breakers.md and http-cron.md."""

import json
import sqlite3
import time

from tests.kit.tokens import token_line
from tests.kit.waiting import wait_for

# -- Breakers --------------------------------------------------------------------------------------


def breaker(api, key):
    found = [b for b in api.ok("GET", "/retry/circuit-breakers")["items"] if b["key"] == key]
    return found[0] if found else None


def test_a_parked_job_tells_what_holds_it_and_runs_after_a_reset(api):
    for _ in range(5):
        api.ok("POST", "/retry/simulate-failure", task_type="mail")
    job_id = api.submit()
    assert api.ok("GET", f"/jobs/{job_id}")["held_by"] is None
    assert api.claim() == []
    wait_for(lambda: api.state(job_id) == "parked", "parking")
    held = api.ok("GET", f"/jobs/{job_id}")["held_by"]
    assert (held["kind"], held["key"], held["state"]) == ("breaker", "mail", "open")
    assert held["may_go_at"] == breaker(api, "mail")["next_probe_at"]
    api.ok("POST", "/retry/circuit-breakers/mail/reset")
    assert api.claim_one()["id"] == job_id


# -- Dead letters ----------------------------------------------------------------------------------


def test_a_dead_letter_tells_why_it_died(api):
    job_id = api.kill(message="no such bucket 17", payload={"a": 1})
    (item,) = api.ok("GET", "/retry/dead-letters")["items"]
    assert (item["task_id"], item["error_message"], item["error_type"]) == (job_id, "no such bucket 17", "IOError")
    assert (item["retry_count"], item["attempts"], item["failed_at"]) == (0, 1, item["finished_at"])
    shown = api.ok("GET", f"/retry/dead-letters/{job_id}")
    assert shown["payload"] == {"a": 1} and shown["reason"] == "not_retriable"
    assert [a["error"]["type"] for a in shown["history"]] == ["IOError"]
    live = api.submit()
    api.problem(404, "GET", "/retry/dead-letters/unknown")
    assert "is no dead letter: it is queued" in api.problem(409, "GET", f"/retry/dead-letters/{live}")["detail"]


def test_dead_letters_are_filtered_grouped_and_counted(api):
    ids = [api.kill(message=f"no such bucket {i}") for i in range(3)] + [api.kill(message="disk full")]
    assert len(api.ok("GET", "/retry/dead-letters", text="bucket")["items"]) == 3
    assert api.ok("GET", "/retry/dead-letters", **{"class": "network"})["items"] == []
    groups = api.ok("GET", "/retry/dead-letters/groups")["items"]
    assert [g["count"] for g in groups] == [3, 1]
    members = api.ok("GET", "/retry/dead-letters", group=groups[0]["fingerprint"])["items"]
    assert sorted(m["id"] for m in members) == sorted(ids[:3])
    stats = api.ok("GET", "/retry/dead-letters/stats")
    assert stats["total_jobs"] == 4
    assert stats["failure_type_counts"] == {"permanent": 4}
    assert (stats["by_task"], stats["by_reason"], stats["by_type"]) == (
        {"once": 4}, {"not_retriable": 4}, {"IOError": 4})
    assert api.ok("GET", "/retry/dead-letters/stats", text="disk")["total_jobs"] == 1
    api.problem(400, "GET", "/retry/dead-letters", state="queued")


def test_a_dead_letter_is_mended_and_retried(api):
    job_id = api.kill(payload={"total": -1})
    path = f"/retry/dead-letters/{job_id}"
    assert api.problem(400, "PATCH", path, {})["field"] == "payload"
    assert api.problem(400, "PATCH", path, {"paylod": 1})["field"] == "paylod"
    assert api.problem(413, "PATCH", path, {"payload": "x" * (1 << 20)})["field"] == "payload"
    assert api.ok("PATCH", path, b'{"payload": {"total":  1}}')["state"] == "dead_letter"
    assert api.ok("POST", f"{path}/retry") == {"id": job_id, "tenant": "default", "state": "queued"}
    api.problem(409, "GET", path)
    api.problem(409, "POST", f"{path}/retry")
    api.problem(409, "PATCH", path, {"payload": 1})
    job = api.claim_one()
    assert (job["payload"], job["attempt"], job["epoch"]) == ({"total": 1}, 1, 1)


def test_a_dead_letter_is_removed(api):
    job_id, live = api.kill(), api.submit()
    assert api("DELETE", f"/retry/dead-letters/{job_id}").status == 204
    for other in (job_id, "unknown"):
        api.problem(404, "DELETE", f"/retry/dead-letters/{other}")
    api.problem(409, "DELETE", f"/retry/dead-letters/{live}")
    api.problem(404, "GET", f"/jobs/{job_id}")
    assert api.state(live) == "queued"


def test_a_held_unique_key_stops_a_retry(api):
    job_id = api.kill(unique_key="k")
    api.submit("once", unique_key="k")
    assert "unique key" in api.problem(409, "POST", f"/retry/dead-letters/{job_id}/retry")["detail"]
    answer = api.ok("POST", "/retry/dead-letters/retry", {"all": True})
    assert (answer["matched"], answer["redriven"], answer["refused"]) == (1, 0, 1)


def test_dead_letters_are_retried_by_filter(api):
    for _ in range(3):
        api.kill(message="bucket")
    api.kill(message="disk")
    retry = "/retry/dead-letters/retry"
    for body in (None, {}, {"filter": {}}, {"dry_run": True}):
        assert api.problem(400, "POST", retry, body)["field"] == "filter"
    assert api.problem(400, "POST", retry, {"filter": {"txt": "a"}})["field"] == "filter.txt"
    assert api.problem(400, "POST", retry, {"all": True, "rate": "fast"})["field"] == "rate"
    assert api.problem(400, "POST", retry, {"all": True, "rate": 0})["field"] == "rate"
    dry = api.ok("POST", retry, {"filter": {"text": "bucket"}, "dry_run": True})
    assert (dry["dry_run"], dry["matched"], dry["redriven"], dry["finished"]) == (True, 3, 0, True)
    done = api.ok("POST", retry, {"filter": {"text": "bucket"}})
    assert (done["matched"], done["redriven"], done["finished"]) == (3, 3, True)
    assert [d["error_message"] for d in api.ok("GET", "/retry/dead-letters")["items"]] == ["disk"]
    assert len(api.claim(n=10)) == 3


def test_dead_letters_are_retried_at_a_rate(api):
    for _ in range(6):
        api.kill()
    begin = time.monotonic()
    answer = api.ok("POST", "/retry/dead-letters/retry", {"all": True, "rate": "10/s"}, status=202)
    assert (answer["matched"], answer["finished"]) == (6, False)
    wait_for(lambda: api.ok("GET", "/retry/dead-letters")["items"] == [], "the redrive")
    assert time.monotonic() - begin >= 0.4


def test_redrives_at_a_rate_are_shown_and_stopped(api):
    for _ in range(3):
        api.kill()
    api.kill(message="another")
    asked = {"filter": {"text": "bucket"}, "rate": "1/h"}
    run = api.ok("POST", "/retry/dead-letters/retry", asked, status=202)["id"]
    api.ok("POST", "/retry/dead-letters/retry", {"all": True, "rate": 1}, status=202)
    # The first of an hour goes at once.
    wait_for(lambda: api.ok("GET", "/retry/dead-letters/retries")["items"][0]["redriven"] == 1, "the first one")
    wait_for(lambda: len(api.ok("GET", "/retry/dead-letters/retries")["items"]) == 1, "the end of the faster one")
    shown = api.ok("GET", "/retry/dead-letters/retries")["items"][0]
    assert shown.pop("started_at").endswith("Z")
    redriven = shown.pop("redriven")
    assert shown == {"id": run, "rate": "1/h", "filter": asked["filter"], "matched": 3, "at_least": False, "refused": 0}
    assert redriven == 1
    api.problem(404, "DELETE", f"/retry/dead-letters/retries/{int(run) + 100}")
    api.problem(404, "DELETE", "/retry/dead-letters/retries/x")
    assert api("DELETE", f"/retry/dead-letters/retries/{run}").status == 204
    api.problem(404, "DELETE", f"/retry/dead-letters/retries/{run}")
    assert api.ok("GET", "/retry/dead-letters/retries") == {"items": [], "next": None}


def test_a_server_stops_in_the_middle_of_a_redrive(start):
    server = start()
    for _ in range(3):
        server.api.kill()
    server.api.ok("POST", "/retry/dead-letters/retry", {"all": True, "rate": "1/h"}, status=202)
    server.close()


def test_a_purge_needs_an_age(api):
    for _ in range(3):
        api.kill()
    assert api.problem(400, "DELETE", "/retry/dead-letters")["field"] == "older_than_hours"
    assert api.problem(400, "DELETE", "/retry/dead-letters", older_than_hours="-1")["field"] == "older_than_hours"
    assert api.ok("DELETE", "/retry/dead-letters", older_than_hours=24)["removed"] == 0
    assert api.ok("DELETE", "/retry/dead-letters", older_than_hours=0, dry_run="true")["matched"] == 3
    assert api.ok("DELETE", "/retry/dead-letters", older_than_hours=0)["removed"] == 3
    assert api.ok("GET", "/jobs")["items"] == []


# -- Figures, queues, the cron entries ----------------------------------------------------------------


def test_a_claim_that_waits_gets_the_jobs_of_a_queue_that_goes_on(api):
    job_id = api.submit()
    api.ok("POST", "/queues/main/pause")
    waiting = api.open("POST", "/claim", {"wait": 30})
    time.sleep(0.1)
    api.ok("POST", "/queues/main/resume")
    assert [j["id"] for j in json.loads(waiting.getresponse().read())["jobs"]] == [job_id]


def test_a_declared_entry_keeps_its_application_through_ticks_and_restarts(start, tmp_path):
    first = start()
    first.api.ok("PUT", "/cron", {"beat": {"task": "mail", "schedule": "* * * * *"}}, declared_by="shop")
    first.close()
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        (text,) = db.execute("SELECT value FROM shared WHERE kind = 4 AND key = 'beat'").fetchone()
        past = {**json.loads(text), "last_tick_ms": 1000}
        db.execute("UPDATE shared SET value = ? WHERE kind = 4 AND key = 'beat'", (json.dumps(past).encode(),))
    api = start().api
    wait_for(lambda: api.ok("GET", "/jobs")["items"], "a tick")
    assert api.ok("PUT", "/cron", {}, declared_by="shop")["removed"] == 1


def test_jobs_get_queue_and_policy_of_tasks_that_an_application_has_declared(api):
    tasks = {"shop.send": {"queue": "nightly", "retry": {"max_attempts": 2}}, "mail": {"queue": "elsewhere"}}
    assert api.ok("PUT", "/tasks", tasks) == {"declared": 2, "changed": 1}  # the configuration has mail
    assert api.ok("PUT", "/tasks", tasks) == {"declared": 2, "changed": 0}
    job = api.ok("GET", f"/jobs/{api.submit(task='shop.send')}")
    assert (job["queue"], job["max_attempts"]) == ("nightly", 2)
    assert api.ok("GET", f"/jobs/{api.submit(task='mail')}")["queue"] != "elsewhere"
    api.ok("PUT", "/cron", {"tick": {"task": "shop.send", "schedule": "@daily"}}, declared_by="shop")
    job = api.ok("GET", f"/jobs/{api.ok('POST', '/cron/tick/run')['id']}")
    assert (job["queue"], job["max_attempts"]) == ("nightly", 2)
    assert api.ok("PUT", "/tasks", {"shop.send": {}})["changed"] == 1
    assert api.ok("GET", f"/jobs/{api.submit(task='shop.send')}")["queue"] == "default"


def test_a_declaration_of_tasks_that_is_wrong_changes_nothing(api):
    for body, text in (
        ({"a": {"queue": "side"}, "b": {"queu": "x"}}, "tasks.b: unknown key 'queu'"),
        ({"a": {"retry": {"max_attempts": 0}}}, "max_attempts"),
        ({"a": {"run": {"exec": ["/bin/sh"]}}}, "run"),
        ({"a\n": {}}, "name"),
        ({"a": 5}, "a"),
        (b"[]", "object"),
    ):
        assert text in api.problem(400, "PUT", "/tasks", body)["detail"], body
    assert api.ok("GET", f"/jobs/{api.submit(task='a')}")["queue"] == "default"


def test_a_claim_names_up_to_a_thousand_tasks(api):
    names = [f"{n:03}" + "x" * 250 for n in range(1000)]
    own, other = api.submit(task=names[-1]), api.submit(task="other")
    assert [job["id"] for job in api.ok("POST", "/claim", {"n": 10, "tasks": names})["jobs"]] == [own]
    # Polls that differ in the last name only are two questions.
    waiting = [api.open("POST", "/claim", {"wait": 20, "tasks": [*names[:-1], last]}) for last in ("a", "b")]
    second = api.submit(task="b")
    assert [job["id"] for job in json.loads(waiting[1].getresponse().read())["jobs"]] == [second]
    first = api.submit(task="a")
    assert [job["id"] for job in json.loads(waiting[0].getresponse().read())["jobs"]] == [first]
    assert api.problem(400, "POST", "/claim", {"tasks": [*names, "y"]})["field"] == "tasks"
    assert api.ok("GET", f"/jobs/{other}")["state"] == "queued"


def test_a_stored_entry_makes_jobs_of_its_tenant(start, tmp_path):
    everything = "enqueue, work, read, admin"
    tokens = "tokens:\n" + token_line("red", everything, "red") + token_line("blue", everything, "blue")
    first = start(tokens)
    body = {"task": "mail", "schedule": "* * * * *", "payload": {"n": 1}}
    first.api.of("red").ok("PUT", "/cron/beat", body, status=201)
    first.close()
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        (text,) = db.execute("SELECT value FROM shared WHERE kind = 4 AND key = 'beat'").fetchone()
        row = json.loads(text)
        row["last_tick_ms"] -= 120000  # instead of waiting so long
        db.execute("UPDATE shared SET value = ? WHERE kind = 4 AND key = 'beat'", (json.dumps(row).encode(),))
    api = start(tokens).api
    job = api.of("red").claim_one()
    assert (job["task"], job["payload"]) == ("mail", {"n": 1})
    assert api.of("red").ok("GET", "/cron")["items"][0]["last_tick"]
    assert api.of("blue").ok("GET", "/jobs")["items"] == []


def test_entries_that_do_not_all_fit_change_nothing(api):
    """A tenant has at most 1000 entries of its own; an application that is at the limit may still replace its own."""
    def entries(prefix, n):
        return {f"{prefix}{i}": {"task": "once", "schedule": "@daily"} for i in range(n)}

    def declare(application, of, status=200):
        answer = api("PUT", "/cron", of, declared_by=application)
        assert answer.status == status, answer.raw

    declare("a", entries("a", 990))
    declare("b", {**entries("keep", 2), **entries("b", 8)})
    declare("b", entries("new", 11), 409)
    names = {entry["name"] for entry in api.ok("GET", "/cron")["items"]}
    assert {"keep0", "keep1"} <= names and not any(name.startswith("new") for name in names)
    declare("b", entries("new", 10))
    names = {entry["name"] for entry in api.ok("GET", "/cron")["items"]}
    assert sum(name.startswith("new") for name in names) == 10 and "keep0" not in names
