"""Jobs over HTTP: limits, and lists over many pages. What the routes say is in the transcripts http-jobs*.md."""


def test_what_is_no_text_is_refused(api):
    api.problem(400, "POST", "/jobs", b'{"task":"\xff"}')


def test_a_payload_has_a_limit(api):
    problem = api.problem(413, "POST", "/jobs", {"task": "mail", "payload": "x" * (1 << 20)})
    assert problem["field"] == "payload"


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
