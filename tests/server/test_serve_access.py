"""How `redrive serve` is reached: a Unix socket, TLS; what administrators did, in the log."""

import http.client
import json
import re
import socket
import ssl
import time

import pytest

from tests.kit.certificates import make_certificate
from tests.kit.faktory import FaktoryClient
from tests.kit.tokens import token_hash
from tests.kit.waiting import LIMIT_S, wait_for

# ---- A Unix socket -----------------------------------------------------------------------------


def ask_socket(path, target, **headers):
    """The status that a server on a Unix socket answers with."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(LIMIT_S)
        client.connect(str(path))
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "Connection: close"]
        client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(client.makefile("rb").readline().split()[1])


@pytest.mark.parametrize("mode", ["0600", "0660"])
def test_unix_socket_is_served_with_its_permissions_and_removed(bench, mode):
    path = bench.dir / "s.sock"
    bench.configure(listen=f"{{http: 'unix:{path}', socket_mode: '{mode}', faktory: 'off'}}")
    server = bench.serve().ready()
    assert server.logged(rf"listening interface=http address=unix:{path}")
    assert path.stat().st_mode & 0o777 == int(mode, 8)
    assert ask_socket(path, "/jobs", Host="redrive") == 200
    # The permissions of the file let the proxy in, not the proxy's clients.
    assert ask_socket(path, "/jobs", Host="redrive", **{"X-Forwarded-For": "10.0.0.1"}) == 403
    server.kill()
    assert path.exists()
    server = bench.serve("--log-level", "debug").ready()
    assert ask_socket(path, "/ready", Host="localhost") == 200
    assert server.stop() == 0
    assert not server.logged("TCP|some delay"), server.log()
    assert not path.exists()


# ---- TLS ---------------------------------------------------------------------------------------


def use_certificate(directory, cert, key):
    (directory / "cert.pem").write_text((directory / f"{cert}.pem").read_text("ascii"), "ascii")
    (directory / "key.pem").write_text((directory / f"{key}.key").read_text("ascii"), "ascii")


TLS = "{http: '127.0.0.1:0', faktory: '127.0.0.1:0', tls: {cert: DIR/cert.pem, key: DIR/key.pem}}"


def get_over_tls(server, trusted, path="/ready", is_text=False):
    context = ssl.create_default_context(cadata=trusted)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port(), timeout=LIMIT_S, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read().decode() if is_text else answer.status
    finally:
        connection.close()


def test_certificate_is_replaced_by_a_reload_and_a_bad_one_is_refused(bench):
    first, second = make_certificate(bench.dir, "first"), make_certificate(bench.dir, "second")
    use_certificate(bench.dir, "first", "first")
    bench.configure(listen=TLS.replace("DIR", str(bench.dir)))
    server = bench.serve().ready()
    assert get_over_tls(server, first) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        get_over_tls(server, second)

    use_certificate(bench.dir, "second", "first")
    server.reload()
    assert server.logged(r"reload_refused .*listen.tls.key: is not the key of the certificate")
    assert get_over_tls(server, first) == 200

    use_certificate(bench.dir, "second", "second")
    server.reload()
    assert server.logged("certificate_replaced")
    assert get_over_tls(server, second) == 200
    context = ssl.create_default_context(cadata=second)
    assert FaktoryClient(server.port("faktory"), tls=context).info()
    assert server.stop() == 0


def open_tls(server, interface, context, name):
    raw = socket.create_connection(("127.0.0.1", server.port(interface)), timeout=LIMIT_S)
    return context.wrap_socket(raw, server_hostname=name)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_any_server_name_is_served_with_the_certificate(bench, version):
    """A service of Docker Compose may be called redrive_server, and some clients send the port as well."""
    text = make_certificate(bench.dir, "only")
    use_certificate(bench.dir, "only", "only")
    bench.configure(listen=TLS.replace("DIR", str(bench.dir)))
    server = bench.serve().ready()
    context = ssl.create_default_context(cadata=text)
    context.check_hostname = False
    context.minimum_version = context.maximum_version = version
    for name in ("localhost", "redrive_server", f"localhost:{server.port()}", "a_b.example:7070", "_", "a" * 63):
        with open_tls(server, "http", context, name) as first:
            assert first.version() == version.name.replace("_", ".")
            assert first.getpeercert(True) == ssl.PEM_cert_to_DER_cert(text)
            first.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert first.makefile("rb").readline().split()[1] == b"200"
        with open_tls(server, "faktory", context, name) as second:
            assert second.recv(3) == b"+HI"
    assert server.stop() == 0


def test_a_certificate_that_is_about_to_end_is_warned_about(bench):
    def certificate_ends():
        found, = re.findall(r"^redrive_certificate_end_time_seconds (\S+)$", get_over_tls(server, text, "/metrics", is_text=True), re.M)
        return (float(found) - time.time()) / 86400

    def doctor():
        return next(c for c in json.loads(bench.redrive("doctor", "--json").stdout)["items"] if c["check"] == "certificate")

    text = make_certificate(bench.dir, "fresh")
    make_certificate(bench.dir, "old", days=12)
    use_certificate(bench.dir, "fresh", "fresh")
    bench.configure(listen=TLS.replace("DIR", str(bench.dir)))
    server = bench.serve().ready()
    assert not server.logged("certificate_ends")
    assert 88 < certificate_ends() < 91
    assert doctor()["status"] == "ok"

    text = (bench.dir / "old.pem").read_text("ascii")
    use_certificate(bench.dir, "old", "old")
    server.reload()
    assert len(server.wait_log(r"WARN  certificate_ends .*ends in 1[12] days")) == 1
    assert 10 < certificate_ends() < 13
    found = doctor()
    assert found["status"] == "warn" and "ends in 1" in found["text"] and "SIGHUP" in found["hint"]
    server.reload()  # whatever else has changed
    server.wait_log("certificate_ends", times=2)
    assert server.stop() == 0
    server = bench.serve().ready()
    assert server.logged("certificate_ends")


@pytest.mark.parametrize(
    ("cert", "key", "why", "exit_of_check"),
    [
        ("none", "a", r"redrive.yaml:2: listen.tls.cert: .*", 0),
        ("a", "none", r"redrive.yaml:2: listen.tls.key: .*", 0),
        ("a", "b", r"redrive.yaml:2: listen.tls.key: is not the key of the certificate", 2),
        ("text", "a", r"redrive.yaml:2: listen.tls.cert: is not a certificate in PEM form", 2),
    ],
)
def test_certificate_that_cannot_be_used_is_an_error_with_its_line(bench, cert, key, why, exit_of_check):
    make_certificate(bench.dir, "a")
    make_certificate(bench.dir, "b")
    (bench.dir / "text.pem").write_text("hello", "ascii")
    listen = f"{{http: '127.0.0.1:0', faktory: 'off', tls: {{cert: {bench.dir}/{cert}.pem, key: {bench.dir}/{key}.key}}}}"
    bench.configure(listen=listen)
    server = bench.serve()
    assert server.wait() != 0
    assert server.logged(why)
    checked = bench.redrive("config", "check")
    assert checked.returncode == exit_of_check
    assert re.search(why, checked.stderr), checked.stderr
    assert not bench.database.exists()


def test_other_machines_are_not_served_without_tls_unless_that_is_said(bench):
    tokens = f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n"
    bench.configure(tokens, "{http: '0.0.0.0:0', faktory: 'off'}")
    server = bench.serve()
    assert server.wait() == 2
    assert "is open to other machines, but there is no TLS" in server.log()
    bench.configure(tokens, "{http: '0.0.0.0:0', faktory: 'off', insecure: true}")
    assert bench.serve().ready().stop() == 0


# ---- Who did what ------------------------------------------------------------------------------


def test_admin_actions_and_refusals_are_logged_with_the_token(bench):
    bench.configure(
        f"tokens: [{{name: ops, hash: '{token_hash('secret')}', scopes: [admin, read]}}, "
        f"{{name: eye, hash: '{token_hash('look')}', scopes: [read]}}]\n"
    )
    server = bench.serve().ready()

    def ask(method, path, token, body=None):
        connection = server.connect()
        connection.request(method, path, body, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        status = connection.getresponse().status
        connection.close()
        return status

    assert ask("POST", "/queues/mail/pause", "secret") == 200
    assert ask("DELETE", "/v1/jobs/none", "secret") == 404
    assert ask("GET", "/jobs", "secret") == 200
    client = r"tenant=default client=127\.0\.0\.1"
    assert server.logged(rf'admin_action interface=http token=ops {client} action="POST /queues/{{queue}}/pause" target=mail result=done')
    assert server.logged(rf'admin_action interface=http token=ops {client} action="DELETE /jobs/{{id}}" target=none result=failed')
    assert len(re.findall("admin_action interface", server.log())) == 2

    # A dry run, with which the dashboard's dialog begins, does nothing.
    assert ask("POST", "/bulk", "secret", '{"verb": "cancel", "all": true, "dry_run": true}') == 200
    assert ask("POST", "/retry/dead-letters/retry", "secret", '{"all": true, "dry_run": true}') == 200
    assert ask("DELETE", "/retry/dead-letters?older_than_hours=0&dry_run=true", "secret") == 200
    assert len(re.findall("admin_action interface", server.log())) == 2
    assert ask("POST", "/bulk", "secret", '{"verb": "cancel", "all": true}') == 200
    assert server.logged('action="POST /bulk" target="" result=done')

    assert ask("POST", "/queues/mail/resume", "look") == 403
    assert server.logged(r"access_refused interface=http token=eye client=127\.0\.0\.1 .*lacks the scope admin")
    for _ in range(200):
        assert ask("GET", "/jobs", "wrong-one") == 401
    assert len(re.findall("access_refused", server.log())) < 100
    more = r"token is not known.* more=[1-9]"
    wait_for(lambda: ask("GET", "/jobs", "wrong-one") == 401 and server.logged(more), "a line with a count")
    assert "wrong-one" not in server.log()
