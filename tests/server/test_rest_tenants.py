"""What clients may see and do: tenants, scopes, strangers."""

import http.client
import json
import re
import socket
import urllib.parse

from tests.kit.rest import documented_routes
from tests.kit.tokens import token_line
from tests.kit.waiting import LIMIT_S, wait_for

# -- Tenants ---------------------------------------------------------------------------------------


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
    wait_for(lambda: red.ok("GET", "/retry/dead-letters/retries")["items"][0]["redriven"] == 1, "the first one")
    red.settle(red.claim_one(), status="SUCCESS")
    red.submit(id="running")
    leased = red.claim_one()
    red.ok("POST", "/retry/circuit-breakers/mail/trip")
    red.ok("POST", "/queues/side/pause")
    red.ok("PUT", "/cron", {"beat": {"task": "mail", "schedule": "@yearly"}}, declared_by="shop")

    def as_red():
        return [red(*r).raw for r in (
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
    top = ask("GET", "/top", breakers="true")
    assert (top["queues"], top["breakers"], top["workers"], top["counters"]["jobs_dlq"]) == ([], [], [], 0)
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
    for verb in ("cancel", "retry", "remove"):
        assert ask("POST", "/bulk", body={"verb": verb, "all": True})["matched"] == 0
    assert ask("GET", "/bulk")["items"] == [] and red("GET", "/bulk")["items"][0]["verb"] == "redrive"
    for method in "GET", "DELETE":
        assert ask(method, f"/bulk/{run}", "/bulk/{id}").status == 404
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
    assert ask("PUT", "/cron", body={}, declared_by="shop")["removed"] == 0
    denied = ask("PUT", "/tasks", body={"mail": {"queue": "blue"}})
    assert (denied.status, "all tenants" in denied["detail"]) == (403, True)
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
    stranger = tenants[0].of("unknown")
    for method, route in sorted(documented_routes()):
        assert stranger(method, re.sub(r"\{\w+\}", "x", route)).status == 401


def test_a_cookie_that_is_too_long_is_no_login(start):
    api = start("tokens:\n" + token_line("red", "read", "red")).api
    assert api("GET", "/jobs", headers={"Cookie": "redrive_session=" + "A" * 9000}).status == 401


def refused_half_way(port, length, body):
    """The connection of a stranger who has sent a part of a body."""
    stranger = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
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
    with socket.create_connection(("127.0.0.1", tenants[0].port), timeout=LIMIT_S) as stranger:
        stranger.sendall(
            b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
        )
        assert stranger.makefile("rb").read().startswith(b"HTTP/1.1 401 ")


def test_a_connection_is_used_again(api):
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    for _ in range(5):
        connection.request("POST", "/v1/jobs", body=json.dumps({"task": "mail"}))
        assert connection.getresponse().read()
    connection.close()
