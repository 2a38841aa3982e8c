"""A Redis store over TLS: it keeps its contract, and what is wrong with certificates or ports is named."""
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from tests.kit.certificates import Authority
from tests.kit.ports import lasting_port
from tests.kit.program import BINARY
from tests.kit.redis_tls import RedisTls
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.fleet import Fleet
from tests.shared.unit import passes

CONFORMANCE = ("submit", "claim", "settle", "transactions", "two", "list")


@pytest.fixture(scope="module", name="folder")
def short_folder():
    """Its path is part of URLs."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="redrive-tls-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", name="ca")
def authority(folder):
    return Authority(folder, "ca")


@pytest.fixture(scope="module", name="good")
def good_identity(ca):
    """Of a server that is found by its address only, not by a name."""
    return ca.sign("server", "IP:127.0.0.1")


@pytest.fixture(scope="module", name="server")
def one_server(ca, good):
    with start_or_skip(RedisTls, ca, *good) as server:
        yield server


def redrive(*words):
    return subprocess.run([str(BINARY), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                          check=False)


def refusal(url):
    """What is written when a job is submitted there in vain."""
    done = redrive("enqueue", "mail", "{}", "--store", url)
    assert done.returncode in (1, 2), (url, done.stdout)
    assert "hint: " in done.stderr, done.stderr
    assert "PRIVATE" not in done.stderr
    return done.stderr


def accepted(url):
    done = redrive("enqueue", "mail", "{}", "--store", url)
    assert done.returncode == 0, done.stderr
    return True


# ---- It works ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFORMANCE)
def test_the_contract_of_a_store_holds_over_tls(server, name):
    passes("store_tests", name, REDRIVE_TEST_STORE="redis", REDRIVE_TEST_REDIS=server.tls_url())


def test_the_check_of_a_store_says_that_there_is_tls(server):
    accepted(server.tls_url(prefix="told"))
    assert ", TLS1." in redrive("doctor", "--store", server.tls_url(prefix="told")).stdout
    assert ", TLS1." not in redrive("doctor", "--store", f"{server.url}?prefix=told").stdout


def test_both_ways_lead_to_one_store(server):
    accepted(server.tls_url(prefix="both"))
    done = redrive("move", "--from", f"{server.url}?prefix=both", "--to", server.tls_url(prefix="both"))
    assert done.returncode != 0 and "same" in done.stderr, done.stderr


def test_a_user_with_a_password_and_a_database_are_used(server):
    server.call("ACL", "SETUSER", "queue", "on", ">p@ss:/?&1", "~*", "&*", "+@all")
    accepted(server.tls_url(login="queue:p%40ss%3A%2F%3F%261@").replace("?", "/2?", 1))
    assert server.call("EXISTS", "{redrive}:root") == "0"
    assert "WRONGPASS" in refusal(server.tls_url(login="queue:wrong@"))


def test_work_goes_on_after_the_server_was_restarted(ca, good, tmp_path):
    """Jobs are done, retried until they are dead letters, and redriven, before and after."""
    with start_or_skip(RedisTls, ca, *good, durable=True) as server:
        fleet = Fleet(tmp_path, server.tls_url())
        fleet.configure("tasks:\n"
                        "  mail: {run: {exec: ['/bin/true']}}\n"
                        "  bad: {run: {exec: ['/bin/false']}, retry: {max_attempts: 1}}\n")
        try:
            fleet.work()
            for round_ in (1, 2):
                fleet.submit("mail", [{}] * 20)
                fleet.submit("bad", [{}])
                wait_for(lambda n=round_: len(fleet.jobs("completed")) == 20 * n and len(fleet.jobs("dead_letter")) == n, "all are done")
                if round_ == 1:
                    server.kill()
                    server.start()
        finally:
            fleet.close()


# ---- The server's certificate --------------------------------------------------------------------


def test_a_certificate_with_another_name_is_refused_with_both_names(server):
    said = refusal(server.tls_url("localhost"))
    assert "found 127.0.0.1, expected localhost" in said, said
    assert accepted(server.tls_url("localhost", server_name="127.0.0.1"))
    assert "expected other.example" in refusal(server.tls_url(server_name="other.example"))


def test_an_unknown_authority_is_named(server, folder):
    other = Authority(folder, "other")
    said = refusal(server.tls_url(sslrootcert=other.cert))
    assert "unknown authority" in said and "CN=ca" in said and str(other.cert) in said, said
    said = refusal(server.tls_url(sslrootcert=None))
    assert "unknown authority" in said and "this system" in said and "sslrootcert" in said, said


def test_a_certificate_that_has_expired_is_refused(ca, good, server):
    cert, key = ca.sign("old", "IP:127.0.0.1", days=-1)
    server.configure(tls_cert_file=cert, tls_key_file=key)
    try:
        said = refusal(server.tls_url())
    finally:
        server.configure(tls_cert_file=good[0], tls_key_file=good[1])
    assert "has expired" in said and "until 20" in said, said


def test_files_that_cannot_be_used_are_named(server, folder, good):
    said = refusal(server.tls_url(sslrootcert=folder / "none.pem"))
    assert "sslrootcert" in said and "none.pem" in said, said
    empty = folder / "empty.pem"
    empty.write_text("")
    assert "no certificate" in refusal(server.tls_url(sslrootcert=empty))
    said = refusal(server.tls_url(sslcert=good[0], sslkey=server.ca.key))
    assert "sslcert and sslkey" in said, said


# ---- The client's certificate --------------------------------------------------------------------


def test_a_server_may_ask_for_a_certificate_of_the_client(ca, server, folder):
    mine = ca.sign("client")
    strange = Authority(folder, "strange").sign("client")
    for protocols in ("TLSv1.3", "TLSv1.2"):
        server.configure(tls_auth_clients="yes", tls_protocols=protocols)
        try:
            said = refusal(server.tls_url())
            assert "asks for a certificate" in said and "sslcert=FILE&sslkey=FILE" in said, said
            said = refusal(server.tls_url(sslcert=strange[0], sslkey=strange[1]))
            assert "does not accept the certificate" in said and str(strange[0]) in said, said
            assert accepted(server.tls_url(sslcert=mine[0], sslkey=mine[1]))
        finally:
            server.configure(tls_auth_clients="no", tls_protocols="")


# ---- Ports ---------------------------------------------------------------------------------------


def test_a_port_without_tls_and_one_with_it_are_told_apart(server):
    # With a second host the first is not waited for as long.
    plain = f"rediss://127.0.0.1:{server.port},127.0.0.1:{server.port}?sslrootcert={server.ca.cert}"
    said = refusal(plain)
    assert "does not speak TLS" in said and "redis://" in said, said
    said = refusal(f"redis://127.0.0.1:{server.tls_port}")
    assert "rediss://" in said, said


# ---- Several servers -----------------------------------------------------------------------------


def test_a_cluster_is_followed_with_tls(ca, good):
    with start_or_skip(RedisTls, ca, *good, settings={"cluster-enabled": "yes", "tls-cluster": "yes", "tls-auth-clients": "optional",
                                   "cluster-port": lasting_port()}.items()) as one, \
         start_or_skip(RedisTls, ca, *good, settings={"cluster-enabled": "yes", "tls-cluster": "yes", "tls-auth-clients": "optional",
                                   "cluster-port": lasting_port()}.items()) as two:
        one.call("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        two.call("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        bus = dict(one.settings)["cluster-port"]
        two.call("CLUSTER", "MEET", "127.0.0.1", one.tls_port, bus)
        wait_for(lambda: all("cluster_state:ok" in node.call("CLUSTER", "INFO") for node in (one, two)), "the cluster is whole")
        for prefix in ("a", "b", "c", "d"):
            assert accepted(one.tls_url(prefix=prefix))
        held = [node.call("EXISTS", "{%s}:root" % prefix) for node in (one, two) for prefix in ("a", "b", "c", "d")]
        assert held.count("1") == 4 and "1" in held[:4] and "1" in held[4:], held


def test_sentinels_name_the_primary_and_the_one_that_takes_over(ca, good, tmp_path):
    settings = {"tls-replication": "yes", "tls-auth-clients": "optional"}
    with start_or_skip(RedisTls, ca, *good, settings=settings.items()) as one, start_or_skip(RedisTls, ca, *good, settings=settings.items()) as two:
        two.call("REPLICAOF", "127.0.0.1", one.tls_port)
        wait_for(lambda: "master_link_status:up" in two.call("INFO", "replication"), "the second follows the first")
        with start_sentinel(ca, good, one.tls_port) as sentinel:
            url = sentinel.tls_url(sentinel="jobs")
            assert accepted(url)
            assert one.call("EXISTS", "{redrive}:root") == "1"
            assert "knows no primary" in refusal(sentinel.tls_url(sentinel="other"))
            assert "a Sentinel" in refusal(sentinel.tls_url())
            assert "no Sentinels" in refusal(one.tls_url(sentinel="jobs"))
            fleet = Fleet(tmp_path, url)
            fleet.configure("tasks: {mail: {run: {exec: ['/bin/true']}}}\n")
            try:
                fleet.work()
                wait_for(lambda: len(fleet.jobs("completed")) == 1, "the first is done")
                wait_for(lambda: "slave0" in one.call("INFO", "replication") and
                         "num-slaves" in str(sentinel.call("SENTINEL", "MASTER", "jobs")) and
                         sentinel.call("SENTINEL", "REPLICAS", "jobs"), "the Sentinel knows the replica")
                one.kill()
                wait_for(lambda: redrive("enqueue", "mail", "{}", "--store", url).returncode == 0, "another has taken over")
                wait_for(lambda: fleet.jobs() and all(job["state"] == "completed" for job in fleet.jobs()), "the rest is done")
            finally:
                fleet.close()


class Sentinel(RedisTls):
    """Watches one primary, by itself."""

    def __init__(self, ca, cert, key, primary):
        self.primary = primary
        super().__init__(ca, cert, key, settings={"tls-replication": "yes", "tls-auth-clients": "optional"}.items())

    def command(self):
        config = self.folder / "sentinel.conf"
        config.write_text("".join(f"{name} {value}\n" for name, value in self.settings) +
                          f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
                          f"sentinel monitor jobs 127.0.0.1 {self.primary} 1\n"
                          "sentinel down-after-milliseconds jobs 500\nsentinel failover-timeout jobs 3000\n")
        return [super().command()[0], str(config), "--sentinel"]


def start_sentinel(ca, identity, primary):
    return Sentinel(ca, *identity, primary)
