"""Jobs and their life over HTTP."""

import http.client
import json
import re
import socket
import sqlite3
import time
import urllib.parse

import pytest

from rest_client import ROOT, TIMEOUT_S, api, start, tenants, token_line, until  # noqa: F401 (fixtures)

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
        api.problem(404, method, f"/jobs/nobody{path}")


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


# -- Workers ---------------------------------------------------------------------------------------


def test_a_job_is_claimed_and_settled(api):
    job_id = api.submit(payload=[1], deadline="2h")
    job = api.claim_one(worker="w1", lease="5m")
    assert (job["id"], job["task"], job["payload"], job["attempt"], job["max_attempts"]) == (job_id, "mail", [1], 1, 2)
    assert isinstance(job["token"], str)
    assert api.claim() == []
    assert api.settle(job, status="SUCCESS", result={"ok": True}) == {"id": job_id, "status": 200, "state": "completed"}
    shown = api.ok("GET", f"/jobs/{job_id}")
    assert (shown["result"], shown["worker"], len(shown["history"])) == ({"ok": True}, "w1", 1)


def test_a_failure_is_tried_again(api):
    job_id = api.submit()
    answer = api.settle(api.claim_one(), http_status=503, message="down")
    assert (answer["state"], answer["class"], answer["delay"]) == ("retrying", "transient", 0.01)
    job = api.claim_one()
    assert (job["id"], job["attempt"]) == (job_id, 2)
    assert api.settle(job, status="FAIL", error_type="java.net.ConnectException")["state"] == "dead_letter"
    shown = api.ok("GET", f"/jobs/{job_id}")
    assert (shown["last_error"]["class"], shown["reason"]) == ("network", "exhausted")


def test_a_stale_token_fails_alone(api):
    ids = [api.submit() for _ in range(3)]
    jobs = api.claim(n=3)
    assert [j["id"] for j in jobs] == ids
    items = [
        {"id": ids[0], "token": jobs[0]["token"], "status": "SUCCESS"},
        {"id": ids[1], "token": jobs[0]["token"], "status": "SUCCESS"},
        {"id": "nobody", "token": jobs[0]["token"], "status": "SUCCESS"},
        {"id": ids[2], "token": jobs[2]["token"], "status": "SUCCESS"},
    ]
    answers = api.ok("POST", "/settle", {"items": items})["items"]
    assert [a["status"] for a in answers] == [200, 409, 404, 200]
    assert [api.state(i) for i in ids] == ["completed", "running", "completed"]
    assert api.settle(jobs[0], status="SUCCESS")["status"] == 409
    assert api.settle(jobs[1], status="SUCCESS")["status"] == 200


def test_large_jobs_are_claimed_as_far_as_they_fit_an_answer(api):
    ids = []
    for _ in range(10):
        items = [{"task": "mail", "payload": "x" * 1_000_000} for _ in range(7)]
        ids += [item["id"] for item in api.ok("POST", "/jobs", items, status=201)["items"]]
    claimed = []
    while jobs := api.claim(n=100):
        assert len(jobs) < len(ids)
        claimed += [job["id"] for job in jobs]
    assert claimed == ids


@pytest.mark.parametrize("path", ["/settle", "/extend"])
def test_a_bad_item_fails_alone(api, path):
    ids = [api.submit() for _ in range(2)]
    jobs = api.claim(n=2)
    told = {"status": "SUCCESS"} if path == "/settle" else {"lease": "1m"}
    wrong = {"status": "BANANA"} if path == "/settle" else {"lease": "1 banana"}
    items = [
        {"id": ids[0], "token": jobs[0]["token"], **told},
        {"id": ids[1], "token": jobs[1]["token"], **wrong},
        {"token": jobs[1]["token"], **told},
        "no object",
        {"id": ids[1], "token": jobs[1]["token"], **told},
    ]
    answers = api.ok("POST", path, {"items": items})["items"]
    assert [a["status"] for a in answers] == [200, 400, 400, 400, 200]
    assert [a["id"] for a in answers] == [ids[0], ids[1], None, None, ids[1]]
    assert answers[1]["field"] == f"items[1].{next(iter(wrong))}" and answers[1]["detail"]
    assert answers[2]["field"] == "items[2].id" and answers[3]["field"] == "items[3]"
    assert [api.state(i) for i in ids] == ["completed" if path == "/settle" else "running"] * 2


def test_a_job_given_back_uses_no_attempt(api):
    job_id = api.submit()
    assert api.settle(api.claim_one(), release=True)["state"] == "queued"
    job = api.claim_one()
    assert (job["id"], job["attempt"]) == (job_id, 1)
    assert api.settle(job, snooze="1h")["state"] == "scheduled"
    assert api.ok("GET", f"/jobs/{job_id}")["attempts"] == 0


def test_a_lease_is_extended_by_its_holder(api):
    api.submit()
    job = api.claim_one(lease=30)
    beat = {"id": job["id"], "token": job["token"], "lease": "1h"}
    stale = {**beat, "token": "0" * 16}
    answers = api.ok("POST", "/extend", {"items": [beat, stale, {**beat, "id": "nobody"}]})["items"]
    assert [a["status"] for a in answers] == [200, 409, 404]
    assert api.ok("POST", "/extend", {"items": [{"id": job["id"], "token": job["token"]}]})["items"][0]["status"] == 200
    api.ok("DELETE", f"/jobs/{job['id']}")
    answer = api.ok("POST", "/extend", {"items": [beat]})["items"][0]
    assert (answer["status"], answer["state"]) == (409, "cancelled")


def test_an_expired_lease_is_taken_back(api):
    job_id = api.submit(retry={"strategy": "immediate", "max_retries": 5})
    late = api.claim_one(lease=1)
    assert api.claim_one()["id"] == job_id
    assert api.settle(late, status="SUCCESS")["status"] == 409


@pytest.mark.parametrize(
    "path, body, field",
    [
        ("/claim", {"n": 0}, "n"),
        ("/claim", {"wait": 61}, "wait"),
        ("/claim", {"lease": "1ms"}, "lease"),
        ("/claim", {"queue": "a"}, "queue"),
        ("/settle", {}, "items"),
        ("/settle", {"items": [{"id": "a", "token": "b"}]}, "items[0].status"),
        ("/settle", {"items": [{"id": "a", "token": "b", "status": "succes"}]}, "items[0].status"),
        ("/settle", {"items": [{"id": "a", "token": 7, "status": "SUCCESS"}]}, "items[0].token"),
        ("/extend", {"items": [{"id": "a"}]}, "items[0].token"),
    ],
)
def test_what_a_worker_says_wrong_is_named(api, path, body, field):
    assert api.problem(400, "POST", path, body)["field"] == field


# -- Long polls ------------------------------------------------------------------------------------


def test_a_claim_waits_for_a_job(api):
    waiting = api.open("POST", "/claim", {"wait": 30, "queues": ["main"]})
    elsewhere = api.open("POST", "/claim", {"wait": 30, "queues": ["side"]})
    time.sleep(0.2)
    job_id = api.submit()
    assert [j["id"] for j in json.loads(waiting.getresponse().read())["jobs"]] == [job_id]
    other = api.submit("once")
    assert [j["id"] for j in json.loads(elsewhere.getresponse().read())["jobs"]] == [other]


def test_a_claim_does_not_wait_for_ever(api):
    begin = time.monotonic()
    assert api.claim(wait="300ms") == []
    assert time.monotonic() - begin >= 0.29  # times are whole milliseconds


def test_a_claim_hears_of_jobs_whose_time_has_come(api):
    job_id = api.submit(delay="300ms")
    assert api.claim_one()["id"] == job_id


def test_a_client_that_has_gone_swallows_no_job(api):
    for _ in range(3):
        api.open("POST", "/claim", {"wait": 30}).close()
    job_id = api.submit()
    job = api.claim_one()
    assert (job["id"], job["attempt"]) == (job_id, 1)


def test_a_client_that_sends_no_more_is_not_shown_jobs_that_are_given_back(api):
    """The end of the sending side comes in one segment with the last bytes, so that it is seen."""
    job_id = api.submit()
    body = b'{"lease": 60}'
    with socket.create_connection(("127.0.0.1", api.port), timeout=TIMEOUT_S) as half:
        half.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        half.sendall(b"POST /claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        half.shutdown(socket.SHUT_WR)
        answer = half.makefile("rb").read()
    assert b" 503 " in answer.split(b"\r\n")[0] and job_id.encode() not in answer, answer
    job = api.claim_one()
    assert (job["id"], job["attempt"]) == (job_id, 1)


def test_many_idle_claims_cost_next_to_nothing(start):
    server = start()
    api, n = server.api, 400
    waiting = [api.open("POST", "/claim", {"wait": 60, "queues": ["main"]}) for _ in range(n)]

    def is_quiet():
        before = server.cpu_s()
        time.sleep(2)
        return server.cpu_s() - before < 0.2

    until(is_quiet, "a moment in which they cost nothing")  # a busy machine takes long to read them all
    ids = [api.submit() for _ in range(20)]
    assert {api.state(job_id) for job_id in ids} <= {"queued", "running"}
    until(lambda: all(api.state(job_id) == "running" for job_id in ids), "the claim of every job")
    served = [json.loads(c.getresponse().read())["jobs"] for c in waiting[:20]]
    assert sorted(job["id"] for jobs in served for job in jobs) == sorted(ids)
    assert server.stop() == 0
    answers = [c.getresponse() for c in waiting[20:]]
    assert {a.status for a in answers} <= {200, 503}


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
    until(lambda: api.state(job_id) == "parked", "parking")
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
    until(lambda: api.state(job_id) == "parked", "parking")
    held = api.ok("GET", f"/jobs/{job_id}")["held_by"]
    assert (held["kind"], held["key"], held["state"]) == ("breaker", "mail", "open")
    assert held["may_go_at"] == breaker(api, "mail")["next_probe_at"]


def test_breakers_are_moved_by_hand(api):
    assert api.ok("POST", "/retry/circuit-breakers/a%2Fb/trip")["state"] == "forced_open"
    assert breaker(api, "a/b")["state"] == "forced_open"
    assert api.ok("POST", "/retry/circuit-breakers/a%2Fb/disable")["state"] == "disabled"
    assert api.ok("POST", "/retry/circuit-breakers/a%2Fb/reset")["state"] == "closed"
    assert api.problem(400, "POST", "/retry/simulate-failure")["field"] == "task_type"


# -- Dead letters ----------------------------------------------------------------------------------


def test_a_dead_letter_tells_why_it_died(api):
    job_id = api.kill(message="no such bucket 17", payload={"a": 1})
    (item,) = api.ok("GET", "/retry/dead-letters")["items"]
    assert (item["task_id"], item["error_message"], item["error_type"]) == (job_id, "no such bucket 17", "IOError")
    assert (item["retry_count"], item["attempts"], item["failed_at"]) == (1, 1, item["finished_at"])
    shown = api.ok("GET", f"/retry/dead-letters/{job_id}")
    assert shown["payload"] == {"a": 1} and shown["reason"] == "not_retriable"
    assert [a["error"]["type"] for a in shown["history"]] == ["IOError"]
    live = api.submit()
    for other in (live, "nobody"):
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
    for other in (job_id, live, "nobody"):
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
    for i in range(3):
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
    for i in range(6):
        api.kill()
    begin = time.monotonic()
    answer = api.ok("POST", "/retry/dead-letters/retry", {"all": True, "rate": "10/s"}, status=202)
    assert (answer["matched"], answer["finished"]) == (6, False)
    until(lambda: api.ok("GET", "/retry/dead-letters")["items"] == [], "the redrive")
    assert time.monotonic() - begin >= 0.4


def test_redrives_at_a_rate_are_shown_and_stopped(api):
    for i in range(3):
        api.kill()
    api.kill(message="another")
    asked = {"filter": {"text": "bucket"}, "rate": "1/h"}
    run = api.ok("POST", "/retry/dead-letters/retry", asked, status=202)["id"]
    api.ok("POST", "/retry/dead-letters/retry", {"all": True, "rate": 1}, status=202)
    # The first of an hour goes at once.
    until(lambda: api.ok("GET", "/retry/dead-letters/retries")["items"][0]["redriven"] == 1, "the first one")
    until(lambda: len(api.ok("GET", "/retry/dead-letters/retries")["items"]) == 1, "the end of the faster one")
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
    for i in range(3):
        server.api.kill()
    server.api.ok("POST", "/retry/dead-letters/retry", {"all": True, "rate": "1/h"}, status=202)
    assert server.stop() == 0


def test_a_purge_needs_an_age(api):
    for i in range(3):
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
    assert first.stop() == 0
    assert start().api.ok("GET", "/cron")["items"] == [entry]


def test_a_stored_entry_makes_jobs_of_its_tenant(start, tmp_path):
    everything = "enqueue, work, read, admin"
    tokens = "tokens:\n" + token_line("red", everything, "red") + token_line("blue", everything, "blue")
    first = start(tokens)
    body = {"task": "mail", "schedule": "* * * * *", "payload": {"n": 1}}
    first.api.of("red").ok("PUT", "/cron/beat", body, status=201)
    assert first.stop() == 0
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


# -- Tenants ---------------------------------------------------------------------------------------


def documented_routes():
    """Every (method, path) of docs/openapi.yaml that asks for a token."""
    routes, path, method = set(), None, None
    for line in (ROOT / "docs" / "openapi.yaml").read_text().splitlines():
        if found := re.fullmatch(r"  (/\S*):", line):
            path = found[1]
        elif found := re.fullmatch(r"    (get|post|put|patch|delete):", line):
            method = found[1].upper()
        elif re.fullmatch(r"      security: \[\{\w+: \[\]\}\]", line):
            routes.add((method, path))
    return routes


class Tracked:
    """An api that remembers which routes were asked for."""

    def __init__(self, api):
        self.api = api
        self.routes = set()

    def __call__(self, method, path, route=None, body=None, **query):
        self.routes.add((method, route or path))
        return self.api(method, path, body, **query)


def test_a_tenant_sees_and_changes_its_own_only(tenants):
    red, blue, _ = tenants
    dead, live = red.kill(), red.submit(delay="1h")
    red.kill(message="slow"), red.kill(message="slow")
    slow = {"filter": {"text": "slow"}, "rate": "1/d"}
    run = red.ok("POST", "/retry/dead-letters/retry", slow, status=202)["id"]
    until(lambda: red.ok("GET", "/retry/dead-letters/retries")["items"][0]["redriven"] == 1, "the first one")
    red.settle(red.claim_one(), status="SUCCESS")
    red.submit(id="running")
    leased = red.claim_one()
    red.ok("POST", "/retry/circuit-breakers/mail/trip")
    red.ok("POST", "/queues/side/pause")
    red.ok("PUT", "/cron/beat", {"task": "mail", "schedule": "@yearly"}, status=201)
    as_red = lambda: [red(*r).raw for r in (
        ("GET", "/jobs"), ("GET", "/retry/dead-letters"), ("GET", "/retry/circuit-breakers"), ("GET", "/queues"),
        ("GET", "/cron"))]
    before = as_red()

    ask = Tracked(blue)
    for method, route in (("GET", "/jobs/{id}"), ("GET", "/jobs/{id}/workflow"), ("DELETE", "/jobs/{id}"), ("POST", "/jobs/{id}/retry")):
        for job_id in (dead, live, "running"):
            assert ask(method, route.replace("{id}", job_id), route).status == 404
    for letter in ("/retry/dead-letters/{id}", "/retry/dead-letters/by-id/{id}"):
        assert ask("GET", letter.replace("{id}", dead), letter).status == 404
        assert ask("PATCH", letter.replace("{id}", dead), letter, {"payload": 1}).status == 404
        assert ask("DELETE", letter.replace("{id}", dead), letter).status == 404
        assert ask("POST", letter.replace("{id}", dead) + "/retry", letter + "/retry").status == 404
    for path in ("/jobs", "/retry/dead-letters", "/retry/dead-letters/groups", "/queues", "/workers", "/cron", "/limits", "/experiments"):
        assert ask("GET", path)["items"] == []
    assert ask("GET", "/experiments/patience", "/experiments/{name}").status == 404
    for own in ask("GET", "/retry/circuit-breakers")["items"]:  # as the tasks declare them, and no more
        assert (own["tenant"], own["state"], own["failure_count"]) == ("blue", "closed", 0)
    assert ask("GET", "/retry/dead-letters/stats")["total_jobs"] == 0
    assert ask("GET", "/retry/stats")["execution_stats"]["total_executed"] == 0
    assert ask("GET", "/retry/stats")["dead_letter_stats"]["total_dead_letters"] == 0
    assert ask("GET", "/stats")["counters"]["jobs_received"] == 0
    assert ask("GET", "/counts")["total"] == 0
    assert (ask("GET", "/summary")["n_queues"], ask("GET", "/rates")["items"]) == (0, [])
    assert ask("GET", "/latency")["items"] == []
    breakers = "/retry/circuit-breakers/history"
    assert [c["state"] for c in red("GET", breakers)["items"]] == ["forced_open"] and ask("GET", breakers)["items"] == []
    assert ask("GET", "/simulate", outage="5s", strategies="none")["best"] == "none"
    assert all(task["counters"]["jobs_received"] == 0 for task in ask("GET", "/tasks")["items"])
    assert ask("GET", "/tasks/once", "/tasks/{task}")["declared"]
    assert ask("POST", "/session")["tenant"] == "blue"
    assert b'"once"' in red("GET", "/metrics").raw
    assert b'"once"' not in ask("GET", "/metrics").raw
    assert ask("GET", "/events").status == 404  # this server tells none, see test_events.c
    assert ask("POST", "/retry/dead-letters/retry", body={"all": True})["matched"] == 0
    assert ask("GET", "/retry/dead-letters/retries")["items"] == []
    retries = "/retry/dead-letters/retries/{id}"
    assert ask("DELETE", retries.replace("{id}", run), retries).status == 404
    assert ask("DELETE", "/retry/dead-letters", older_than_hours=0)["removed"] == 0
    for verb in ("cancel", "retry"):
        assert ask("POST", "/bulk", body={"verb": verb, "all": True})["matched"] == 0
    assert ask("GET", "/bulk")["items"] == [] and red("GET", "/bulk")["items"][0]["verb"] == "redrive"
    assert ask("DELETE", f"/bulk/{run}", "/bulk/{id}").status == 404
    assert ask("POST", "/claim", body={"n": 10})["jobs"] == []
    item = {"id": "running", "token": leased["token"]}
    assert ask("POST", "/settle", body={"items": [{**item, "status": "SUCCESS"}]})["items"][0]["status"] == 404
    assert ask("POST", "/extend", body={"items": [item]})["items"][0]["status"] == 404
    for verb in ("reset", "disable", "trip"):
        route = "/retry/circuit-breakers/{type}/" + verb
        assert ask("POST", route.replace("{type}", "mail"), route).status == 200
    assert ask("POST", "/retry/simulate-failure", task_type="mail").status == 200
    for verb in ("pause", "resume"):
        assert ask("POST", f"/queues/side/{verb}", "/queues/{queue}/" + verb).status == 200
    assert ask("DELETE", "/cron/beat", "/cron/{name}").status == 404
    assert ask("POST", "/cron/beat/run", "/cron/{name}/run").status == 404
    assert ask("PUT", "/cron/beat", "/cron/{name}", {"task": "once", "schedule": "@daily"}).status == 201
    own = ask("POST", "/jobs", body={"task": "mail", "id": "running", "unique_key": "k"})
    assert (own.status, own["existed"]) == (201, False)
    assert ask("POST", "/tasks/once", "/tasks/{task}").status == 202
    assert ask.routes == documented_routes()

    assert as_red() == before
    assert red("DELETE", retries.replace("{id}", run)).status == 204
    assert red.settle(leased, status="SUCCESS")["status"] == 200
    assert blue.state("running") == "queued"


def test_who_may_read_changes_nothing(tenants):
    red, _, reader = tenants
    job_id = red.submit()
    login = {("POST", "/session")}  # which is their own
    for method, route in sorted(documented_routes() - login):
        path = re.sub(r"\{\w+\}", urllib.parse.quote(job_id), route)
        answer = reader(method, path, b"{}" if method != "GET" else None)
        assert (answer.status == 403) == (method != "GET"), (method, route, answer.raw)
    assert red.state(job_id) == "queued"


def test_without_a_token_nothing_is_told(tenants):
    nobody = tenants[0].of("nobody")
    for method, route in sorted(documented_routes()):
        assert nobody(method, re.sub(r"\{\w+\}", "x", route)).status == 401


def refused_half_way(port, length, body):
    """The connection of a stranger who has sent a part of a body."""
    stranger = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    stranger.sendall(b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % length)
    stranger.sendall(body)
    return stranger


def test_bodies_of_strangers_take_no_memory(start):
    server = start("tokens:\n" + token_line("red", "enqueue", "red"))
    server.api.of("red").submit()
    before, length = server.resident_mib(), 8 << 20
    strangers = [refused_half_way(server.api.port, length, b" " * (length - 1)) for _ in range(16)]
    # The last byte is missing; the kernel has a few MiB of what comes before.
    assert server.resident_mib() - before < 48
    for stranger in strangers:
        with stranger:
            stranger.sendall(b"]")
            assert stranger.recv(100).startswith(b"HTTP/1.1 401 ")


def test_a_stranger_who_asks_before_sending_is_told_at_once(tenants):
    with socket.create_connection(("127.0.0.1", tenants[0].port), timeout=TIMEOUT_S) as stranger:
        stranger.sendall(
            b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
        )
        assert stranger.makefile("rb").read().startswith(b"HTTP/1.1 401 ")


def test_a_connection_is_used_again(api):
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    for i in range(5):
        connection.request("POST", "/v1/jobs", body=json.dumps({"task": "mail"}))
        assert connection.getresponse().read()
    connection.close()
