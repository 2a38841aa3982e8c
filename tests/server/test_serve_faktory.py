"""Workers of `redrive serve` elsewhere: over the Faktory protocol, and over HTTP."""

import json
import socket
import sqlite3

import pytest

from tests.kit.certificates import make_certificate
from tests.kit.faktory import FaktoryClient, FaktoryError
from tests.kit.tokens import token_hash
from tests.kit.waiting import LIMIT_S, wait_for

# ---- Faktory -----------------------------------------------------------------------------------


def test_flush_takes_jobs_that_wait_for_others(bench):
    server = bench.serve("--faktory", "127.0.0.1:0").ready()
    jobs = [{"task": "mail", "id": "first"}, {"task": "mail", "id": "second", "after": "first"}]
    assert server.send("POST", "/v1/jobs", jobs)[0] == 201
    assert FaktoryClient(server.port("faktory")).ask("FLUSH") == "OK"
    assert server.get("/v1/jobs/first")[0] == server.get("/v1/jobs/second")[0] == 404


def test_faktory_stays_closed_when_there_are_tokens_and_no_passwords(bench):
    tokens = f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n"
    bench.configure(tokens, "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    server = bench.serve().ready()
    assert server.logged("faktory_closed")
    assert not server.logged("interface=faktory")
    server.stop()
    assert bench.serve("--faktory", "127.0.0.1:0").wait() == 2
    passwords = bench.dir / "passwords"
    passwords.write_text("# of the workers\nsesame\nzoo open-up\n")
    server = bench.serve("--faktory-passwords", str(passwords)).ready()
    assert server.port("faktory") > 0
    assert server.stop() == 0


def test_reload_closes_the_faktory_port_to_clients_without_a_password(bench):
    listen = "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}"
    tokens = f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n"
    bench.configure("", listen)
    server = bench.serve().ready()
    port = server.port("faktory")
    old = FaktoryClient(port)
    assert old.info()

    # Tokens alone would leave this port open to every client.
    bench.configure(tokens, listen)
    server.reload()
    assert not server.logged(r"\breloaded\b") and server.logged("although there are tokens")
    assert old.info() and server.get("/stats")[0] == 200

    secret = bench.dir / "secret"
    secret.write_text("sesame\n")
    passwords = f"faktory_passwords: [{{name: shop, password_file: '{secret}', scopes: [enqueue, read]}}]\n"
    bench.configure(tokens + passwords, listen)
    server.reload()
    assert old.is_closed()
    with pytest.raises(FaktoryError):
        FaktoryClient(port, password="wrong")
    shop = FaktoryClient(port, password="sesame")
    shop.push("job-00001")
    assert "scope" in shop.error("FETCH default")

    # The file is read again; a client that knows only the former password is out.
    secret.write_text("open-up\n")
    server.reload()
    assert shop.is_closed()
    shop = FaktoryClient(port, password="open-up")
    assert shop.info()["total_enqueued"] == 1

    bench.configure(tokens, "{http: '127.0.0.1:0', faktory: off}")
    server.reload()
    assert shop.is_closed()
    with pytest.raises(OSError):
        FaktoryClient(port)
    assert server.stop() == 0


def test_reload_opens_a_faktory_port_that_was_closed(bench):
    listen = "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}"
    tokens = f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n"
    secret = bench.dir / "secret"
    secret.write_text("sesame\n")
    passwords = f"faktory_passwords: [{{name: shop, password_file: '{secret}', scopes: [enqueue, read]}}]\n"
    bench.configure(tokens, listen)
    server = bench.serve().ready()
    server.wait_log("faktory_closed")

    # The log asked for passwords: a reload without them says so again, one with them opens the port.
    server.reload()
    server.wait_log("faktory_closed", times=2)
    bench.configure(tokens + passwords, listen)
    server.reload()
    shop = FaktoryClient(server.port("faktory"), password="sesame")
    shop.push("job-00001")

    # Off and on again, while the former server still waits for a client that does not read.
    shop.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            shop.socket.send(b"INFO\r\n" * 1000)
    bench.configure(tokens + passwords, "{http: '127.0.0.1:0', faktory: off}")
    server.reload()
    bench.configure(tokens + passwords, listen)
    server.reload()
    port = int(server.wait_log(r"listening interface=faktory address=\S+:(\d+)", times=2)[-1])
    assert FaktoryClient(port, password="sesame").info()["total_enqueued"] == 1
    assert not server.logged("needs_a_restart")

    # The address of an open port stays.
    bench.configure(tokens + passwords, "{http: '127.0.0.1:0', faktory: '127.0.0.2:0'}")
    server.reload()
    assert server.logged("needs_a_restart key=listen.faktory")
    assert FaktoryClient(port, password="sesame").info()
    assert server.stop() == 0


def test_a_faktory_port_that_is_taken_does_not_stop_a_reload(bench):
    bench.configure("", "{http: '127.0.0.1:0', faktory: off}")
    server = bench.serve().ready()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bench.configure("", f"{{http: '127.0.0.1:0', faktory: '127.0.0.1:{taken.getsockname()[1]}'}}")
        server.reload()
        assert server.logged("faktory_closed error=.*cannot listen")
    server.reload()
    assert FaktoryClient(server.port("faktory")).info()
    assert server.stop() == 0


def test_reload_opens_no_faktory_port_without_the_tls_that_it_asks_for(bench):
    make_certificate(bench.dir, "one")
    bench.configure("", "{http: '127.0.0.1:0', faktory: off}")
    server = bench.serve().ready()
    tls = f"{{cert: {bench.dir}/one.pem, key: {bench.dir}/one.key}}"
    bench.configure("", f"{{http: '127.0.0.1:0', faktory: '127.0.0.1:0', tls: {tls}}}")
    server.reload()
    assert server.logged("faktory_closed .*restart") and not server.logged("interface=faktory")
    assert server.stop() == 0


def test_a_file_of_passwords_protects_faktory_beyond_loopback(bench):
    bench.configure("", "{http: '127.0.0.1:0', insecure: true}")
    server = bench.serve("--faktory", "0.0.0.0:0")
    assert server.wait() == 2 and server.logged("there are no faktory_passwords")
    passwords = bench.dir / "passwords"
    passwords.write_text("sesame\n")
    server = bench.serve("--faktory", "0.0.0.0:0", "--faktory-passwords", str(passwords)).ready()
    assert FaktoryClient(server.port("faktory"), password="sesame").info()
    with pytest.raises(FaktoryError):
        FaktoryClient(server.port("faktory"))
    server.reload()
    assert server.logged(r"\breloaded\b")
    assert server.stop() == 0


def test_faktory_passwords_that_cannot_be_read_are_named(bench):
    listen = "{http: off, faktory: '127.0.0.1:0'}"
    bench.configure("faktory_passwords: [{name: shop, password_env: NOT_SET, scopes: [enqueue]}]\n", listen)
    server = bench.serve()
    assert server.wait() == 2
    assert server.logged("shop") and server.logged("NOT_SET")
    bench.configure("faktory_passwords: [{name: shop, scopes: [enqueue]}]\n", listen)
    server = bench.serve()
    assert server.wait() == 2
    assert server.logged("password_env")


def test_an_empty_file_of_faktory_passwords_opens_nothing(bench):
    """At start it is refused; a reload that meets one keeps the passwords there were."""
    bench.configure("", "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    passwords = bench.dir / "passwords"
    passwords.write_text("# none yet\n\n")
    server = bench.serve("--faktory-passwords", str(passwords))
    assert server.wait() == 2 and server.logged("has none")
    passwords.write_text("sesame\n")
    server = bench.serve("--faktory-passwords", str(passwords)).ready()
    port = server.port("faktory")
    passwords.write_text("")
    server.reload()
    assert server.logged("has none")
    with pytest.raises(FaktoryError):
        FaktoryClient(port)
    assert FaktoryClient(port, password="sesame").info()
    assert server.stop() == 0


def test_faktory_clients_settle_jobs_that_were_claimed_there_only(bench):
    bench.configure("tasks: {mail: {}, own: {run: {exec: [sleep, '60']}}}\n",
                    "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    server = bench.serve("--worker", "pool-1", "--grace", "0s").ready()

    def post(path, body):
        connection = server.connect()
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        text = json.loads(answer.read())
        connection.close()
        return answer.status, text

    ids = {}
    for task in ("mail", "own"):
        ids[task] = post("/jobs", {"task": task})[1]["id"]
    assert post("/claim", {"worker": "http-1", "tasks": ["mail"]})[1]["jobs"][0]["id"] == ids["mail"]
    wait_for(lambda: bench.state(ids["own"]) == "running", "the pool")
    for wid, job_id in (("http-1", ids["mail"]), ("pool-1", ids["own"])):
        client = FaktoryClient(server.port("faktory"), wid=wid, pid=1, labels=[], hostname="x")
        client.ack(job_id)
        assert "Job not found" in client.error("FAIL " + json.dumps({"jid": job_id}))
        assert bench.state(job_id) == "running"
    status, text = post("/claim", {"worker": "faktory:http-1"})
    assert status == 400 and "faktory:" in json.dumps(text)
    assert server.stop() == 0


# ---- Workers elsewhere -------------------------------------------------------------------------


def test_remote_workers_are_seen_like_others(bench):
    token = {name: f"tokens-{name}" for name in ("red", "blue")}
    tokens = "tokens:\n" + "".join(
        f"  - {{name: {name}, hash: '{token_hash(secret)}', scopes: [enqueue, work, read], tenant: {name}}}\n"
        for name, secret in token.items()
    )
    bench.configure("tasks: {mail: {}}\n" + tokens, listen="{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    passwords = bench.dir / "passwords"
    passwords.write_text("red open-sesame\n")
    server = bench.serve("--faktory-passwords", str(passwords), "--grace", "1s").ready()

    def post(path, body):
        connection = server.connect()
        connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {token['red']}"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def workers(name):
        items = json.loads(server.get("/workers", token[name])[1])["items"]
        return {item["name"]: item for item in items if item["tenant"] is not None}

    client = FaktoryClient(server.port("faktory"), wid="fak-1", pid=1, labels=[], hostname="x", password="open-sesame")
    post("/jobs", [{"task": "mail"}, {"task": "mail"}])
    assert len(post("/claim", {"worker": "http-1", "n": 2})["jobs"]) == 2
    wait_for(lambda: set(workers("red")) == {"faktory:fak-1", "http-1"}, "both in the list")
    wait_for(lambda: workers("red")["http-1"]["running"] == 2, "the jobs in hand")
    shown = workers("red")["http-1"]
    assert (shown["tenant"], shown["host"], shown["pid"]) == ("red", "", 0)
    assert "http-1" in bench.redrive("top", "--once").stdout
    assert workers("blue") == {}

    client.send("END")
    assert client.is_closed()
    wait_for(lambda: set(workers("red")) == {"http-1"}, "the one that has gone")
    assert server.stop() == 0
    with sqlite3.connect(bench.database, timeout=LIMIT_S) as db:
        assert db.execute("SELECT count(*) FROM shared WHERE value IS NOT NULL AND key IN ('http-1', 'faktory:fak-1')").fetchone() == (0,)
