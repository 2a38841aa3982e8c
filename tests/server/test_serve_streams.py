"""Clients of `redrive serve` that wait: streams of events, claims; tokens that are taken away meanwhile."""

import json
import time

import pytest

from tests.kit.tokens import token_hash
from tests.kit.waiting import LIMIT_S, wait_for

# ---- Events ------------------------------------------------------------------------------------


def bearer(token):
    return {"Authorization": f"Bearer {token}"} if token else {}


class Ear:
    """A listener; events are (id, type, data)."""

    def __init__(self, server, path="/events", last_id=None, token=None):
        self.connection = server.connect()
        headers = {"Last-Event-ID": last_id} if last_id else {}
        self.connection.request("GET", path, headers={**headers, **bearer(token)})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.getheader("Content-Type") == "text/event-stream"

    def next(self):
        fields = {}
        while True:
            line = self.answer.fp.readline() if not self.answer.chunked else self.answer.readline()
            assert line, "the stream has ended"
            line = line.decode().rstrip("\n")
            if line == "" and "event" in fields:
                return fields["id"], fields["event"], json.loads(fields["data"])
            if ": " in line and not line.startswith(":"):
                key, value = line.split(": ", 1)
                fields[key] = value

    def rest(self):
        """What comes until the server ends the stream."""
        until = time.monotonic() + LIMIT_S
        text = b""
        while True:
            block = self.answer.read1(65536)
            if not block:
                return text
            text += block
            assert time.monotonic() < until, "the stream goes on"

    def close(self):
        self.connection.close()


def push(server, task, token=None):
    """Submits through the server, whose own doings events tell of."""
    connection = server.connect()
    headers = {"Content-Type": "application/json", **bearer(token)}
    connection.request("POST", "/jobs", json.dumps({"task": task}), headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert answer.status == 201, body
    return body["id"]


def test_events_are_told_and_go_on_where_they_were(bench):
    server = bench.serve().ready()
    ear = Ear(server, "/events?type=submitted")
    first = push(server, "mail")
    number, kind, data = ear.next()
    assert (kind, data["job_id"], data["task"]) == ("submitted", first, "mail")
    ear.close()
    missed = push(server, "mail")
    ear = Ear(server, "/events", number)
    again, kind, data = ear.next()
    assert (kind, data["job_id"]) == ("submitted", missed)
    assert int(again) > int(number)
    ear.close()
    server.stop()
    ear = Ear(bench.serve().ready(), "/events", again)
    assert ear.next()[1] == "reset"
    ear.close()


def test_breakers_that_change_are_told(bench):
    server = bench.serve().ready()
    ear = Ear(server, "/events?type=breaker")
    connection = server.connect()
    connection.request("POST", "/retry/circuit-breakers/mail/trip")
    assert connection.getresponse().status == 200
    connection.close()
    _, kind, data = ear.next()
    assert (kind, data["key"], data["state"], data["previous_state"]) == ("breaker", "mail", "forced_open", "closed")
    ear.close()
    server.wait_log(r"WARN +breaker breaker=mail tenant=default state=forced_open previous_state=closed")


def test_each_tenant_hears_of_its_own(bench):
    token = "{{name: {0}, hash: '{1}', scopes: [read, enqueue], tenant: {0}}}"
    tokens = ", ".join(token.format(name, token_hash(name)) for name in ("red", "blue"))
    bench.configure(f"tokens: [{tokens}]\n")
    server = bench.serve().ready()
    assert server.get("/events")[0] == 401
    ears = {name: Ear(server, token=name) for name in ("red", "blue")}
    jobs = {name: push(server, "mail", name) for name in ("red", "blue")}
    for name, ear in ears.items():
        number, _, data = ear.next()
        assert data["job_id"] == jobs[name]
        ear.close()
    # A client that asks for what was before gets its own of that, too.
    earliest = str(int(number) - 2)
    for name in ("red", "blue"):
        ear = Ear(server, last_id=earliest, token=name)
        later = push(server, "mail", name)
        assert [ear.next()[2].get("job_id") for _ in range(2)] == [jobs[name], later]
        ear.close()


def test_a_stream_ends_when_its_token_may_do_less(bench):
    """Less is shown to it from then on: the errors of jobs, where `redact` has rules."""
    def configure(scopes):
        token = "{{name: {0}, hash: '{1}', scopes: [{2}], tenant: default}}"
        bench.configure(f"redact: [password]\ntokens: [{token.format('ops', token_hash('ops'), scopes)}, "
                        f"{token.format('other', token_hash('other'), 'read, enqueue')}]\n")

    configure("read, enqueue, admin")
    server = bench.serve().ready()
    ear, other = Ear(server, token="ops"), Ear(server, token="other")
    configure("read, enqueue")
    server.reload()
    ear.rest()
    ear.close()
    again = Ear(server, token="ops")
    job_id = push(server, "mail", "ops")
    assert [listener.next()[2]["job_id"] for listener in (again, other)] == [job_id] * 2  # the other one has gone on
    again.close()
    other.close()


def test_unknown_type_of_event_is_refused(bench):
    status, text = bench.serve().ready().get("/events?type=complete")
    assert status == 400
    assert "completed" in text and json.loads(text)["field"] == "type"


@pytest.mark.parametrize("digest", ["soon", "1ms", "2m", ""])
def test_a_digest_that_is_no_span_is_refused(bench, digest):
    status, text = bench.serve().ready().get(f"/events?digest={digest}")
    assert (status, json.loads(text)["field"]) == (400, "digest")


def test_listener_does_not_hold_up_the_end(bench):
    server = bench.serve().ready()
    ear = Ear(server)
    assert server.stop() == 0
    ear.close()


# ---- Tokens that are taken away while their clients wait ----------------------------------------


def token_row(name, scopes, tenant="default"):
    return f"{{name: {name}, hash: '{token_hash(name)}', scopes: [{scopes}], tenant: {tenant}}}"


def test_streams_of_a_token_end_when_a_reload_takes_it_away(bench):
    kept, gone, narrowed, moved = "kept", "gone", "narrowed", "moved"
    bench.configure(f"tokens: [{', '.join(token_row(name, 'read, enqueue') for name in (kept, gone, narrowed, moved))}]\n")
    server = bench.serve().ready()
    ears = {name: Ear(server, token=name) for name in (kept, gone, narrowed, moved)}
    bench.configure(
        f"tokens: [{token_row(kept, 'read, enqueue, work')}, {token_row(narrowed, 'enqueue')}, "
        f"{token_row(moved, 'read, enqueue', 'elsewhere')}]\n"
    )
    server.reload()
    # The end comes at once, not with the next event.
    for name in (gone, narrowed, moved):
        assert b"event:" not in ears[name].rest(), name
    job = push(server, "mail", kept)
    assert ears[kept].next()[2]["job_id"] == job
    for ear in ears.values():
        ear.close()
    assert server.stop() == 0


def test_streams_without_a_token_end_when_tokens_come(bench):
    server = bench.serve().ready()
    ear = Ear(server)
    bench.configure(f"tokens: [{token_row('eye', 'read')}]\n")
    server.reload()
    assert b"event:" not in ear.rest()
    ear.close()


def test_waiting_claims_of_a_token_end_when_a_reload_takes_it_away(bench):
    bench.configure(f"tokens: [{token_row('ops', 'read, enqueue, work')}, {token_row('gone', 'work')}]\n")
    server = bench.serve().ready()
    claims = {}
    for name in ("gone", "ops"):
        claims[name] = server.connect()
        body = {"worker": f"worker-of-{name}", "wait": 50, "n": 1}
        claims[name].request("POST", "/claim", json.dumps(body), {"Content-Type": "application/json", **bearer(name)})
        wait_for(lambda n=name: f"worker-of-{n}" in server.get("/workers", "ops")[1], "the claim waits")
    bench.configure(f"tokens: [{token_row('ops', 'read, enqueue, work')}]\n")
    server.reload()
    answer = claims["gone"].getresponse()
    assert (answer.status, answer.getheader("WWW-Authenticate")) == (401, 'Bearer realm="redrive", error="invalid_token"')
    assert "not valid for this any more" in answer.read().decode()
    job = push(server, "mail", "ops")
    answer = claims["ops"].getresponse()
    assert [one["id"] for one in json.loads(answer.read())["jobs"]] == [job]
    for connection in claims.values():
        connection.close()
