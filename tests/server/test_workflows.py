"""Limits of jobs that wait for others: how many these are, and how long their results. What the routes say is in the transcript
http-jobs-waiting.md."""


def test_a_job_waits_for_a_limited_number(api):
    api.submit(id="a")
    assert api.problem(400, "POST", "/jobs", {"task": "mail", "after": ["a"] * 20000})["field"] == "after"


def run(api, job_id, **members):
    job = api.claim_one()
    assert job["id"] == job_id and "parents" not in job
    api.settle(job, **members)


def test_results_that_do_not_fit_are_marked(api):
    api.ok("POST", "/jobs", [{"task": "mail", "id": job_id} for job_id in "abc"] + [
        {"task": "mail", "id": "d", "after": ["a", "b", "c"]}], status=201)
    long = "x" * 200000
    for job_id in "ab":
        run(api, job_id, status="SUCCESS", result=long)
    run(api, "c", status="SUCCESS", result="short")
    assert api.claim_one()["parents"] == [
        {"id": "a", "state": "completed", "result": long},
        {"id": "b", "state": "completed", "result_omitted": True},
        {"id": "c", "state": "completed", "result": "short"}]
    assert api.ok("GET", "/jobs/b")["result"] == long


def test_many_children_of_a_large_result_are_claimed(api):
    """With the result of the parent in each of them the answer would be too long."""
    api.submit(id="large")
    api.settle(api.claim_one(), status="SUCCESS", result="x" * 250_000)
    for _ in range(2):
        api.ok("POST", "/jobs", [{"task": "mail", "after": "large"} for _ in range(150)], status=201)
    jobs = api.claim(n=300)
    assert len(jobs) == 300
    assert all(job["parents"] == [{"id": "large", "state": "completed", "result_omitted": True}] for job in jobs)
