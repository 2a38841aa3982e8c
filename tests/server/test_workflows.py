"""Jobs that wait for others, over HTTP."""


def state(api, job_id):
    return api.ok("GET", f"/jobs/{job_id}")["state"]


def test_a_chain_runs_in_its_order(api):
    items = api.ok("POST", "/jobs", [
        {"task": "mail", "id": "a"}, {"task": "mail", "id": "b", "after": "a"},
        {"task": "mail", "id": "c", "after": [{"id": "b"}]}], status=201)["items"]
    assert [item["state"] for item in items] == ["queued", "waiting", "waiting"]
    for job_id in "abc":
        job = api.claim_one()
        assert job["id"] == job_id
        api.settle(job, status="SUCCESS")
    assert state(api, "c") == "completed"


def test_a_job_shows_what_it_waits_for(api):
    api.ok("POST", "/jobs", [{"task": "mail", "id": "a"}, {"task": "mail", "id": "b"}], status=201)
    api.ok("POST", "/jobs", {"task": "mail", "id": "c", "after": ["a", {"id": "b", "on": "end", "on_dead": "run"}]}, status=201)
    job = api.ok("GET", "/jobs/c")
    assert (job["state"], job["parents"], job["open_parents"]) == ("waiting", 2, 2)
    assert job["after"] == [
        {"id": "a", "on": "success", "on_dead": "wait", "outcome": "open", "state": "queued"},
        {"id": "b", "on": "end", "on_dead": "run", "outcome": "open", "state": "queued"}]
    parent = api.ok("GET", "/jobs/a")
    assert parent["children"] == 1 and [f["id"] for f in parent["followers"]] == ["c"]
    api.ok("DELETE", "/jobs/b")
    api.ok("DELETE", "/jobs/a")
    job = api.ok("GET", "/jobs/c")
    assert (job["state"], job["reason"]) == ("cancelled", "skipped")
    assert "'a'" in job["last_error"]["message"] and job["history"][0]["outcome"] == "cancelled"
    assert [e["outcome"] for e in job["after"]] == ["missed", "met"]


def test_a_callback_runs_after_a_parent_that_was_redriven(api):
    dead = api.kill(id="a")
    api.ok("POST", "/jobs", {"task": "mail", "id": "b", "after": dead}, status=201)
    assert state(api, "b") == "waiting"
    api.ok("POST", f"/jobs/{dead}/retry")
    job = api.claim_one()
    assert job["id"] == dead and state(api, "b") == "waiting"
    api.settle(job, status="SUCCESS")
    assert api.claim_one()["id"] == "b"


def test_a_removed_parent_does_not_leave_a_job_waiting(api):
    dead = api.kill(id="a")
    api.ok("POST", "/jobs", {"task": "mail", "id": "b", "after": dead}, status=201)
    api.ok("DELETE", f"/retry/dead-letters/by-id/{dead}", status=204)
    job = api.ok("GET", "/jobs/b")
    assert (job["state"], job["reason"]) == ("cancelled", "skipped")
    assert job["after"][0]["id"] is None and job["after"][0]["outcome"] == "missed"


def test_a_waiting_job_is_not_run_by_hand(api):
    api.ok("POST", "/jobs", [{"task": "mail", "id": "a"}, {"task": "mail", "id": "b", "after": "a"}], status=201)
    assert "waiting" in api.problem(409, "POST", "/jobs/b/retry")["detail"]


def test_bad_edges_are_refused_with_their_place(api):
    api.submit(id="a")
    for after, words in (
        ("missing", "is not there"), ("b", "would wait for itself"), (["a", "a"], "named twice"),
        ([{"id": "a", "on": "sometimes"}], "success, end or failure"), ([{"id": "a", "on_dead": "x"}], "wait, cancel or run"),
        ([{"id": "a", "when": "x"}], "unknown member"), ([{"on": "end"}], "id of a job"), (3, "expected"), ([""], "id of a job"),
    ):
        problem = api.problem(400, "POST", "/jobs", {"task": "mail", "id": "b", "after": after})
        assert problem["field"] == "after" and words in str(problem), (after, problem)
    later = [{"task": "mail", "id": "x", "after": "y"}, {"task": "mail", "id": "y"}]
    problem = api.problem(400, "POST", "/jobs", later)
    assert problem["field"] == "[0].after" and "comes later" in str(problem)
    assert api.problem(400, "POST", "/jobs", {"task": "mail", "after": ["a"] * 20000})["field"] == "after"
    assert [job["id"] for job in api.ok("GET", "/jobs")["items"]] == ["a"]


def test_a_job_of_another_tenant_cannot_be_waited_for(tenants):
    red, blue, _ = tenants
    red.submit(id="a")
    assert "is not there" in str(blue.problem(400, "POST", "/jobs", {"task": "mail", "after": "a"}))
    assert "children" not in red.ok("GET", "/jobs/a")


def test_an_array_with_one_parent_under_two_names_leaves_nothing(api):
    answer = api.problem(400, "POST", "/jobs", [
        {"task": "mail", "id": "a", "unique_key": "k"}, {"task": "mail", "id": "b", "unique_key": "k"},
        {"task": "mail", "id": "c", "after": ["a", "b"]}])
    assert "is the same job as another that is named" in str(answer)
    assert api.ok("GET", "/jobs")["items"] == []


# ---- Results ----------------------------------------------------------------------------------------


def run(api, job_id, **members):
    job = api.claim_one()
    assert job["id"] == job_id and "parents" not in job
    api.settle(job, **members)


def test_a_claimed_job_has_the_results_of_its_parents(api):
    api.ok("POST", "/jobs", [
        {"task": "mail", "id": "a"}, {"task": "once", "id": "b"}, {"task": "mail", "id": "c"},
        {"task": "mail", "id": "d", "after": ["c", {"id": "b", "on": "end"}, "a"]}], status=201)
    run(api, "a", status="SUCCESS", result={"n": 1.50})
    run(api, "b", status="PERMANENT_FAIL", message="no")
    run(api, "c", status="SUCCESS")
    job = api.claim_one()
    assert job["id"] == "d" and job["parents"] == [
        {"id": "a", "state": "completed", "result": {"n": 1.50}},
        {"id": "b", "state": "dead_letter", "result": None},
        {"id": "c", "state": "completed", "result": None}]


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


def test_a_parent_that_was_removed_is_not_listed(api):
    dead = api.kill(id="a")
    api.ok("POST", "/jobs", {"task": "mail", "id": "b", "after": {"id": dead, "on": "end"}}, status=201)
    api.ok("DELETE", f"/retry/dead-letters/by-id/{dead}", status=204)
    job = api.claim_one()
    assert job["id"] == "b" and job["parents"] == []


def test_many_children_of_a_large_result_are_claimed(api):
    """With the result of the parent in each of them the answer would be too long."""
    api.submit(id="large")
    api.settle(api.claim_one(), status="SUCCESS", result="x" * 250_000)
    for _ in range(2):
        api.ok("POST", "/jobs", [{"task": "mail", "after": "large"} for _ in range(150)], status=201)
    jobs = api.claim(n=300)
    assert len(jobs) == 300
    assert all(job["parents"] == [{"id": "large", "state": "completed", "result_omitted": True}] for job in jobs)

