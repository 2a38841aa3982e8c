"""One verb over many jobs: runs in chunks, how many are counted, and what comes meanwhile. What the routes say is in the transcripts
http-bulk.md and http-dead-letters-many.md."""

import pytest

from tests.kit.waiting import wait_for


def run_of(api, run_id):
    """It is on the list, once, from its start on."""
    [run] = [item for item in api.ok("GET", "/bulk")["items"] if item["id"] == run_id]
    return run


def finished(api, run_id):
    return wait_for(lambda: (run := run_of(api, run_id))["state"] != "running" and run, "the end of the run")


def by_state(api, **query):
    return {state: n for state, n in api.ok("GET", "/counts", **query)["by_state"].items() if n}


def test_all_that_match_are_cancelled_and_no_others(api):
    api.ok("POST", "/jobs", [{"task": "mail", "delay": "1h"}] * 700, status=201)
    api.ok("POST", "/jobs", [{"task": "once", "delay": "1h"}] * 3, status=201)
    running = api.submit()
    assert api.claim_one()["id"] == running
    body = {"verb": "cancel", "filter": {"task": "mail"}}
    assert api.ok("POST", "/bulk", {**body, "dry_run": True}) == {
        "verb": "cancel", "dry_run": True, "matched": 701, "at_least": False, "refused": 0}
    assert by_state(api, task="mail") == {"scheduled": 700, "running": 1}
    run = finished(api, api.ok("POST", "/bulk", body, status=202)["id"])
    assert (run["verb"], run["state"], run["matched"], run["changed"], run["refused"]) == ("cancel", "finished", 701, 701, 0)
    assert run["filter"] == {"task": "mail"} and run["rate"] is None and run["ended_at"] >= run["started_at"]
    assert by_state(api, task="mail") == {"cancelled": 701} and by_state(api, task="once") == {"scheduled": 3}
    assert api.ok("POST", "/bulk", body)["matched"] == 0  # 200: there is nothing to do


def test_other_filters_are_counted_one_by_one(api):
    api.ok("POST", "/jobs", [{"task": "mail", "delay": "1h", "user": "ann"}] * 450, status=201)
    api.submit(delay="1h", user="bob")
    body = {"verb": "cancel", "filter": {"user": "ann"}}
    asked = api.ok("POST", "/bulk", {**body, "dry_run": True})
    assert (asked["matched"], asked["at_least"]) == (450, False)
    assert finished(api, api.ok("POST", "/bulk", body, status=202)["id"])["changed"] == 450
    assert by_state(api) == {"scheduled": 1, "cancelled": 450}


def test_dead_letters_are_counted_up_to_a_number(api):
    for _ in range(21):
        api.ok("POST", "/jobs", [{"task": "once"}] * 500, status=201)
        items = [{"id": job["id"], "token": job["token"], "class": "permanent"} for job in api.claim(n=500)]
        api.ok("POST", "/settle", {"items": items})
    assert by_state(api) == {"dead_letter": 10500}
    letters = "/retry/dead-letters"
    asked = api.ok("POST", f"{letters}/retry", {"all": True, "dry_run": True})
    assert (asked["matched"], asked["at_least"]) == (10500, False)  # from the counts of the store
    few = {"filter": {"class": "permanent"}}
    asked = api.ok("POST", f"{letters}/retry", {**few, "dry_run": True})
    assert (asked["matched"], asked["at_least"]) == (10000, True)
    asked = api.ok("DELETE", letters, older_than_hours=0, dry_run="true")
    assert (asked["matched"], asked["at_least"]) == (10000, True)
    run = api.ok("POST", f"{letters}/retry", {**few, "rate": "1/h"}, status=202)
    assert (run["matched"], run["at_least"]) == (10000, True)
    shown = api.ok("GET", f"{letters}/retries")["items"][0]
    assert (shown["matched"], shown["at_least"]) == (10000, True)
    assert api("DELETE", f"{letters}/retries/{run['id']}").status == 204
    done = api.ok("DELETE", letters, older_than_hours=0)
    assert (done["matched"], done["at_least"]) == (done["removed"], False)
    assert done["removed"] >= 10499


def test_a_run_is_listed_all_the_time(api):
    for _ in range(40):
        api.submit(delay="1h")
        run_id = api.ok("POST", "/bulk", {"verb": "cancel", "filter": {"state": "scheduled"}}, status=202)["id"]
        wait_for(lambda: run_of(api, run_id)["state"] != "running", "its end")
        assert run_of(api, run_id)["changed"] == 1


def test_jobs_that_come_later_are_left_alone(api):
    api.ok("POST", "/jobs", [{"task": "mail", "delay": "1h"}] * 20, status=201)
    run_id = api.ok("POST", "/bulk", {"verb": "cancel", "all": True, "rate": "20/s"}, status=202)["id"]
    wait_for(lambda: run_of(api, run_id)["changed"] > 0, "the first one")
    later = api.submit(delay="1h")
    assert finished(api, run_id)["changed"] == 20
    assert api.state(later) == "scheduled"


@pytest.mark.parametrize("path, body", [("/bulk", {"verb": "cancel"}), ("/retry/dead-letters/retry", {"rate": "1/h"})])
def test_a_filter_that_a_run_could_not_keep_is_refused(api, path, body):
    longest = "x" * (65536 - len('{"text": ""}'))
    assert api.ok("POST", path, {**body, "filter": {"text": longest}})["matched"] == 0
    problem = api.problem(413, "POST", path, {**body, "filter": {"text": longest + "x"}})
    assert (problem["field"], "hint" in problem) == ("filter", True)


def test_a_server_stops_in_the_middle_of_a_run(start):
    server = start()
    server.api.ok("POST", "/jobs", [{"task": "mail", "delay": "1h"}] * 3, status=201)
    server.api.ok("POST", "/bulk", {"verb": "cancel", "all": True, "rate": "1/h"}, status=202)
    server.close()
