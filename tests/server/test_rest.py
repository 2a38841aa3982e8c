"""Jobs and their life over HTTP."""

import urllib.parse

import pytest

# -- Submit ----------------------------------------------------------------------------------------


def test_a_job_is_submitted_and_shown(api):
    answer = api.ok("POST", "/jobs", {"task": "mail", "payload": {"to": "a"}, "priority": 7, "user": "u"}, status=201)
    assert answer["state"] == "queued" and answer["existed"] is False
    job = api.ok("GET", f"/jobs/{answer['id']}")
    assert job["payload"] == {"to": "a"}
    assert (job["queue"], job["priority"], job["user"], job["max_attempts"]) == ("main", 7, "u", 2)
    assert (job["job_id"], job["task_name"], job["status"]) == (job["id"], "mail", "queued")
    assert job["scheduled_at"] == job["process_after"]
    assert job["history"] == []


def test_a_payload_is_kept_byte_for_byte(api):
    body = b'{"task": "mail", "payload": {"n":  1.50, "big": 12345678901234567890123}}'
    job_id = api.ok("POST", "/jobs", body, status=201)["id"]
    assert b'"payload":{"n":  1.50, "big": 12345678901234567890123}' in api("GET", f"/jobs/{job_id}").raw


def test_an_array_is_all_or_nothing(api):
    good, bad = {"task": "mail"}, {"task": "mail", "retry": {"strategy": "wild"}}
    assert api.problem(400, "POST", "/jobs", [good, bad])["field"] == "[1].retry"
    assert api.problem(400, "POST", "/jobs", [good, {"task": "picky"}])["field"] == "[1].payload"
    assert api.problem(400, "POST", "/jobs", [good, {"task": "mail", "priority": 101}])["field"] == "[1].priority"
    assert api.ok("GET", "/jobs")["items"] == []
    items = api.ok("POST", "/jobs", [good, {"task": "mail", "id": "second"}], status=201)["items"]
    assert [item["state"] for item in items] == ["queued", "queued"]
    assert items[1]["id"] == "second"


def test_an_unknown_member_is_named_with_the_nearest(api):
    problem = api.problem(400, "POST", "/jobs", {"task": "mail", "priorty": 1})
    assert problem["field"] == "priorty"
    assert "'priority'" in problem["hint"]


def test_what_is_no_json_is_refused(api):
    for body in (b"", b"{", b'{"task":"mail"}}', b"[]", b"3", b'{"task":"mail","task":"mail"}', b'{"task":"\xff"}'):
        api.problem(400, "POST", "/jobs", body)
    assert api.problem(400, "POST", "/tasks/mail", b"{")["field"] == "payload"
    assert api.problem(400, "POST", "/tasks/picky")["field"] == "payload"
    assert api.problem(413, "POST", "/tasks/" + "x" * 256)["field"] == "task"


def test_a_payload_has_a_limit(api):
    problem = api.problem(413, "POST", "/jobs", {"task": "mail", "payload": "x" * (1 << 20)})
    assert problem["field"] == "payload"


def test_the_same_id_is_the_same_job(api):
    api.submit(id="order-1", payload=1)
    again = api.ok("POST", "/jobs", {"task": "mail", "id": "order-1", "payload": 2}, status=201)
    assert again == {"id": "order-1", "state": "queued", "existed": True}
    assert api.ok("GET", "/jobs/order-1")["payload"] == 1


def test_the_same_key_is_the_same_job(api):
    key = {"Idempotency-Key": "order-1"}
    first = api.ok("POST", "/jobs", {"task": "mail"}, status=201, headers=key)
    second = api.ok("POST", "/jobs", {"task": "mail"}, status=201, headers=key)
    assert (first["id"], first["existed"], second["id"], second["existed"]) == ("order-1", False, "order-1", True)
    key = {"Idempotency-Key": "batch-1"}
    for existed in (False, True):
        items = api.ok("POST", "/jobs", [{"task": "mail"}, {"task": "mail"}], status=201, headers=key)["items"]
        assert [(i["id"], i["existed"]) for i in items] == [("batch-1/0", existed), ("batch-1/1", existed)]
    assert api.ok("GET", "/jobs/batch-1%2F1")["id"] == "batch-1/1"
    key = {"Idempotency-Key": "x" * 201}
    assert api.problem(413, "POST", "/tasks/mail", b"1", headers=key)["field"] == "Idempotency-Key"


def test_a_key_that_was_used_for_another_request_is_refused(api):
    def again(path, body, key):
        return api.problem(409, "POST", path, body, headers={"Idempotency-Key": key})

    key = {"Idempotency-Key": "order-1"}
    api.ok("POST", "/jobs", {"task": "mail", "payload": {"n": 1}, "delay": "1h"}, status=201, headers=key)
    problem = again("/jobs", {"task": "mail", "payload": {"n": 2}}, "order-1")
    assert problem["type"] == "urn:redrive:exists" and problem["field"] == "Idempotency-Key"
    assert "order-1" in problem["detail"] and "payload" in problem["detail"]
    assert "task" in again("/jobs", {"task": "once", "payload": {"n": 1}}, "order-1")["detail"]
    again("/tasks/mail", {"n": 2}, "order-1")
    # The same by the other path is the same; a delay counts from when it was sent, and is not compared.
    assert api.ok("POST", "/tasks/mail", {"n": 1}, status=202, headers=key)["existed"]
    assert api.ok("GET", "/jobs/order-1")["payload"] == {"n": 1}

    two = [{"task": "mail", "payload": 1}, {"task": "mail", "payload": 2}]
    api.ok("POST", "/jobs", two, status=201, headers={"Idempotency-Key": "batch"})
    for other in (two[::-1], two[:1], two + two[:1], [two[0], {"task": "once", "payload": 2}]):
        again("/jobs", other, "batch")
    assert len(api.ok("GET", "/jobs")["items"]) == 3


def test_a_new_job_says_where_it_is(api):
    for body in ({"task": "mail", "id": "a/b ü%"}, {"task": "mail", "id": "plain-1"}, {"task": "mail"}):
        answer = api("POST", "/jobs", body)
        assert answer.headers["Location"].startswith("/v1/jobs/")
        assert api.ok("GET", answer.headers["Location"])["id"] == answer["id"]
    again = api("POST", "/jobs", {"task": "mail", "id": "plain-1"})
    assert (again.status, again["existed"], again.headers["Location"]) == (201, True, "/v1/jobs/plain-1")
    answer = api("POST", "/tasks/mail", b"1")
    assert api.ok("GET", answer.headers["Location"])["payload"] == 1
    assert api("POST", "/jobs", [{"task": "mail"}]).headers["Location"] is None
    assert api("POST", "/jobs", {"task": ""}).headers["Location"] is None


def test_a_unique_key_has_one_live_job(api):
    first = api.submit(unique_key="k")
    assert api.submit(unique_key="k") == first
    api.ok("DELETE", f"/jobs/{first}")
    assert api.submit(unique_key="k") != first


def test_the_body_of_a_task_is_its_payload(api):
    answer = api.ok("POST", "/tasks/mail", b' {"joke":  1} \n', status=202)
    assert answer["state"] == "queued"
    assert b'"payload":{"joke":  1}' in api("GET", f"/jobs/{answer['id']}").raw
    assert api.ok("POST", "/tasks/unheard%2Fof", status=202)["existed"] is False


def test_a_body_of_nothing_but_space_is_refused(api):
    """As on the command line, where the payload ' ' is; only no body at all is none."""
    for blank in (b" ", b"\n", b" \t\r\n "):
        problem = api.problem(400, "POST", "/tasks/mail", blank)
        assert (problem["field"], "not JSON" in problem["detail"]) == ("payload", True)
        for path in ("/jobs", "/claim", "/settle", "/extend", "/retry/dead-letters/retry"):
            api.problem(400, "POST", path, blank)
    assert api.ok("GET", "/jobs")["items"] == []
    assert api.ok("POST", "/claim", b"")["jobs"] == []
    assert api.ok("POST", "/tasks/mail", b"", status=202)["existed"] is False


def test_a_key_that_is_there_twice_is_refused(api):
    for path, body in (
        ("/jobs", '{"task": "mail", "task": "once"}'),
        ("/jobs", '[{"task": "mail", "payload": {"a": 1, "b": [{"c": 1, "c": 2}]}}]'),
        ("/tasks/mail", '{"a": 1, "a": 1}'),
        ("/tasks/mail", '{"a": 1, "\\u0061": 1}'),
        ("/claim", '{"n": 1, "n": 2}'),
        ("/settle", '{"items": [], "items": []}'),
        ("/retry/dead-letters/retry", '{"all": true, "all": true}'),
    ):
        assert "expected each key once" in api.problem(400, "POST", path, body)["detail"], path
    assert api.ok("GET", "/jobs")["items"] == []


def test_a_job_waits_for_its_time(api):
    job_id = api.submit(delay="1h")
    job = api.ok("GET", f"/jobs/{job_id}")
    assert job["state"] == "scheduled"
    assert api.claim() == []
    assert api.ok("GET", f"/jobs/{api.submit(at='2999-01-01T00:00:00Z')}")["scheduled_at"].startswith("2999-01-01")


# -- Lists -----------------------------------------------------------------------------------------


def test_pages_hold_every_job_once(api):
    ids = [item["id"] for item in api.ok("POST", "/jobs", [{"task": "mail"}] * 25, status=201)["items"]]
    for order, expected in (("oldest", ids), ("newest", ids[::-1])):
        seen, cursor = [], {}
        while True:
            page = api.ok("GET", "/jobs", order=order, limit=10, **cursor)
            seen += [job["id"] for job in page["items"]]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert seen == expected


def test_a_page_longer_than_one_read_is_whole(api):
    api.ok("POST", "/jobs", [{"task": "mail"}] * 120, status=201)
    page = api.ok("GET", "/jobs", limit=110)
    assert len({job["id"] for job in page["items"]}) == 110
    assert len(api.ok("GET", "/jobs", limit=110, cursor=page["next"])["items"]) == 10


def test_a_page_of_large_jobs_ends_early_and_goes_on(api):
    for i in range(12):
        api.submit(id=f"large-{i}", payload="x" * 900_000)
    first = api.ok("GET", "/jobs", order="oldest", limit=1000)
    assert first["next"] is None or len(first["items"]) < 12
    seen, page = list(first["items"]), first
    while page["next"]:
        page = api.ok("GET", "/jobs", order="oldest", limit=1000, cursor=page["next"])
        seen += page["items"]
    assert [job["id"] for job in seen] == [f"large-{i}" for i in range(12)]


def test_large_results_do_not_make_a_list_too_long(api):
    for i in range(40):
        api.submit(id=f"large-{i}", payload="x" * 1_000_000)
    while jobs := api.claim(n=5):
        for job in jobs:
            api.settle(job, status="SUCCESS", result="y" * 900_000)
    seen, cursor = [], {}
    while True:
        page = api.ok("GET", "/jobs", order="oldest", limit=1000, **cursor)
        seen += [job["id"] for job in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == [f"large-{i}" for i in range(40)]


def test_filters_narrow_a_list_down(api):
    a, b = api.submit(user="ann"), api.submit("once")
    assert [j["id"] for j in api.ok("GET", "/jobs", task="once")["items"]] == [b]
    assert [j["id"] for j in api.ok("GET", "/jobs", queue="main")["items"]] == [a]
    assert [j["id"] for j in api.ok("GET", "/jobs", user="ann")["items"]] == [a]
    api.ok("DELETE", f"/jobs/{a}")
    assert [j["id"] for j in api.ok("GET", "/jobs", state="cancelled,dead_letter")["items"]] == [a]
    assert [j["id"] for j in api.ok("GET", "/jobs?status=queued&state=running")["items"]] == [b]


@pytest.mark.parametrize(
    "query, field",
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("state=quued", "state"),
        ("task=", "task"),
        ("tenant=other", "tenant"),
        ("cursor=nonsense", "cursor"),
        ("older_than=5", "older_than"),
        ("task=a&task=b", "task"),
    ],
)
def test_a_wrong_parameter_is_named(api, query, field):
    assert api.problem(400, "GET", f"/jobs?{query}")["field"] == field


# -- Cancel and retry ------------------------------------------------------------------------------


def test_a_job_is_cancelled_once(api):
    job_id = api.submit()
    assert api.ok("DELETE", f"/jobs/{job_id}") == {"id": job_id, "state": "cancelled"}
    assert "cancelled" in api.problem(409, "DELETE", f"/jobs/{job_id}")["detail"]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/retry")):
        api.problem(404, method, f"/jobs/unknown{path}")


def test_a_waiting_job_runs_now(api):
    job_id = api.submit(delay="1h")
    for _ in range(2):
        assert api.ok("POST", f"/jobs/{job_id}/retry")["state"] == "queued"
    assert api.claim_one()["id"] == job_id
    assert "running" in api.problem(409, "POST", f"/jobs/{job_id}/retry")["detail"]


def test_a_dead_job_begins_anew(api):
    job_id = api.kill()
    assert api.ok("POST", f"/jobs/{job_id}/retry")["state"] == "queued"
    job = api.ok("GET", f"/jobs/{job_id}")
    assert (job["epoch"], job["attempts"], len(job["history"])) == (1, 0, 1)


def test_what_is_done_stays_done(api):
    done, gone = api.submit(), api.submit(delay="1h")
    api.settle(api.claim_one(), status="SUCCESS")
    api.ok("DELETE", f"/jobs/{gone}")
    for job_id, state in ((done, "completed"), (gone, "cancelled")):
        assert state in api.problem(409, "POST", f"/jobs/{job_id}/retry")["detail"]
        assert api.state(job_id) == state


# -- Ids that are words of paths ------------------------------------------------------------------


@pytest.mark.parametrize("job_id", ["stats", "groups", "retry", "retries", "by-id", "a/b", "v1", "{id}", "jobs"])
def test_every_id_can_be_reached(api, job_id):
    api.kill(id=job_id, payload=1)
    name = urllib.parse.quote(job_id, safe="")
    job, letter = f"/v1/jobs/{name}", f"/v1/retry/dead-letters/by-id/{name}"
    assert api.ok("GET", job)["id"] == job_id
    assert api.ok("GET", letter)["id"] == job_id
    api.ok("PATCH", letter, {"payload": 2})
    assert api.ok("GET", letter)["payload"] == 2
    assert api.ok("POST", letter + "/retry") == {"id": job_id, "state": "queued"}
    assert api.ok("DELETE", job)["state"] == "cancelled"
    api.problem(404, "GET", letter)
    api.kill(id=job_id + "-2")
    assert api("DELETE", f"/v1/retry/dead-letters/by-id/{name}-2").status == 204
    api.problem(404, "GET", f"{job}-2")


def test_words_of_paths_are_no_ids(api):
    """What removes or edits a job must not be reached by a slip."""
    api.kill(id="stats")
    for method, word in (("DELETE", "stats"), ("PATCH", "groups"), ("DELETE", "retries"), ("GET", "retry")):
        api.problem(405, method, f"/retry/dead-letters/{word}")
    assert api.ok("GET", "/retry/dead-letters/stats")["total_jobs"] == 1
