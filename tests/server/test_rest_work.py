"""Remote workers over HTTP: large answers, leases that end, long polls. What the routes say is in the transcripts http-work*.md."""

import json
import socket
import time

from tests.kit.waiting import LIMIT_S, wait_for

# -- Workers ---------------------------------------------------------------------------------------


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


def test_an_expired_lease_is_taken_back(api):
    job_id = api.submit(retry={"strategy": "immediate", "max_retries": 5})
    late = api.claim_one(lease=1)
    assert api.claim_one()["id"] == job_id
    assert api.settle(late, status="SUCCESS")["status"] == 409


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
