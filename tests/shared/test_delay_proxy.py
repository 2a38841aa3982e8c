"""The proxy that tests and benchmarks put in front of a server: it delays, changes nothing, and counts right."""
import contextlib
import hashlib
import os
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time

import pytest

from tests.kit.delay import DelayProxy, find_program
from tests.kit.waiting import LIMIT_S

PINGS = 200
PRECISION_MS = 0.15
LARGE = 16 * 1024 * 1024
CLIENTS = 8


class Peer:
    """A server on loopback: `serve` is called with each connection, in a thread of its own."""

    def __init__(self, serve):
        self.serve = serve
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]
        self.url = f"peer://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                tune(connection)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def tune(connection):
    connection.settimeout(LIMIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def connect(port):
    return tune(socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S))


def echo(connection):
    with connection, contextlib.suppress(OSError):
        while data := connection.recv(1 << 20):
            connection.sendall(data)


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_all(connection):
    return b"".join(iter(lambda: connection.recv(1 << 20), b""))


@pytest.fixture
def peer():
    """Starts a server: peer(serve)."""
    made = []

    def make(serve=echo):
        made.append(Peer(serve))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ping(connection):
    start = time.perf_counter()
    connection.sendall(b"x")
    assert connection.recv(10) == b"x"
    return (time.perf_counter() - start) * 1000


def added_ms(network, server):
    """By pings through the proxy and without it, in turns: what others do to the machine they do to both. It makes some
    pings longer, and none shorter: the fastest quarter is looked at."""
    with connect(network.port) as far, connect(server.port) as near:
        pairs = [(ping(far), ping(near)) for _ in range(PINGS)]
    slow, fast = (statistics.quantiles(times, n=4)[0] for times in zip(*pairs))
    return slow - fast


@pytest.mark.parametrize("round_trip_ms", [0, 0.5, 1])
def test_adds_the_round_trip_that_was_asked_for(peer, round_trip_ms):
    """At some time other tests leave the processors alone."""
    server = peer()
    off_ms = []
    with DelayProxy(server, round_trip_ms) as network:
        until = time.monotonic() + LIMIT_S
        while not off_ms or time.monotonic() < until:
            off_ms.append(abs(added_ms(network, server) - round_trip_ms))
            if off_ms[-1] <= PRECISION_MS:
                return
    pytest.fail(f"off by {off_ms} ms")


@pytest.mark.parametrize("round_trip_ms", [0, 1])
def test_many_connections_carry_megabytes_unchanged_and_in_order(peer, round_trip_ms):
    server, seen = peer(), {}

    def talk(number, port):
        sent = hashlib.sha256(str(number).encode()).digest() * (LARGE // CLIENTS // 32)
        with connect(port) as connection:
            threading.Thread(target=send, args=(connection, sent), daemon=True).start()
            seen[number] = read_all(connection) == sent

    def send(connection, data):
        size = 1
        while data:
            connection.sendall(data[:size])
            data, size = data[size:], min(size * 2, 1 << 20)
        connection.shutdown(socket.SHUT_WR)

    with DelayProxy(server, round_trip_ms) as network:
        clients = [threading.Thread(target=talk, args=(n, network.port)) for n in range(CLIENTS)]
        start = time.monotonic()
        for client in clients:
            client.start()
        for client in clients:
            client.join(LIMIT_S)
        took_s = time.monotonic() - start
        counts = network.counts()
    assert seen == dict.fromkeys(range(CLIENTS), True)
    assert counts["to_server_bytes"] == counts["to_client_bytes"] == LARGE
    assert counts["connections"] == CLIENTS
    assert took_s < 15, "it limits what passes"  # usually less than half a second


def test_pipelined_requests_pass_together(peer):
    """A thousand requests that wait for each other's answers would take a thousand round trips."""
    with DelayProxy(peer(), 20) as network, connect(network.port) as connection:
        for _ in range(1000):
            connection.sendall(b"request ")
        assert len(read_exactly(connection, 8000)) == 8000
        assert network.counts()["round_trips"] < 500


def test_requests_that_do_not_wait_for_the_answer_are_one_round_trip(peer):
    """Even if the server has answered the first one before the second is sent: the answer is still on its way."""

    def count(round_trip_s):
        with DelayProxy(peer(), round_trip_s * 1000) as network, connect(network.port) as connection:
            connection.sendall(b"one")
            time.sleep(0.6 * round_trip_s)  # read and answered by the server after half of it
            connection.sendall(b"two")
            assert read_exactly(connection, 6) == b"onetwo"
            return network.counts()["round_trips"]

    # On a busy machine the second may be sent after the answer has come.
    assert any(count(round_trip_s) == 1 for round_trip_s in (0.4, 0.4, 0.4, 1, 3, 10))


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def test_counts_round_trips_bytes_and_connections(peer):
    with DelayProxy(peer(), 1) as network:
        with connect(network.port) as one, connect(network.port) as two:
            for _ in range(7):
                ping(one)
            ping(two)
            counts = network.reset()
            assert (counts["round_trips"], counts["connections"]) == (8, 2)
            assert counts["to_server_bytes"] == counts["to_client_bytes"] == 8
            assert counts["late_p50_us"] <= counts["late_p99_us"]
            ping(one)
            counts = network.counts()
            assert (counts["round_trips"], counts["connections"], counts["to_server_bytes"]) == (1, 0, 1)


def test_prints_the_counts_on_a_signal_and_at_its_end(peer):
    network = DelayProxy(peer(), 0)
    with connect(network.port) as connection:
        ping(connection)
    os.kill(network.process.pid, signal.SIGUSR1)
    assert network._answer()["round_trips"] == 1
    assert network.close()["round_trips"] == 1


def test_passes_on_a_half_close(peer):
    """A client that has said all still gets the answer, and the end of it."""
    def answer_at_the_end(connection):
        with connection:
            connection.sendall(b"heard " + read_all(connection))

    with DelayProxy(peer(answer_at_the_end), 1) as network, connect(network.port) as connection:
        connection.sendall(b"question")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b"heard question"


def test_passes_on_a_reset_of_the_server(peer):
    def refuse(connection):
        connection.recv(10)
        reset(connection)

    with DelayProxy(peer(refuse), 1) as network, connect(network.port) as connection:
        connection.sendall(b"question")
        with pytest.raises(ConnectionResetError):
            connection.recv(10)


def test_passes_on_a_reset_of_the_client(peer):
    ends, over = [], threading.Event()

    def listen(connection):
        with connection:
            try:
                ends.append(read_all(connection))
            except ConnectionResetError:
                ends.append("reset")
            over.set()

    with DelayProxy(peer(listen), 1) as network:
        connection = connect(network.port)
        connection.sendall(b"question")
        time.sleep(0.05)
        reset(connection)
        assert over.wait(LIMIT_S)
    assert ends == ["reset"]


def test_resets_a_client_whose_server_is_not_there(peer):
    gone = peer()
    gone.close()
    with DelayProxy(gone, 1) as network, pytest.raises(ConnectionResetError):
        with connect(network.port) as connection:  # the reset may come before connect() has returned
            connection.recv(10)


def test_stops_a_writer_whose_reader_does_not_read(peer):
    """And the others go on: what is under way has a limit."""
    quiet = threading.Event()

    def read_late(connection):
        with connection:
            if connection.recv(1) == b"s":
                quiet.wait(LIMIT_S)
            echo(connection)

    with DelayProxy(peer(read_late), 0) as network, connect(network.port) as slow, connect(network.port) as other:
        slow.sendall(b"s")
        slow.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(100):
                slow.sendall(bytes(1 << 20))
        other.sendall(b"ab")
        assert other.recv(10) == b"b"
        quiet.set()


@pytest.mark.parametrize("words", [[], ["1"], ["x", "1"], ["0", "1"], ["65536", "1"], ["1", "-1"], ["1", "1x"]])
def test_refuses_wrong_words(words):
    done = subprocess.run([str(find_program()), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    assert done.returncode == 2 and "usage" in done.stderr
