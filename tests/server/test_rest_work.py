"""Remote workers over HTTP: claims, settlements, leases, long polls."""

import json
import socket
import time

import pytest

from tests.kit.waiting import LIMIT_S, wait_for

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
        {"id": "unknown", "token": jobs[0]["token"], "status": "SUCCESS"},
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
    answers = api.ok("POST", "/extend", {"items": [beat, stale, {**beat, "id": "unknown"}]})["items"]
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
    with socket.create_connection(("127.0.0.1", api.port), timeout=LIMIT_S) as half:
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

    wait_for(is_quiet, "a moment in which they cost nothing")  # a busy machine takes long to read them all
    ids = [api.submit() for _ in range(20)]
    assert {api.state(job_id) for job_id in ids} <= {"queued", "running"}
    wait_for(lambda: all(api.state(job_id) == "running" for job_id in ids), "the claim of every job")
    served = [json.loads(c.getresponse().read())["jobs"] for c in waiting[:20]]
    assert sorted(job["id"] for jobs in served for job in jobs) == sorted(ids)
    server.close()
    answers = [c.getresponse() for c in waiting[20:]]
    assert {a.status for a in answers} <= {200, 503}
