"""Who may use the Faktory server: TLS, the handshake, passwords, tenants."""

import hashlib
import json
import re
import socket
import ssl
import subprocess
import warnings

import pytest

from tests.kit.certificates import make_certificate
from tests.kit.faktory import FaktoryClient, FaktoryError, job
from tests.kit.program import BUILD, ROOT
from tests.kit.waiting import LIMIT_S, wait_for

# ---- TLS ----------------------------------------------------------------------------------------


@pytest.fixture
def tls_server(start_server, tmp_path):
    """A server with a certificate, and a context that trusts it."""
    make_certificate(tmp_path, "server")
    (tmp_path / "server.pem").rename(tmp_path / "cert.pem")
    (tmp_path / "server.key").rename(tmp_path / "key.pem")
    server = start_server("--tls", str(tmp_path), "--handshake", "10000", "--password", "sesame=acme")
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
    plain = FaktoryClient(server.port, greet=False)
    plain.send('HELLO {"v":2}')
    with pytest.raises((EOFError, AssertionError, ConnectionError)):
        while True:
            assert "HI" not in (plain.reply() or "")
    silent = FaktoryClient(server.port, greet=False)
    assert silent.is_closed()
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.connect(tls=old)
    with pytest.raises(FaktoryError, match="Invalid password"):
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
    wait_for(lambda: client.info_of("server")["connections"] == 1)


# ---- Handshake ----------------------------------------------------------------------------------


def test_greeting_without_password_is_version_two(server):
    assert server.connect().greeting == {"v": 2}


def test_right_password_opens_and_wrong_one_does_not(start_server):
    server = start_server("--password", "secret=acme", "--password", "other=globex")
    server.connect(password="secret")
    with pytest.raises(FaktoryError, match="^ERR Invalid password$"):
        server.connect(password="guess")
    with pytest.raises(FaktoryError, match="^ERR Invalid password$"):
        server.connect()
    a, b = FaktoryClient(server.port, password="secret"), FaktoryClient(server.port, password="secret")
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
            except FaktoryError as error:
                reply = str(error)
            assert ("needs the scope" in str(reply)) == (needed != scope), line
    client.send("END")
    assert client.is_closed()


def test_new_passwords_hold_for_connections_that_are_there(start_server):
    server = start_server()
    another = server.connect()
    silent = FaktoryClient(server.port, greet=False)
    assert silent.reply() == 'HI {"v":2}'
    server.tell("passwords one=acme two=acme:1")
    assert another.is_closed() and silent.is_closed()
    one, two = server.connect(password="one"), server.connect(password="two")
    assert "scope" in two.error("INFO")
    server.tell("passwords three=acme two=acme:5")
    assert one.is_closed()
    assert two.info()["total_queues"] == 0
    with pytest.raises(FaktoryError, match="Invalid password"):
        server.connect(password="one")
    assert server.connect(password="three").info()
    # The same password for another tenant is another one.
    server.tell("passwords two=zoo")
    assert two.is_closed()


def test_passwords_that_change_while_one_is_hashed_are_the_ones_that_count(start_server):
    server = start_server("--password", "one=acme")
    for _ in range(20):
        client = FaktoryClient(server.port, greet=False)
        greeting = json.loads(client.reply().split(" ", 1)[1])
        digest = ("one" + greeting["s"]).encode()
        for _ in range(greeting["i"]):
            digest = hashlib.sha256(digest).digest()
        client.send("HELLO " + json.dumps({"v": 2, "pwdhash": digest.hex()}))
        server.tell("passwords two=acme")
        try:
            assert client.reply() == "OK"
        except (EOFError, FaktoryError):
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
        except FaktoryError as error:
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

    def figures(info):
        return info["queues"], info["sets"], info["total_enqueued"], info["total_failures"]

    ask = Walker(server.worker(wid="w-globex", password="other"))
    assert figures(json.loads(ask("INFO"))["faktory"])[0] == {}
    assert ask("FETCH a default") is None
    assert ask('ACK {"jid":"job-held"}') == "OK"  # as for any job that no worker holds
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
        [str(BUILD / "tests" / "server" / "faktory_server"), "--address", "0.0.0.0:0", f"sqlite:{tmp_path}/jobs.db"],
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
    with pytest.raises(FaktoryError, match="too many connections"):
        third.reply()
    assert third.is_closed()
    first.ask("INFO")
    first.send("END")
    assert first.is_closed()
    wait_for(lambda: can_connect(server))


def can_connect(server):
    try:
        return server.connect() is not None
    except (FaktoryError, ConnectionError):
        return False
