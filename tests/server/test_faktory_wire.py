"""The Faktory server and its connections: what can be said wrongly, pieces, pipelines, clients that vanish."""

import contextlib
import json
import socket
import threading
import time

import pytest

from tests.kit.faktory import FaktoryClient, FaktoryError, job
from tests.kit.waiting import LIMIT_S, wait_for


@pytest.mark.parametrize("line", [
    b"NONSENSE\r\n", b"push {}\r\n", b"\r\n", b"\n", b"\0\0\0\r\n", b"PU\0SH {}\r\n", b"\xff\xfe\xfd\r\n",
    b"PUSH\r\n", b"PUSH \0\r\n", b'PUSH {"jid":"\0"}\r\n', b"PUSHB\r\n", b"FETCH \0\r\n", b"QUEUE\r\n", b"MUTATE\r\n",
    b"BEAT null\r\n", b"ACK null\r\n", b"FAIL null\r\n", b"HELLO {}\r\n", b"*1\r\n", b"+OK\r\n", b"PUSH [[[[\r\n",
    b"PUSH " + b"[" * 5000 + b"\r\n", b"X" * 100000 + b"\r\n",
], ids=lambda line: repr(line[:20]))
def test_rubbish_is_an_error_and_the_next_command_is_understood(server, line):
    client = server.connect()
    client.send(line)
    with pytest.raises(FaktoryError):
        client.reply()
    client.push("job-00001")


def test_line_over_the_limit_is_refused(start_server):
    server = start_server("--max-line", "100000")
    client = server.connect()
    client.send(b"PUSH " + b"x" * 120000)
    with pytest.raises(FaktoryError, match="line is over 100000 bytes"):
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
    wait_for(lambda: small.info_of("server")["connections"] <= 6)
    assert server.peak_mib() - before < 100
    small.push("job-00002")
    assert small.fetch()["jid"] == "job-00002"
    for client in greedy:
        client.file.close()
        client.socket.close()
    wait_for(lambda: small.info_of("server")["connections"] == 1)
    # All of it has been given back.
    client = server.connect()
    client.push("job-00003", args=["x" * (mib // 2)])


def test_command_that_is_not_finished_in_time_is_cut_off(start_server):
    server = start_server("--command", "300")
    client = server.connect()
    client.socket.sendall(b"PUSH {")
    with pytest.raises(FaktoryError, match="not finished in time"):
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
        except FaktoryError as error:
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
        client = FaktoryClient(port, wid=f"w{number}")
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
    wait_for(lambda: server.connect().info()["queues"][queue] == 1000)


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
