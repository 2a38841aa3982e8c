"""Servers that are too old are refused at start-up, with their version and what is needed. None are
installed, so these here only say that they are."""
import contextlib
import socket
import struct
import subprocess
import threading

import pytest

from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S


def postgres(connection):
    """Greets as PostgreSQL does, and says that it may be written to, which libpq asks old ones."""
    def message(kind, body):
        return kind + struct.pack("!I", 4 + len(body)) + body

    while True:
        size, code = struct.unpack("!II", connection.recv(8, socket.MSG_WAITALL))
        connection.recv(size - 8, socket.MSG_WAITALL)
        if code >> 16 == 3:  # a start of protocol 3; all else asks for encryption
            break
        connection.sendall(b"N")
    connection.sendall(message(b"R", struct.pack("!I", 0)) +
                       message(b"S", b"server_version\x0012.22\0") +
                       message(b"S", b"server_encoding\0UTF8\0") +
                       message(b"Z", b"I"))
    if connection.recv(1) == b"Q":
        column = b"transaction_read_only\0" + struct.pack("!IHIhIH", 0, 0, 25, -1, 0, 0)
        connection.sendall(message(b"T", struct.pack("!H", 1) + column) +
                           message(b"D", struct.pack("!HI", 1, 3) + b"off") +
                           message(b"C", b"SHOW\0") + message(b"Z", b"I"))
        while connection.recv(4096):
            pass


def redis(connection):
    """Answers to INFO as an old one, and to everything else as if it were done."""
    stream = connection.makefile("rwb")
    while line := stream.readline():
        words = []
        for _ in range(int(line[1:])):
            size = int(stream.readline()[1:])
            words.append(stream.read(size + 2)[:-2].upper())
        info = b"redis_version:6.2.14\r\nrole:master\r\nmaxmemory:0\r\n"
        stream.write(b"$%d\r\n%s\r\n" % (len(info), info) if words[0] == b"INFO" else b"+OK\r\n")
        stream.flush()


@contextlib.contextmanager
def server_that_greets(greet):
    """A port behind which connections are greeted so."""
    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, struct.error):
                connection.settimeout(LIMIT_S)
                greet(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("command", [["work"], ["serve", "--listen", "127.0.0.1:0"], ["enqueue", "mail", "{}"]])
@pytest.mark.parametrize("greet, found, needed", [(postgres, "PostgreSQL 12.22", "PostgreSQL 13 or newer is needed"),
                                                  (redis, "Redis 6.2.14", "Redrive needs Redis 7")])
def test_server_that_is_too_old_is_refused(greet, found, needed, command, tmp_path):
    (tmp_path / "redrive.yaml").write_text("tasks: {mail: {run: {exec: [cat]}}}\n")
    with server_that_greets(greet) as port:
        done = subprocess.run([BINARY, "--store", f"{greet.__name__}://someone@127.0.0.1:{port}/", *command], cwd=tmp_path,
                              env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode != 0
    assert "server is too old" in done.stderr
    assert found in done.stderr
    assert needed in done.stderr
