"""The Faktory server from outside: every verb, and everything that can be said wrongly."""

import contextlib
import hashlib
import json
import re
import socket
import ssl
import subprocess
import threading
import time
import warnings

import pytest

from faktory_kit import Client, Server, LIMIT_S, PROGRAM, ROOT, ServerError, job, wait_until
from serve_kit import make_certificate


@pytest.fixture
def start_server(tmp_path):
    servers = []

    def open_one(*arguments, config=None):
        if config is not None:
            path = tmp_path / "redrive.yaml"
            path.write_text(config)
            arguments = ("--config", str(path), *arguments)
        servers.append(Server(f"sqlite:{tmp_path}/jobs.db", *arguments))
        return servers[-1]

    yield open_one
    for server in servers:
        if not server.is_over:
            server.close()


@pytest.fixture
def server(start_server):
    return start_server()


# ---- TLS ----------------------------------------------------------------------------------------


@pytest.fixture
def tls_server(start_server, tmp_path):
    """A server with a certificate, and a context that trusts it."""
    make_certificate(tmp_path, "server")
    (tmp_path / "server.pem").rename(tmp_path / "cert.pem")
    (tmp_path / "server.key").rename(tmp_path / "key.pem")
    server = start_server("--tls", str(tmp_path), "--handshake", "3000", "--password", "sesame=acme")
    return server, ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_everything_works_over_tls(tls_server, version):
    server, context = tls_server
    context.minimum_version = context.maximum_version = version
    client = server.worker(tls=context, password="sesame")
    assert client.socket.version() == version.name.replace("_", ".")
    for n in range(3):
        client.push(f"job-0000{n}", args=["x" * 700_000])
    client.send(*["FETCH default"] * 3)
    assert {json.loads(client.reply())["jid"] for _ in range(3)} == {f"job-0000{n}" for n in range(3)}
    for n in range(3):
        client.ack(f"job-0000{n}")
    # A command in as many records as it has bytes.
    for byte in b"INFO\r\n":
        client.socket.sendall(bytes([byte]))
    assert json.loads(client.reply())["faktory"]["total_processed"] == 3
    client.send("END")
    # The end is announced, so that it cannot be cut short unnoticed.
    assert client.is_closed()


def test_without_tls_nothing_is_said_where_tls_is_spoken(tls_server):
    server, context = tls_server
    plain = Client(server.port, greet=False)
    plain.send('HELLO {"v":2}')
    with pytest.raises((EOFError, AssertionError, ConnectionError)):
        while True:
            assert "HI" not in (plain.reply() or "")
    silent = Client(server.port, greet=False)
    assert silent.is_closed()
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.connect(tls=old)
    with pytest.raises(ServerError, match="Invalid password"):
        server.connect(tls=context, password="wrong")


def test_clients_with_tls_that_vanish_leave_nothing_behind(tls_server):
    server, context = tls_server
    client = server.connect(tls=context, password="sesame")
    for n in range(30):
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S)
        if n % 3 == 0:
            raw.sendall(b"\x16\x03\x01\x02\x00\x01")
        elif n % 3 == 1:
            raw = context.wrap_socket(raw, server_hostname="127.0.0.1")
            raw.sendall(b"HELLO {")
        raw.close()
    wait_until(lambda: client.info_of("server")["connections"] == 1)


# ---- Handshake ----------------------------------------------------------------------------------


def test_greeting_without_password_is_version_two(server):
    assert server.connect().greeting == {"v": 2}


def test_right_password_opens_and_wrong_one_does_not(start_server):
    server = start_server("--password", "secret=acme", "--password", "other=globex")
    server.connect(password="secret")
    with pytest.raises(ServerError, match="^ERR Invalid password$"):
        server.connect(password="guess")
    with pytest.raises(ServerError, match="^ERR Invalid password$"):
        server.connect()
    a, b = Client(server.port, password="secret"), Client(server.port, password="secret")
    assert a.greeting["s"] != b.greeting["s"] and a.greeting["i"] >= 4000


def test_commands_may_follow_hello_at_once_and_old_clients_hash_once(start_server):
    server = start_server("--password", "secret=acme")
    client = server.connect(greet=False)
    greeting = json.loads(client.reply().split(" ", 1)[1])
    digest = hashlib.sha256(("secret" + greeting["s"]).encode()).hexdigest()
    client.send(f'HELLO {{"v":1,"pwdhash":"{digest}"}}', f"PUSH {job('job-00001')}", "INFO")
    assert client.reply() == "OK"
    assert client.reply() == "OK"
    assert json.loads(client.reply())["faktory"]["total_enqueued"] == 1


def test_each_password_sees_its_own_tenant(start_server):
    server = start_server("--password", "secret=acme", "--password", "other=globex")
    acme, globex = server.worker(password="secret"), server.worker(password="other")
    acme.push("job-acme-1")
    acme.push("job-both-1", args=["acme"])
    globex.push("job-both-1", args=["globex"])
    assert globex.fetch()["args"] == ["globex"]
    assert globex.fetch() is None
    assert globex.info()["queues"] == {"default": 0}
    globex.ack("job-acme-1")
    assert acme.fetch()["jid"] == "job-acme-1"
    assert acme.fetch()["args"] == ["acme"]
    assert globex.ask("FLUSH") == "OK"
    assert acme.info()["sets"]["working"] == 2


# The bits of enum config_scope, and what each is needed for.
VERBS = {
    1: ["PUSH " + job("job-00001"), "PUSHB []"],
    2: ["FETCH default", 'ACK {"jid":"job-00001"}', 'FAIL {"jid":"job-00001"}', 'BEAT {"wid":"w1"}'],
    4: ["INFO", "QUEUE LATENCY default"],
    8: ["QUEUE PAUSE q", "QUEUE RESUME q", "QUEUE REMOVE q", "FLUSH", 'MUTATE {"cmd":"clear","target":"dead"}'],
}


@pytest.mark.parametrize("scope", VERBS)
def test_password_may_do_what_its_scopes_say(start_server, scope):
    client = start_server("--password", f"sesame=acme:{scope}", "--beat", "60000").worker(password="sesame")
    for needed, lines in VERBS.items():
        for line in lines:
            client.send(line)
            try:
                reply = client.reply()
            except ServerError as error:
                reply = str(error)
            assert ("needs the scope" in str(reply)) == (needed != scope), line
    client.send("END")
    assert client.is_closed()


def test_new_passwords_hold_for_connections_that_are_there(start_server):
    server = start_server()
    anybody = server.connect()
    silent = Client(server.port, greet=False)
    assert silent.reply() == 'HI {"v":2}'
    server.tell("passwords one=acme two=acme:1")
    assert anybody.is_closed() and silent.is_closed()
    one, two = server.connect(password="one"), server.connect(password="two")
    assert "scope" in two.error("INFO")
    server.tell("passwords three=acme two=acme:5")
    assert one.is_closed()
    assert two.info()["total_queues"] == 0
    with pytest.raises(ServerError, match="Invalid password"):
        server.connect(password="one")
    assert server.connect(password="three").info()
    # The same password for another tenant is another one.
    server.tell("passwords two=zoo")
    assert two.is_closed()


def test_passwords_that_change_while_one_is_hashed_are_the_ones_that_count(start_server):
    server = start_server("--password", "one=acme")
    for _ in range(20):
        client = Client(server.port, greet=False)
        greeting = json.loads(client.reply().split(" ", 1)[1])
        digest = ("one" + greeting["s"]).encode()
        for _ in range(greeting["i"]):
            digest = hashlib.sha256(digest).digest()
        client.send("HELLO " + json.dumps({"v": 2, "pwdhash": digest.hex()}))
        server.tell("passwords two=acme")
        try:
            assert client.reply() == "OK"
        except (EOFError, ServerError):
            pass
        # Let in before or not at all: now it is out.
        assert client.is_closed()
        server.tell("passwords one=acme")


class Walker:
    """A client that remembers which commands it has said."""

    def __init__(self, client):
        self.client = client
        self.said = set()

    def __call__(self, line):
        self.said.add(line.split(" ", 1)[0])
        try:
            return self.client.ask(line)
        except ServerError as error:
            return f"-{error}"


def known_commands():
    text = (ROOT / "src" / "server" / "faktory" / "verbs.c").read_text().split("} VERBS[] = {")[1]
    return set(re.findall(r'\{"([A-Z]+)", \w+, \w+\}', text))


def test_no_command_touches_the_jobs_of_another_tenant(start_server):
    server = start_server("--password", "secret=acme", "--password", "other=globex")
    acme = server.worker(wid="w-acme", password="secret")
    later = "2100-01-01T00:00:00Z"
    for jid, more in (("job-held", {}), ("job-waits", {}), ("job-later", {"at": later}), ("job-dead", {"at": later})):
        acme.push(jid, queue="a" if jid == "job-held" else "default", **more)
    assert acme.mutate(cmd="kill", target="scheduled", filter={"jids": ["job-dead"]}) == "OK"
    assert acme.fetch("a")["jid"] == "job-held"
    before = acme.info()
    figures = lambda info: (info["queues"], info["sets"], info["total_enqueued"], info["total_failures"])

    ask = Walker(server.worker(wid="w-globex", password="other"))
    assert figures(json.loads(ask("INFO"))["faktory"])[0] == {}
    assert ask("FETCH a default") is None
    assert ask('ACK {"jid":"job-held"}') == "OK"  # as for any job that nobody holds
    assert ask('FAIL {"jid":"job-held","errtype":"E","message":"m"}') == "-ERR Job not found job-held"
    assert ask('BEAT {"wid":"w-acme","current_state":"terminate"}').startswith("-")
    for verb in ("PAUSE", "RESUME", "REMOVE"):
        for queue in ("a", "default", "*"):
            assert ask(f"QUEUE {verb} {queue}") == "OK"
    assert json.loads(ask("QUEUE LATENCY default")) == {"default": 0}
    for target in ("scheduled", "retries", "dead"):
        for cmd in ("requeue", "kill", "discard", "clear"):
            assert ask("MUTATE " + json.dumps({"cmd": cmd, "target": target})) == "OK"
    assert ask("PUSH " + job("job-waits", queue="own")) == "OK"
    assert ask("PUSHB " + f"[{job('job-later', queue='own')}]") == "{}"
    assert ask("TRACK GET job-held").startswith("-")
    assert ask("BATCH NEW {}").startswith("-")
    assert ask("FLUSH") == "OK"
    ask.said.add("END")
    assert ask.said == known_commands()

    assert figures(acme.info()) == figures(before)
    assert acme.ask('BEAT {"wid":"w-acme"}') == "OK"
    acme.ack("job-held")
    assert acme.fetch("default")["jid"] == "job-waits"
    acme.ack("job-waits")
    assert acme.info()["sets"]["dead"] == 1


def test_without_password_only_loopback_is_listened_on(tmp_path):
    result = subprocess.run(
        [str(PROGRAM), "--address", "0.0.0.0:0", f"sqlite:{tmp_path}/jobs.db"],
        capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, check=False)
    assert result.returncode == 2 and "no password" in result.stderr


@pytest.mark.parametrize("first", [
    b"GET / HTTP/1.1\r\n", b"HELLO\r\n", b"HELLO []\r\n", b'HELLO {"v":2\r\n', b"\x16\x03\x01\r\n",
    b"PUSH {}\r\n", b"\r\n", b'HELLO {"wid":7}\r\n'])
def test_whoever_does_not_say_hello_is_cut_off(server, first):
    client = server.connect(greet=False)
    client.reply()
    client.send(first)
    assert client.is_closed()


def test_endless_hello_is_cut_off(server):
    client = server.connect(greet=False)
    client.reply()
    with pytest.raises((ConnectionError, AssertionError)):
        for _ in range(200):
            client.socket.sendall(b"x" * 65536)
        assert not client.is_closed()


def test_silence_instead_of_hello_is_cut_off(start_server):
    server = start_server("--handshake", "300")
    client = server.connect(greet=False)
    client.reply()
    assert client.is_closed()


def test_connections_are_limited(start_server):
    server = start_server("--max-connections", "2")
    first, _ = server.connect(), server.connect()
    third = server.connect(greet=False)
    with pytest.raises(ServerError, match="too many connections"):
        third.reply()
    assert third.is_closed()
    first.ask("INFO")
    first.send("END")
    assert first.is_closed()
    wait_until(lambda: can_connect(server))


def can_connect(server):
    try:
        return server.connect() is not None
    except (ServerError, ConnectionError):
        return False


# ---- PUSH ---------------------------------------------------------------------------------------


def test_job_comes_back_as_it_was_sent(server):
    client = server.worker()
    sent = {"jid": "job-00001", "jobtype": "Mail", "args": [1, "ä", {"b": None}], "custom": {"x": [1]},
            "queue": "mail", "unheard": 1.5, "priority": 7, "backtrace": 20, "created_at": "yesterday"}
    assert client.ask("PUSH " + json.dumps(sent)) == "OK"
    got = client.fetch("mail")
    assert {**got, **sent} == got
    assert set(got) - set(sent) == {"retry", "enqueued_at"} and got["retry"] == 25


@pytest.mark.parametrize("text, error", [
    ('{"jid":"short","jobtype":"T","args":[]}', "ERR jobs must have a reasonable jid parameter"),
    ('{"jid":"job-00001","args":[]}', "ERR jobs must have a jobtype parameter"),
    ('{"jid":"job-00001","jobtype":"T"}', "ERR jobs must have an args parameter"),
    ('{"jid":"job-00001","jobtype":"T","args":[],"reserve_for":90000}',
     "ERR jobs cannot be reserved for more than one day"),
    ('{"jid":"job-00001","jobtype":"T","args":[],"at":"soon"}', "ERR invalid timestamp for 'at'"),
    ("{", "ERR invalid JSON"), ("", "ERR invalid JSON"), ("[]", "ERR invalid JSON"),
    ('{"jid":"job-00001","jid":"job-00002","jobtype":"T","args":[]}', "ERR invalid JSON"),
    ('{"jid":"job\\u0000\\u0001aaa","jobtype":"T","args":[]}', "ERR jid has a control character"),
    ('{"jid":"job-00001","jobtype":"T","args":[],"queue":"a\\nb"}', "ERR queue names must match"),
])
def test_wrong_push_is_refused(server, text, error):
    client = server.connect()
    assert client.error("PUSH " + text).startswith(error)
    assert client.info()["total_enqueued"] == 0


def test_jobtype_that_goes_on_behind_a_nul_is_refused(start_server):
    client = start_server(config="tasks: {mail: {}}\n").connect()
    # Each ends far behind the end of the declared name.
    for extra in (1, 70_000, 3_000_000):
        text = '{"jid":"12345678","jobtype":"mail\\u0000' + "x" * extra + '","args":[]}'
        assert "jobtype" in client.error(f"PUSH {text}")
        assert "jobtype" in json.loads(client.ask(f"PUSHB [{text}]"))["12345678"]
    assert client.info()["total_enqueued"] == 0


def test_second_push_of_a_jid_is_the_first_job(server):
    client = server.worker()
    client.push("job-00001", args=[1])
    client.push("job-00001", args=[2])
    assert client.fetch()["args"] == [1]
    assert client.fetch() is None


def test_bulk_push_tells_what_was_refused(server):
    client = server.worker()
    jobs = [job("job-00001"), '{"jid":"job-00002","args":[]}', job("job-00003"), "null"]
    answer = json.loads(client.ask("PUSHB [" + ",".join(jobs) + "]"))
    assert answer["job-00002"] == "jobs must have a jobtype parameter"
    assert answer[""].startswith("invalid JSON") and len(answer) == 2
    assert client.info()["queues"] == {"default": 2}
    assert client.ask("PUSHB []") == "{}"
    assert client.error("PUSHB {}").startswith("ERR invalid JSON")
    assert client.error("PUSHB [").startswith("ERR invalid JSON")
    assert json.loads(client.ask("PUSHB [" + ",".join(job(f"job-1{n:04}") for n in range(1500)) + "]")) == {}
    assert client.info()["total_enqueued"] == 1502


@pytest.mark.parametrize("text", ["[1]", '["x"]', "[[]]", "[true]", "1", "{}"])
def test_bulk_push_of_what_is_no_job_is_an_error(server, text):
    client = server.connect()
    assert client.error("PUSHB " + text).startswith("ERR invalid JSON")
    assert client.info()["total_enqueued"] == 0


@pytest.mark.parametrize("queue", ["a b", "ä", "a/b", "*", "a:b", "x" * 256])
def test_queues_have_names_that_stand_in_commands_as_they_are(server, queue):
    client = server.connect()
    assert "queue" in client.error("PUSH " + job("job-00001", queue=queue))
    client.push("job-00002", queue="A-z_0.9")
    assert client.fetch("A-z_0.9")["jid"] == "job-00002"
    if " " not in queue:
        assert "queue" in client.error(f"FETCH {queue}")


def test_bulk_push_is_bounded(server):
    client = server.connect()
    assert "at most 20000 jobs" in client.error("PUSHB [" + "{}," * 20000 + "{}]")
    assert client.error("QUEUE PAUSE " + "q " * 101) == "ERR too many queues"


def test_time_of_a_job_is_kept(server):
    client = server.worker()
    client.push("job-00001", at="2100-01-01T00:00:00.5Z")
    client.push("job-00002", at="2001-01-01T00:00:00+01:00")
    assert client.info()["sets"]["scheduled"] == 1
    assert client.fetch()["jid"] == "job-00002"
    server.tell(f"pass {100 * 366 * 86400 * 1000}")
    assert client.fetch()["jid"] == "job-00001"


def test_megabyte_goes_there_and_back_and_more_is_refused(server):
    client = server.worker()
    big = "x" * (1000 * 1000)
    client.push("job-00001", args=[big])
    assert client.fetch()["args"] == [big]
    assert client.error("PUSH " + job("job-00002", args=[big * 2])).startswith("ERR the payload is over")
    client.push("job-00003")


# ---- FETCH --------------------------------------------------------------------------------------


def test_queues_come_in_the_order_named_and_priorities_within(server):
    client = server.worker()
    client.push("job-low-1", queue="low", priority=9)
    client.push("job-high-1", queue="high", priority=1)
    client.push("job-high-2", queue="high")
    client.push("job-high-3", queue="high", priority=9)
    order = [client.fetch("high", "low")["jid"] for _ in range(4)]
    assert order == ["job-high-3", "job-high-2", "job-high-1", "job-low-1"]


def test_fetch_needs_queues_with_names(server):
    client = server.worker()
    assert client.error("FETCH") == "ERR must call fetch with at least one queue"
    assert client.error("FETCH  ") == "ERR must call fetch with at least one queue"
    assert client.error("FETCH a\x01b") == "ERR queue names must match [a-zA-Z0-9._-]+"
    assert client.error("FETCH " + "q" * 256) == "ERR queue names must match [a-zA-Z0-9._-]+"
    assert client.error("FETCH " + "q " * 101) == "ERR too many queues"


def test_fetch_waits_two_seconds_for_nothing(server):
    client = server.worker()
    start = time.monotonic()
    assert client.fetch() is None
    assert 1.9 <= time.monotonic() - start < 10


def test_waiting_fetch_is_woken_by_a_push(server):
    """One that is not woken finds the job after two seconds; on a busy machine some may be late all the same."""
    producer, worker = server.connect(), server.worker()
    took = []
    for n in range(5):
        worker.send("FETCH other default")
        time.sleep(0.02)
        start = time.monotonic()
        producer.push(f"job-0000{n}")
        answer = worker.reply()
        took.append(time.monotonic() - start)
        assert (json.loads(answer) if answer else worker.fetch())["jid"] == f"job-0000{n}"
    assert min(took) < 1.5


def test_many_waiting_fetches_share_many_jobs(server):
    producer = server.connect()
    workers = [server.worker(f"w{n}") for n in range(40)]
    for worker in workers:
        worker.send("FETCH default")
    time.sleep(0.1)
    assert json.loads(producer.ask("PUSHB [" + ",".join(job(f"job-{n:05}") for n in range(40)) + "]")) == {}
    answers = [(worker, worker.reply()) for worker in workers]
    # One whose two seconds were over before the push asks again.
    got = {(json.loads(answer) if answer else worker.fetch())["jid"] for worker, answer in answers}
    assert len(got) == 40
    assert sum(answer is not None for _, answer in answers) > 0


def test_job_fetched_for_a_client_that_left_is_given_back(server):
    """The waiting FETCH of a connection that is gone must not swallow a job."""
    producer, worker = server.connect(), server.worker("w2")
    for n in range(20):
        gone = server.worker("w1")
        gone.send("FETCH default")
        gone.socket.shutdown(socket.SHUT_RDWR)
        gone.socket.close()
        producer.push(f"job-000{n:02}")
        got = worker.fetch()
        assert got["jid"] == f"job-000{n:02}" and "failure" not in got
        worker.ack(got["jid"])


def test_paused_queue_gives_nothing_until_it_is_resumed(server):
    client, worker = server.connect(), server.worker()
    client.push("job-00001")
    client.push("job-00002", queue="other")
    assert client.ask("QUEUE PAUSE default") == "OK"
    assert worker.fetch("default", "other")["jid"] == "job-00002"
    assert worker.fetch() is None
    worker.send("FETCH default")
    assert client.ask("QUEUE RESUME *") == "OK"
    assert json.loads(worker.reply())["jid"] == "job-00001"
    client.push("job-00003")
    assert client.ask("queue PAUSE *".upper()) == "OK"
    assert worker.fetch() is None


def test_producer_without_wid_may_fetch_too(server):
    client = server.connect()
    client.push("job-00001")
    assert client.fetch()["jid"] == "job-00001"
    client.ack("job-00001")
    assert client.info()["total_processed"] == 1


# ---- ACK and FAIL -------------------------------------------------------------------------------


def test_ack_completes_and_a_second_one_changes_nothing(server):
    client = server.worker()
    client.push("job-00001")
    client.fetch()
    assert client.info()["sets"]["working"] == 1
    client.ack("job-00001")
    client.ack("job-00001")
    client.ack("never-was")
    info = client.info()
    assert (info["sets"]["working"], info["total_processed"], info["total_failures"]) == (0, 1, 0)


def test_ack_of_another_worker_changes_nothing(server):
    one, two = server.worker("w1"), server.worker("w2")
    one.push("job-00001")
    one.fetch()
    two.ack("job-00001")
    assert two.error('FAIL {"jid":"job-00001"}') == "ERR Job not found job-00001"
    assert two.info()["sets"]["working"] == 1
    server.connect(wid="w1").ack("job-00001")
    assert two.info()["sets"]["working"] == 0


def test_job_of_a_connection_without_wid_is_its_own(server):
    client, other = server.connect(), server.connect()
    client.push("job-00001")
    assert client.fetch()["jid"] == "job-00001"
    other.ack("job-00001")
    assert "Job not found" in other.error('FAIL {"jid":"job-00001"}')
    assert client.info()["sets"]["working"] == 1
    client.ack("job-00001")
    assert client.info()["sets"]["working"] == 0


def test_stale_ack_does_not_touch_the_next_run(server):
    one, two = server.worker("w1"), server.worker("w2")
    one.push("job-00001", reserve_for=60)
    one.fetch()
    server.tell("pass 61000")
    wait_until(lambda: one.info()["sets"]["retries"] == 1)
    server.tell("pass 60000")
    assert two.fetch()["failure"]["errtype"] == "LeaseExpired"
    one.ack("job-00001")
    assert two.info()["sets"]["working"] == 1
    two.ack("job-00001")
    assert two.info()["total_processed"] == 2


def test_ack_is_understood_after_a_restart(start_server):
    first = start_server()
    worker = first.worker()
    worker.push("job-00001")
    worker.push("job-00002")
    worker.fetch()
    worker.fetch()
    first.close()
    again = start_server().worker()
    again.ack("job-00001")
    again.fail("job-00002")
    info = again.info()
    assert (info["total_processed"], info["sets"]["retries"]) == (2, 1)


@pytest.mark.parametrize("line, error", [
    ("ACK", "ERR invalid ACK "), ("ACK {}", "ERR invalid ACK {}"), ('ACK {"jid":5}', "ERR invalid ACK"),
    ("ACK job-00001", "ERR invalid ACK job-00001"),
    ("FAIL", "ERR invalid FAIL "), ("FAIL {}", "ERR missing JID"), ("FAIL []", "ERR invalid FAIL []"),
    ('FAIL {"jid":"never-was"}', "ERR Job not found never-was"),
])
def test_wrong_settlements_are_refused(server, line, error):
    client = server.worker()
    assert client.error(line).startswith(error)


def test_failed_job_is_retried_on_faktorys_schedule_with_its_failure(server):
    client = server.worker()
    client.push("job-00001", retry=2)
    client.fetch()
    client.fail("job-00001", "ValidationError", "bad input", ["one", "two"])
    assert client.info()["sets"]["retries"] == 1
    server.tell("pass 14000")
    assert client.fetch() is None
    server.tell("pass 60000")
    failure = client.fetch()["failure"]
    assert (failure["errtype"], failure["message"]) == ("ValidationError", "bad input")
    assert (failure["retry_count"], failure["remaining"]) == (0, 2)
    assert failure["backtrace"] == ["one", "two"]
    client.fail("job-00001")
    server.tell("pass 80000")
    failure = client.fetch()["failure"]
    assert (failure["errtype"], failure["retry_count"], failure["remaining"]) == ("IOError", 1, 1)
    client.fail("job-00001")
    sets = client.info()["sets"]
    assert (sets["retries"], sets["dead"], client.info()["total_failures"]) == (0, 1, 3)


def test_retry_zero_is_discarded_and_minus_one_is_dead(server):
    client = server.worker()
    client.push("job-00001", retry=0)
    client.push("job-00002", retry=-1)
    for _ in range(2):
        client.fail(client.fetch()["jid"])
    sets = client.info()["sets"]
    assert (sets["retries"], sets["dead"]) == (0, 1)


def test_declared_task_follows_its_own_policy(start_server):
    server = start_server(config="tasks:\n  Task:\n    retry: {strategy: fixed, initial_delay: 100ms, "
                            "max_attempts: 2, jitter: false}\n")
    client = server.worker()
    client.push("job-00001", retry=25)
    client.push("job-00002", jobtype="Other")
    client.fetch()
    client.fail("job-00001", "Timeout")
    assert client.fetch()["jid"] == "job-00002"
    assert client.fetch()["failure"]["errtype"] == "Timeout"
    client.fail("job-00001", "Timeout")
    assert client.info()["sets"]["dead"] == 1


def test_declared_task_honours_the_retries_of_the_client_unless_told_not_to(start_server):
    fast = "retry: {strategy: fixed, initial_delay: 100ms, max_retries: 5, jitter: false}"
    server = start_server(config=f"tasks:\n  Free: {{{fast}}}\n  Strict: {{{fast}, client_retries: false}}\n")
    client = server.worker()
    runs = {"Free": 0, "Strict": 0}
    for name in runs:
        client.push(f"job-{name}", jobtype=name, retry=1)
    while client.info()["sets"]["dead"] < 2:
        server.tell("pass 1000")
        job = client.fetch()
        if job:
            runs[job["jobtype"]] += 1
            client.fail(job["jid"])
    assert runs == {"Free": 2, "Strict": 6}


def test_strict_tasks_refuse_unknown_jobtypes(start_server):
    client = start_server(config="strict_tasks: true\ntasks: {Task: {}}\n").connect()
    client.push("job-00001")
    assert client.error("PUSH " + job("job-00002", "Tusk")).startswith("ERR there is no task 'Tusk'")


# ---- BEAT ---------------------------------------------------------------------------------------


def test_beat_answers_the_state_and_never_goes_back(server):
    client = server.worker("w1")
    client.push("job-00001")
    assert client.ask('BEAT {"wid":"w1","rss_kb":5}') == "OK"
    assert client.error('BEAT {"wid":"w9"}') == "ERR unknown worker w9"
    assert client.error("BEAT").startswith("ERR invalid BEAT")
    assert json.loads(client.ask('BEAT {"wid":"w1","current_state":"quiet"}')) == {"state": "quiet"}
    assert json.loads(client.ask('BEAT {"wid":"w1","current_state":""}')) == {"state": "quiet"}
    assert client.fetch() is None
    assert json.loads(client.ask('BEAT {"wid":"w1","current_state":"terminate"}')) == {"state": "terminate"}
    assert server.worker("w2").fetch()["jid"] == "job-00001"


def test_quiet_server_hands_out_nothing(server):
    client = server.worker("w1")
    client.push("job-00001")
    server.tell("quiet")
    assert json.loads(client.ask('BEAT {"wid":"w1"}')) == {"state": "quiet"}
    assert client.fetch() is None
    client.push("job-00002")
    server.tell("terminate")
    assert json.loads(client.ask('BEAT {"wid":"w1"}')) == {"state": "terminate"}


def test_draining_server_tells_workers_to_quiet_and_then_to_terminate(server):
    one, two, producer = server.worker("w1"), server.worker("w2"), server.connect()
    for n in range(2):
        one.push(f"job-0000{n}")
    assert one.fetch() and two.fetch()
    server.tell("drain 60000")
    assert json.loads(one.ask('BEAT {"wid":"w1"}')) == {"state": "quiet"}
    producer.push("job-00003")
    assert two.fetch() is None
    assert json.loads(one.ask('BEAT {"wid":"w1"}')) == {"state": "terminate"}
    assert json.loads(two.ask('BEAT {"wid":"w2"}')) == {"state": "quiet"}
    one.ack("job-00000")
    one.send("END")
    assert one.is_closed()
    # The other one still works, and is waited for.
    two.fail("job-00001")
    assert producer.info()["sets"] == {"scheduled": 0, "retries": 1, "dead": 0, "working": 0}
    two.send("END")
    assert two.is_closed() and producer.is_closed()
    assert server.process.wait(LIMIT_S) == 0


def test_drain_ends_with_its_grace(server):
    client = server.worker()
    server.tell("drain 300")
    assert client.is_closed()
    assert server.process.wait(LIMIT_S) == 0


def test_worker_without_beat_is_cut_off(start_server):
    server = start_server("--beat", "2000")
    worker, producer = server.worker(), server.connect()
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert worker.ask('BEAT {"wid":"w1"}') == "OK"
        time.sleep(0.1)
    assert worker.is_closed()
    assert producer.ask("INFO")


def test_idle_client_is_cut_off_where_that_is_asked_for(start_server):
    client = start_server("--idle", "1500").connect()
    assert client.is_closed()


# ---- The rest -----------------------------------------------------------------------------------


def test_info_has_what_clients_look_for(server):
    client = server.connect()
    client.push("job-00001", queue="a")
    client.push("job-00002", queue="b", at="2100-01-01T00:00:00Z")
    info = json.loads(client.ask("INFO"))
    assert info["faktory"]["queues"] == {"a": 1, "b": 0}
    assert info["faktory"]["sets"] == {"scheduled": 1, "retries": 0, "dead": 0, "working": 0}
    assert info["faktory"]["tasks"]["Scheduled"] == {"size": 1}
    assert (info["faktory"]["total_queues"], info["faktory"]["total_enqueued"]) == (2, 1)
    assert info["server"]["connections"] == 1 and info["server"]["command_count"] == 3
    assert info["now"].endswith("Z") and info["server_utc_time"].endswith(" UTC")


def test_info_has_workers_and_memory(start_server):
    server = start_server("--beat", "700")
    client, silent = server.connect(), server.worker("w1")
    state = json.loads(client.ask("INFO"))
    assert state["faktory"]["tasks"]["Workers"] == {"size": 1, "reaped": 0}
    assert 1 <= state["server"]["used_memory_mb"] < 1000
    assert silent.is_closed()
    wait_until(lambda: client.info()["tasks"]["Workers"] == {"size": 0, "reaped": 1})


def test_connections_of_one_address_are_limited(start_server):
    server = start_server("--max-per-address", "2")
    first, second = server.connect(), server.connect()
    with pytest.raises(ServerError, match="this address"):
        Client(server.port, greet=False).reply()
    first.send("END")
    assert first.is_closed()
    wait_until(lambda: second.info_of("server")["connections"] == 1)
    server.connect().push("job-00001")


def test_flush_takes_everything_away(server):
    client = server.worker()
    jobs = ",".join(job(f"job-{n:05}", at="2100-01-01T00:00:00Z" if n % 2 else None) for n in range(1203))
    assert client.ask(f"PUSHB [{jobs}]") == "{}"
    client.fetch()
    assert client.ask("FLUSH") == "OK"
    info = client.info()
    assert (info["total_enqueued"], set(info["sets"].values())) == (0, {0})
    client.push("job-00000")
    assert client.fetch()["jid"] == "job-00000"


def test_queue_remove_and_latency(server):
    client = server.worker()
    for n in range(3):
        client.push(f"job-0000{n}", queue="old")
    client.push("job-00009", queue="new")
    latency = json.loads(client.ask("QUEUE LATENCY old none"))
    assert latency["old"] >= 0 and latency["none"] == 0
    assert client.ask("QUEUE PAUSE old") == "OK"
    assert client.ask("QUEUE REMOVE old none") == "OK"
    assert client.info()["queues"] == {"new": 1} and client.info()["total_queues"] == 1
    client.push("job-00005", queue="old")
    assert client.info()["queues"] == {"new": 1, "old": 1}
    assert client.fetch("old")["jid"] == "job-00005"
    assert client.ask("QUEUE REMOVE *") == "OK"
    assert client.info()["total_enqueued"] == 0
    assert client.error("QUEUE") == "ERR no such QUEUE subcommand: "
    assert client.error("QUEUE BURN x") == "ERR no such QUEUE subcommand: BURN"
    assert client.error("QUEUE PAUSE") == "ERR QUEUE needs the name of a queue"
    assert client.error("QUEUE LATENCY *") == "ERR QUEUE LATENCY does not support wildcards"


def test_mutate_moves_what_it_is_told_to(server):
    client = server.worker()
    later = {"at": "2100-01-01T00:00:00Z"}
    client.push("job-00001", "A", **later)
    client.push("job-00002", "A", args=["find me"], **later)
    client.push("job-00003", "B", **later)
    client.push("job-00004", "B", **later)
    client.push("job-00005", "C", **later)

    def sets():
        found = client.info()
        return found["sets"]["scheduled"], found["sets"]["dead"], found["total_enqueued"]

    assert client.mutate(cmd="kill", target="scheduled", filter={"jobtype": "A", "regexp": "*find me*"}) == "OK"
    assert sets() == (4, 1, 0)
    assert client.mutate(cmd="requeue", target="scheduled", filter={"jids": ["job-00003", "no-such-job"]}) == "OK"
    assert sets() == (3, 1, 1)
    assert client.mutate(cmd="discard", target="scheduled", filter={"jobtype": "B"}) == "OK"
    assert sets() == (2, 1, 1)
    assert client.mutate(cmd="requeue", target="dead", filter={"regexp": "*"}) == "OK"
    assert sets() == (2, 0, 2)
    assert client.mutate(cmd="clear", target="scheduled") == "OK"
    assert sets() == (0, 0, 2)
    assert client.mutate(cmd="kill", target="retries") == "OK"
    for line, error in (
            ('{"cmd":"eat","target":"dead"}', "ERR unknown mutate operation"),
            ('{"cmd":"kill","target":"working"}', "ERR invalid target for mutation command"),
            ("{", "ERR "), ("", "ERR ")):
        assert client.error("MUTATE " + line).startswith(error)


def test_long_pattern_is_refused_and_large_jobs_hold_up_nobody(server):
    client, other = server.worker(), server.connect()
    for i in range(6):
        client.push(f"job-0000{i}", args=["a" * 900_000], at="2100-01-01T00:00:00Z")
    long = {"regexp": "*" + "a" * 20_000 + "b*"}
    assert "regexp is over 255 bytes" in client.error(
        "MUTATE " + json.dumps({"cmd": "kill", "target": "scheduled", "filter": long})
    )
    client.send("MUTATE " + json.dumps({"cmd": "kill", "target": "scheduled", "filter": {"regexp": "*" + "a" * 252 + "b*"}}))
    other.push("job-00009")
    assert client.reply() == "OK"
    assert client.info()["sets"]["scheduled"] == 6


@pytest.mark.parametrize(("pattern", "fits"), [
    (r"*a\*b*", True),
    (r"*a\?b*", False),
    ("*a[*]b*", True),
    ("*a[^*]b*", False),
    (r'*"args":\["ä","a*b",{"k":1}\]*', True),
    ('*"jid":"job-00001","queue":"default","jobtype":"Task"*', True),
    ('*"errtype":"IOError"*', True),
    ("*it broke twice*", True),
    ("*it broke thrice*", False),
])
def test_pattern_goes_over_the_job_in_its_normal_form_with_its_failure(server, pattern, fits):
    client = server.worker()
    text = '{ "jobtype" : "Task", "args" : [ "\\u00e4", "a*b", { "k" : 1 } ],  "jid":"job-00001" }'
    assert client.ask("PUSH " + text) == "OK"
    client.fetch()
    client.fail("job-00001", message="it broke twice")
    client.mutate(cmd="kill", target="retries", filter={"regexp": pattern})
    sets = client.info()["sets"]
    assert (sets["retries"], sets["dead"]) == ((0, 1) if fits else (1, 0))


def test_dead_job_that_is_discarded_is_gone(server):
    client = server.worker()
    client.push("job-00001", retry=-1)
    client.fetch()
    client.fail("job-00001")
    assert client.mutate(cmd="discard", target="dead") == "OK"
    assert client.info()["sets"]["dead"] == 0
    client.push("job-00001")
    assert client.fetch()["jid"] == "job-00001"


def test_enterprise_verbs_answer_as_the_open_server_does(server):
    client = server.connect()
    assert client.error("TRACK GET job-00001") == "ERR tracking subsystem is only available in Faktory Enterprise"
    for words in ('NEW {"success": {"jobtype": "done", "args": []}}', "OPEN b-1", "COMMIT b-1", "STATUS b-1", ""):
        error = client.error(f"BATCH {words}".strip())
        assert error.startswith("ERR batch subsystem is only available in Faktory Enterprise; ") and "`after`" in error


@pytest.mark.parametrize("line", [
    b"NONSENSE\r\n", b"push {}\r\n", b"\r\n", b"\n", b"\0\0\0\r\n", b"PU\0SH {}\r\n", b"\xff\xfe\xfd\r\n",
    b"PUSH\r\n", b"PUSH \0\r\n", b'PUSH {"jid":"\0"}\r\n', b"PUSHB\r\n", b"FETCH \0\r\n", b"QUEUE\r\n", b"MUTATE\r\n",
    b"BEAT null\r\n", b"ACK null\r\n", b"FAIL null\r\n", b"HELLO {}\r\n", b"*1\r\n", b"+OK\r\n", b"PUSH [[[[\r\n",
    b"PUSH " + b"[" * 5000 + b"\r\n", b"X" * 100000 + b"\r\n",
], ids=lambda line: repr(line[:20]))
def test_rubbish_is_an_error_and_the_next_command_is_understood(server, line):
    client = server.connect()
    client.send(line)
    with pytest.raises(ServerError):
        client.reply()
    client.push("job-00001")


def test_line_over_the_limit_is_refused(start_server):
    server = start_server("--max-line", "100000")
    client = server.connect()
    client.send(b"PUSH " + b"x" * 120000)
    with pytest.raises(ServerError, match="line is over 100000 bytes"):
        client.reply()
    assert client.is_closed()


def test_unfinished_commands_share_a_budget(start_server):
    mib = 1024 * 1024
    server = start_server("--max-held", str(32 * mib))
    small = server.connect()
    before = server.peak_mib()
    greedy = [server.connect() for _ in range(24)]
    beginning = b'PUSH {"jid":"job-00001","jobtype":"T","args":["'
    for client in greedy:
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(beginning + b"x" * (7 * mib))
    # Those that fit may go on; each of the others has been told and cut off.
    wait_until(lambda: small.info_of("server")["connections"] <= 6)
    assert server.peak_mib() - before < 100
    small.push("job-00002")
    assert small.fetch()["jid"] == "job-00002"
    for client in greedy:
        client.file.close()
        client.socket.close()
    wait_until(lambda: small.info_of("server")["connections"] == 1)
    # All of it has been given back.
    client = server.connect()
    client.push("job-00003", args=["x" * (mib // 2)])


def test_command_that_is_not_finished_in_time_is_cut_off(start_server):
    server = start_server("--command", "300")
    client = server.connect()
    client.socket.sendall(b"PUSH {")
    with pytest.raises(ServerError, match="not finished in time"):
        client.reply()
    assert client.is_closed()
    # One that waits between commands does not.
    client = server.connect()
    client.push("job-00001")
    time.sleep(1.2)
    client.push("job-00002")


def test_commands_may_come_in_pieces(server):
    client = server.connect()
    for byte in f"PUSH {job('job-00001')}\r\nINFO\r\n".encode():
        client.socket.sendall(bytes([byte]))
    assert client.reply() == "OK"
    assert json.loads(client.reply())["faktory"]["total_enqueued"] == 1


def test_pipelined_commands_are_answered_in_order(server):
    client = server.worker()
    lines, expected = [], []
    for n in range(600):
        lines += [f"PUSH {job(f'job-{n:05}')}", "WHAT", "FETCH default", f'ACK {{"jid":"job-{n:05}"}}', 'BEAT {"wid":"w1"}']
        expected += ["OK", "error", f"job-{n:05}", "OK", "OK"]
    sender = threading.Thread(target=client.send, args=lines)
    sender.start()
    got = []
    for _ in expected:
        try:
            reply = client.reply()
            got.append(json.loads(reply)["jid"] if reply and reply[0] == "{" else reply)
        except ServerError as error:
            assert str(error) == "ERR unknown command WHAT"
            got.append("error")
    sender.join()
    assert got == expected
    assert client.info()["total_processed"] == 600


def pipeline(client, lines):
    """Sends them without waiting for answers, which are read meanwhile."""
    sender = threading.Thread(target=client.send, args=lines)
    sender.start()
    replies = [client.reply() for _ in lines]
    sender.join(LIMIT_S)
    return replies


def test_client_that_sends_ahead_is_read_no_faster_than_it_is_served(server):
    client = server.connect()
    before = server.peak_mib()
    bulk = ",".join(job(f"same-{i:06}", "T") for i in range(20_000))
    assert set(pipeline(client, [f"PUSHB [{bulk}]"] * 8)) == {"{}"}
    assert server.peak_mib() - before < 120


def test_long_lines_sent_ahead_are_read_no_faster_than_they_are_served(server):
    client = server.connect()
    before = server.peak_mib()
    text = "a" * 1_000_000
    assert set(pipeline(client, ["PUSH " + job(f"same-{i % 4}-job", "T", [text]) for i in range(128)])) == {"OK"}
    assert server.peak_mib() - before < 72


def test_pipelined_fetches_share_what_there_is(server):
    client = server.worker()
    client.send(*[f"PUSH {job(f'job-{n:05}')}" for n in range(100)])
    client.send(*["FETCH default"] * 103)
    for _ in range(100):
        assert client.reply() == "OK"
    got = [json.loads(client.reply())["jid"] for _ in range(100)]
    assert got == [f"job-{n:05}" for n in range(100)]
    assert [client.reply() for _ in range(3)] == [None] * 3


def test_clients_that_come_and_go_leave_nothing_behind(server):
    """Connections that break off at any point, and at the end every job is done once."""
    threads = [threading.Thread(target=be_unreliable, args=(server.port, n)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = server.worker("last")
    left = client.info()
    assert left["total_processed"] + left["total_enqueued"] + left["sets"]["working"] == 8 * 25
    while left["total_enqueued"] > 0:
        client.ack(client.fetch()["jid"])
        left = client.info()
    assert left["total_processed"] + left["sets"]["working"] == 8 * 25


def be_unreliable(port, number):
    for n in range(25):
        client = Client(port, wid=f"w{number}")
        client.push(f"job-{number:02}-{n:04}")
        client.send(*["FETCH default"] * (n % 5 + 1))
        if n % 3 == 0:
            client.socket.close()
        else:
            # The others may hold every job that there is.
            given = client.reply() if n % 3 == 1 else None
            if given:
                client.send(f'ACK {{"jid":"{json.loads(given)["jid"]}"}}')
            client.socket.shutdown(socket.SHUT_RDWR)
            client.socket.close()


def test_end_answers_what_came_before(server):
    client = server.connect()
    client.send(f"PUSH {job('job-00001')}", "INFO", "END", "INFO")
    assert client.reply() == "OK"
    assert json.loads(client.reply())["faktory"]["total_enqueued"] == 1
    assert client.is_closed()


def test_client_that_sends_no_more_is_answered_but_gets_no_job(server):
    for attempt in range(10):
        queue = f"line-{attempt}"
        client = server.worker()
        client.send(*[f"PUSH {job(f'job-{attempt}-{n:05}', queue=queue)}" for n in range(1000)], f"FETCH {queue}", "INFO",
                    b"half a li")
        client.socket.shutdown(socket.SHUT_WR)
        *pushed, fetched = [client.reply() for _ in range(1001)]
        assert pushed == ["OK"] * 1000
        assert json.loads(client.reply())["faktory"]["total_enqueued"] >= 999
        assert client.is_closed()
        if fetched is None:
            break  # else the server was faster than the last word of the client
    assert fetched is None
    wait_until(lambda: server.connect().info()["queues"][queue] == 1000)


def test_stop_answers_what_was_asked(start_server):
    server = start_server()
    client, waiting = server.connect(), server.worker()
    waiting.send("FETCH default")
    client.push("job-00001", queue="other")
    server.tell("stop")
    assert waiting.reply() is None
    assert waiting.is_closed() and client.is_closed()
    server.close()


def test_client_that_takes_no_answers_is_cut_off(start_server):
    """What waits for it is bounded, and so is the time."""
    server = start_server("--send", "1000")
    client, other = server.worker(), server.connect()
    client.push("job-00001", args=["x" * 900000], reserve_for=60)
    client.socket.setblocking(False)
    line = b'PUSH {"jid":"job-00001","jobtype":"' + b"T" * 200 + b'"}\r\n'
    end = time.monotonic() + LIMIT_S
    with pytest.raises((BrokenPipeError, ConnectionError)):
        while time.monotonic() < end:
            try:
                client.socket.send(line * 200)
            except BlockingIOError:
                time.sleep(0.01)
    other.push("job-00002")
