"""Breakers, dead letters, queues and cron entries over HTTP."""

import json
import sqlite3
import time
import urllib.parse

from tests.kit.tokens import token_line
from tests.kit.waiting import wait_for

# -- Breakers --------------------------------------------------------------------------------------


def breaker(api, key):
    found = [b for b in api.ok("GET", "/retry/circuit-breakers")["items"] if b["key"] == key]
    return found[0] if found else None


def test_simulated_failures_open_a_breaker(api):
    for count in range(1, 6):
        answer = api.ok("POST", "/retry/simulate-failure", task_type="mail")
        assert answer["failure_count"] == count
    assert answer["state"] == "open" and answer["opened_at"]
    job_id = api.submit()
    assert api.claim() == []
    wait_for(lambda: api.state(job_id) == "parked", "parking")
    assert (breaker(api, "mail")["state"], breaker(api, "mail")["parked"]) == ("open", 1)
    stats = api.ok("GET", "/retry/stats")["circuit_breaker_stats"]
    assert stats == {"total_circuit_breakers": 1, "open_circuits": 1, "closed_circuits": 0}
    assert api.ok("POST", "/retry/circuit-breakers/mail/reset")["state"] == "closed"
    assert api.claim_one()["id"] == job_id


def test_a_server_without_limits_lists_none(api):
    assert api.ok("GET", "/limits") == {"items": [], "next": None}


def test_a_breaker_that_is_not_there_is_not_made_by_a_reset(api):
    before = api.ok("GET", "/retry/circuit-breakers")["items"]
    api.ok("POST", "/retry/circuit-breakers/nosuch/reset", status=404)
    assert api.ok("GET", "/retry/circuit-breakers")["items"] == before
    assert api.ok("POST", "/retry/circuit-breakers/mail/reset")["state"] == "closed"  # a task of the configuration


def test_declared_tasks_list_their_breakers_from_the_start(api):
    mail = breaker(api, "mail")
    assert (mail["state"], mail["failure_count"], mail["failure_rate"]) == ("closed", 0, None)
    assert (mail["tenant"], mail["parked"], mail["opened_at"]) == ("default", 0, None)


def test_a_failure_of_an_unknown_task_is_refused(api):
    before = api.ok("GET", "/retry/circuit-breakers")["items"]
    problem = api.problem(404, "POST", "/retry/simulate-failure", task_type="nosuch")
    assert "there is no breaker 'nosuch'" in str(problem)
    assert api.ok("GET", "/retry/circuit-breakers")["items"] == before


def test_a_parked_job_tells_what_holds_it(api):
    for _ in range(5):
        api.ok("POST", "/retry/simulate-failure", task_type="mail")
    job_id = api.submit()
    assert api.ok("GET", f"/jobs/{job_id}")["held_by"] is None
    assert api.claim() == []
    wait_for(lambda: api.state(job_id) == "parked", "parking")
    held = api.ok("GET", f"/jobs/{job_id}")["held_by"]
    assert (held["kind"], held["key"], held["state"]) == ("breaker", "mail", "open")
    assert held["may_go_at"] == breaker(api, "mail")["next_probe_at"]


def test_breakers_are_moved_by_hand(api):
    assert api.ok("POST", "/retry/circuit-breakers/a%2Fb/trip")["state"] == "forced_open"
    assert breaker(api, "a/b")["state"] == "forced_open"
    assert api.ok("POST", "/retry/circuit-breakers/a%2Fb/disable")["state"] == "disabled"
    assert api.ok("POST", "/retry/circuit-breakers/a%2Fb/reset")["state"] == "closed"
    assert api.problem(400, "POST", "/retry/simulate-failure")["field"] == "task_type"


def test_names_that_no_job_can_have_are_refused_on_every_route(api):
    breakers = "/retry/circuit-breakers"
    for name in ("a%0Ab", "a%20b", "%C3%A9", "x" * 256):
        for verb in ("pause", "resume"):
            assert api.problem(413 if len(name) > 255 else 400, "POST", f"/queues/{name}/{verb}")["field"] == "queue"
        assert api.problem(413 if len(name) > 255 else 400, "POST", "/claim", {"queues": [urllib.parse.unquote(name)]})["field"] == "queues"
    for name in ("a%0Ab", "a%7Fb", "x" * 256):
        status = 413 if len(name) > 255 else 400
        for verb in ("trip", "disable", "reset"):
            assert api.problem(status, "POST", f"{breakers}/{name}/{verb}")["field"] == "type"
        assert api.problem(400, "PUT", f"/cron/{name}", {"task": "mail", "schedule": "@yearly"})
        assert api.problem(status, "POST", f"/tasks/{name}", {})
    assert api.problem(400, "POST", "/retry/simulate-failure", task_type="a\nb")["field"] == "task_type"
    assert not [q for q in api.ok("GET", "/queues")["items"] if q["paused"]]
    assert "\\n" not in api("GET", breakers).raw.decode()
    # A breaker may have a name that is no task's.
    api.ok("POST", f"{breakers}/db%20of%20%C3%A9/trip")
    api.ok("POST", f"{breakers}/db%20of%20%C3%A9/reset")


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
    for other in (live, "unknown"):
        api.problem(404, "GET", f"/retry/dead-letters/{other}")


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
    assert api.ok("POST", f"{path}/retry") == {"id": job_id, "state": "queued"}
    api.problem(404, "GET", path)
    api.problem(409, "POST", f"{path}/retry")
    api.problem(409, "PATCH", path, {"payload": 1})
    job = api.claim_one()
    assert (job["payload"], job["attempt"], job["epoch"]) == ({"total": 1}, 1, 1)


def test_a_dead_letter_is_removed(api):
    job_id, live = api.kill(), api.submit()
    assert api("DELETE", f"/retry/dead-letters/{job_id}").status == 204
    for other in (job_id, live, "unknown"):
        api.problem(404, "DELETE", f"/retry/dead-letters/{other}")
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


def test_retry_stats_have_the_names_that_are_known(api):
    api.kill()
    api.submit()
    api.settle(api.claim_one(), status="SUCCESS")
    stats = api.ok("GET", "/retry/stats")
    assert stats["execution_stats"] == {
        "total_executed": 2, "successful": 1, "failed": 1, "retried": 0,
        "success_rate": 50.0, "failure_rate": 50.0, "retry_rate": 0.0,
    }
    assert stats["dead_letter_stats"] == {"total_dead_letters": 1, "by_task_type": {"once": 1}}
    assert set(stats) == {"execution_stats", "circuit_breaker_stats", "dead_letter_stats"}
    assert api.ok("GET", "/stats")["counters"]["jobs_completed"] == 1


def test_a_paused_queue_starts_nothing(api):
    job_id = api.submit()
    assert api.ok("POST", "/queues/main/pause") == {"queue": "main", "paused": True}
    assert api.claim() == []
    (queue,) = api.ok("GET", "/queues")["items"]
    assert (queue["queue"], queue["paused"], queue["queued"]) == ("main", True, 1)
    waiting = api.open("POST", "/claim", {"wait": 30})
    time.sleep(0.1)
    assert api.ok("POST", "/queues/main/resume")["paused"] is False
    assert [j["id"] for j in json.loads(waiting.getresponse().read())["jobs"]] == [job_id]


def test_the_cron_entries_and_the_workers_are_shown(start):
    api = start('cron:\n  joke: {task: mail, schedule: "*/2 * * * *", payload: {a: 1}}\n').api
    (entry,) = api.ok("GET", "/cron")["items"]
    assert (entry["name"], entry["task"], entry["schedule"]) == ("joke", "mail", "*/2 * * * *")
    assert entry["next_tick"] and entry["last_tick"] is None
    assert entry["source"] == "configuration"
    assert api.ok("GET", "/workers") == {"items": [], "next": None}


def test_an_entry_of_the_cron_entries_is_set_replaced_and_removed(api):
    body = {"task": "mail", "schedule": "30 7 * * mon-fri", "timezone": "Europe/Berlin", "payload": {"a": [1.50]}}
    entry = api.ok("PUT", "/cron/wake", body, status=201)
    assert {key: entry[key] for key in body} == body
    assert (entry["name"], entry["overlap"], entry["source"], entry["last_tick"]) == ("wake", "skip", "stored", None)
    assert entry["next_tick"].endswith(":30:00.000Z")
    assert api.ok("PUT", "/cron/wake", body) == entry
    assert api.ok("GET", "/cron")["items"] == [entry]
    replaced = api.ok("PUT", "/cron/wake", {"task": "mail", "schedule": "@daily"})
    assert (replaced["timezone"], replaced["payload"]) == ("UTC", None)
    assert api.ok("GET", "/cron")["items"] == [replaced]
    assert "'wake'" in api.problem(404, "DELETE", "/cron/waek")["hint"]
    gone = api("DELETE", "/cron/wake")
    assert (gone.status, gone.raw) == (204, b"")
    api.problem(404, "DELETE", "/cron/wake")
    assert api.ok("GET", "/cron")["items"] == []


BAD_ENTRIES = [
    ({}, "task"),
    ([1], None),
    (b"", None),
    (b"{", None),
    ({"task": "mail"}, "schedule"),
    ({"task": "mail", "schedule": "61 * * * *"}, "schedule"),
    ({"task": "mail", "schedule": ["@daily"]}, "schedule"),
    ({"task": "mail", "schedule": "@daily", "timezone": "Europe/Berln"}, "timezone"),
    ({"task": "mail", "schedule": "@daily", "overlap": "skipp"}, "overlap"),
    ({"task": "mail", "shedule": "@daily"}, "shedule"),
    ({"task": 5, "schedule": "@daily"}, "task"),
    ({"task": "picky", "schedule": "@daily"}, "payload"),
]


def test_a_bad_entry_is_refused_and_its_member_named(api):
    for body, field in BAD_ENTRIES:
        assert api.problem(400, "PUT", "/cron/beat", body).get("field") == field, body
    assert "'schedule'" in api.problem(400, "PUT", "/cron/beat", {"task": "mail", "shedule": "@daily"})["hint"]
    good = {"task": "mail", "schedule": "@daily"}
    for name in ("two%20words", "x" * 129, "a%00b", "%ff"):
        assert api("PUT", f"/cron/{name}", good).status == 400, name
    assert api.problem(413, "PUT", "/cron/beat", {**good, "payload": "x" * (64 << 10)})["field"] == "payload"
    assert api.ok("GET", "/cron")["items"] == []


def test_entries_of_an_application_are_declared_as_a_set(api):
    daily, yearly = ({"task": "mail", "schedule": schedule} for schedule in ("@daily", "@yearly"))

    def names():
        return {entry["name"]: entry["declared_by"] for entry in api.ok("GET", "/cron")["items"]}

    api.ok("PUT", "/cron/other", daily, status=201)
    api.ok("PUT", "/cron", {"a": daily}, declared_by="news")
    assert api.ok("PUT", "/cron", {"b": daily, "c": daily}, declared_by="shop") == {"declared": 2, "configured": 0, "removed": 0}
    assert names() == {"other": None, "a": "news", "b": "shop", "c": "shop"}
    # One of them goes, one comes from elsewhere, one stays with another schedule.
    assert api.ok("PUT", "/cron", {"c": yearly, "other": daily}, declared_by="shop")["removed"] == 1
    assert names() == {"a": "news", "c": "shop", "other": "shop"}
    api.ok("PUT", "/cron/c", yearly)  # an operator's from now on
    assert api.ok("PUT", "/cron", {}, declared_by="shop") == {"declared": 0, "configured": 0, "removed": 1}
    assert names() == {"a": "news", "c": None}


def test_a_declaration_of_entries_that_is_wrong_changes_nothing(api):
    daily = {"task": "mail", "schedule": "@daily"}
    api.ok("PUT", "/cron", {"a": daily}, declared_by="shop")
    problem = api.problem(400, "PUT", "/cron", {"b": daily, "c": {**daily, "schedule": "61 * * * *"}}, declared_by="shop")
    assert problem["field"] == "schedule" and problem["detail"].startswith("cron.c: "), problem
    for name in (None, "", "my shop", 'a"b', "x" * 256):
        query = {} if name is None else {"declared_by": name}
        assert api.problem(400, "PUT", "/cron", {"b": daily}, **query)["field"] == "declared_by", name
    for body in (b"", b"{", b"[1]", {"b": 5}):
        api.problem(400, "PUT", "/cron", body, declared_by="shop")
    assert [entry["name"] for entry in api.ok("GET", "/cron")["items"]] == ["a"]


def test_the_configuration_has_its_entries_before_any_application(start):
    api = start('cron:\n  joke: {task: mail, schedule: "*/2 * * * *"}\n').api
    body = {name: {"task": "mail", "schedule": "@daily"} for name in ("joke", "a")}
    assert api.ok("PUT", "/cron", body, declared_by="shop") == {"declared": 2, "configured": 1, "removed": 0}
    assert [(e["name"], e["schedule"]) for e in api.ok("GET", "/cron")["items"]] == [("joke", "*/2 * * * *"), ("a", "@daily")]


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


def test_the_job_of_a_cron_entry_is_submitted_by_hand_under_its_rule_of_overlap(start):
    api = start("cron:\n  nightly: {task: mail, schedule: '30 2 * * *', payload: {n: 1}}\n").api
    made = api.ok("POST", "/cron/nightly/run")
    assert made["state"] == "queued" and api.ok("GET", f"/jobs/{made['id']}")["payload"] == {"n": 1}
    assert "overlap: allow" in api.problem(409, "POST", "/cron/nightly/run")["hint"]
    assert "daily" in api.problem(404, "POST", "/cron/daily/run")["detail"]


def test_one_job_tells_its_group_its_lengths_and_whether_its_queue_is_paused(api):
    job = api.ok("GET", f"/jobs/{api.submit(payload=None)}")
    assert (job["group"], job["queue_paused"], job["result_bytes"]) == (None, False, 0)
    assert job["payload_bytes"] == 4 and job["payload"] is None
    bare = api.ok("POST", "/tasks/mail", status=202)["id"]
    assert api.ok("GET", f"/jobs/{bare}")["payload_bytes"] == 0
    api.ok("POST", "/queues/main/pause")
    assert api.ok("GET", f"/jobs/{bare}")["queue_paused"] is True
    api.ok("POST", "/queues/main/resume")
    dead = api.ok("GET", f"/jobs/{api.kill()}")
    assert dead["group"] == api.ok("GET", "/retry/dead-letters/groups")["items"][0]["fingerprint"]


def test_strict_tasks_hold_for_the_cron_entries(start):
    api = start("strict_tasks: true\n").api
    problem = api.problem(400, "PUT", "/cron/beat", {"task": "mial", "schedule": "@daily"})
    assert (problem["field"], problem["hint"]) == ("task", "did you mean 'mail'?")
    api.ok("PUT", "/cron/beat", {"task": "mail", "schedule": "@daily"}, status=201)


def test_what_the_configuration_has_is_changed_there(start):
    api = start('cron:\n  joke: {task: mail, schedule: "*/2 * * * *"}\n').api
    for method, body in (("PUT", {"task": "once", "schedule": "@daily"}), ("DELETE", None)):
        problem = api.problem(409, method, "/cron/joke", body)
        assert "redrive.yaml" in problem["hint"]
    (entry,) = api.ok("GET", "/cron")["items"]
    assert (entry["task"], entry["source"]) == ("mail", "configuration")


def test_a_stored_entry_survives_its_server(start):
    first = start()
    entry = first.api.ok("PUT", "/cron/wake", {"task": "mail", "schedule": "@yearly"}, status=201)
    first.close()
    assert start().api.ok("GET", "/cron")["items"] == [entry]


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
