"""What `redact` hides is in no answer to a token without `admin`."""

import json
import re

import pytest

from tests.kit.rest import documented_routes
from tests.kit.tokens import token_line
from tests.kit.waiting import wait_for

SECRET, CARD, QUOTED = "hunter2-is-secret", "4111111111111111", 'say "aah"'
CONFIG = "redact: [password, card.number, '*.pin']\ncron:\n  nightly: {task: mail, schedule: '@yearly', " \
    "payload: {at: 'x/" + SECRET + "', password: " + SECRET + "}}\ntokens:\n"


@pytest.fixture
def server(start):
    lines = token_line("ops", "enqueue, work, read, admin", "default") + token_line("reader", "read", "default") + \
        token_line("worker", "work, enqueue", "default")
    return start(CONFIG + lines).api


@pytest.fixture
def dead(server):
    """A dead letter that has the secrets in its payload and all over its error."""
    payload = {"user": "ann", "Password": SECRET, "cards": [{"card": {"number": int(CARD), "name": "ann"}}],
               "deep": {"pin": QUOTED}, "note": f"the word is {SECRET}"}
    job_id = server.of("worker").submit("once", payload=payload)
    job = server.of("worker").claim_one(tasks=["once"])
    assert job["payload"] == payload  # a worker gets all of it
    server.of("worker").settle(job, **{"class": "permanent", "error_type": "LoginError", "message": f"no login with {SECRET} or {QUOTED}; password=another1",
                                       "stacktrace": f'File "x.py"\n  login({json.dumps({"password": SECRET})}, {CARD})'})
    return job_id


def assert_clean(raw):
    for secret in (SECRET, CARD, QUOTED, "another1", json.dumps(QUOTED)[1:-1]):
        assert secret.encode() not in raw, raw


def test_the_secrets_are_in_no_answer(server, dead):
    reader = server.of("reader")
    for method, route in sorted(documented_routes()):
        if method == "GET" and route != "/events":
            assert_clean(reader(method, re.sub(r"\{\w+\}", dead, route)).raw)
    assert_clean(reader("GET", f"/retry/dead-letters/by-id/{dead}").raw)


def test_errors_from_before_a_redrive_stay_hidden(server, dead):
    ops, reader, worker = server.of("ops"), server.of("reader"), server.of("worker")
    ops.ok("PATCH", f"/retry/dead-letters/{dead}", {"payload": {"password": "newest"}})
    ops.ok("POST", f"/retry/dead-letters/{dead}/retry")
    assert_clean(reader("GET", f"/jobs/{dead}").raw)
    job = worker.claim_one(tasks=["once"])
    assert_clean(reader("GET", f"/jobs/{dead}").raw)
    worker.settle(job, **{"class": "permanent", "message": "newest is wrong too"})
    shown = reader.ok("GET", f"/jobs/{dead}")
    assert (shown["last_error"]["message"], [a["error"]["message"] for a in shown["history"]]) == \
        ("[redacted] is wrong too", ["[redacted]", "[redacted] is wrong too"])


def test_hiding_large_values_of_many_jobs_takes_the_memory_of_one(start):
    """A page of them is short, so that it goes on to its limit: 300 jobs with 200 kB of escaped text each."""
    server = start("redact: [password]\ntokens:\n" + token_line("ops", "enqueue, read, admin", "default") + token_line("reader", "read", "default"))
    payload = {"password": '"' * 100_000}
    for _ in range(30):
        server.api.of("ops").ok("POST", "/jobs", [{"task": "mail", "payload": payload}] * 10, status=201)
    reader = server.api.of("reader")
    reader.ok("GET", "/jobs", limit=50)
    server.forget_peak()
    before = server.resident_mib()
    assert len(reader.ok("GET", "/jobs", limit=300)["items"]) == 300
    assert server.peak_mib() - before < 40  # 10 of them are the store's page; 60 more without


def test_what_an_administrator_searched_for_is_hidden(server):
    worker, ops = server.of("worker"), server.of("ops")
    worker.submit("mail", payload={"password": SECRET})
    worker.settle(worker.claim_one(tasks=["mail"]), **{"class": "transient", "message": SECRET})
    ops.ok("POST", "/bulk", {"verb": "cancel", "filter": {"text": SECRET}}, status=202)
    wait_for(lambda: [run for run in ops.ok("GET", "/bulk")["items"] if run["ended_at"]], "the end of the run")
    assert [run["filter"] for run in ops.ok("GET", "/bulk")["items"]] == [{"text": SECRET}]
    assert [run["filter"] for run in server.of("reader").ok("GET", "/bulk")["items"]] == [None]


def test_a_page_of_jobs_in_which_much_is_to_be_hidden_ends_early(server):
    payload = {"password": ["a" * 998 + chr(98 + i // 16) + chr(98 + i % 16) for i in range(128)], "texts": ["a" * 7800] * 110}
    ids = {server.of("worker").submit("slow", payload=payload) for _ in range(8)}
    page = server.of("reader").ok("GET", "/jobs?limit=100")
    found = {job["id"] for job in page["items"]}
    assert 0 < len(found) < 8 and page["next"]
    rest = server.of("reader").ok("GET", f"/jobs?limit=100&cursor={page['next']}")
    assert found | {job["id"] for job in rest["items"]} == ids


def test_groups_of_large_jobs_take_little_memory(start):
    """As many examples are shown as there are groups, and each of them has a payload of nearly 1 MiB."""
    server = start(CONFIG + token_line("ops", "enqueue, work, read, admin", "default") + token_line("reader", "read", "default"))
    ops, reader = server.api.of("ops"), server.api.of("reader")
    letters = "abcdefghij"
    payload = json.dumps({"text": "x" * 1000000, "password": SECRET})
    for i in range(80):
        word = letters[i // 10] + letters[i % 10]
        ops.ok("POST", "/jobs", f'{{"task": "once", "payload": {payload}}}', status=201)
        ops.settle(ops.claim_one(tasks=["once"]), **{"class": "permanent", "error_type": "Error" + word.upper(), "message": f"{word} {SECRET} {word}"})
    for client in (ops, reader):
        server.forget_peak()
        before = server.resident_mib()
        groups = client.ok("GET", "/retry/dead-letters/groups?limit=1000")["items"]
        assert len(groups) == 80
        shown = SECRET if client is ops else "[redacted]"
        assert all(re.fullmatch(rf"(\w\w) {re.escape(shown)} \1", group["example"]["message"]) for group in groups)
        assert server.peak_mib() - before < 48
