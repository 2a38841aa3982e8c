"""A proxy in front of an HTTP server, some of whose connections become black holes: they stay open, what is sent
disappears, and no answer comes, as behind a firewall that has forgotten them.

    with BlackHole(port) as network:
        network.swallow("/v1/extend")           # the next connection that carries such a request
        ... f"http://127.0.0.1:{network.port}" ...
"""
import contextlib
import math
import select
import socket
import threading

STEP_S = 0.1
LIMIT_S = 20


class BlackHole:
    """`holes` counts the connections that have become black holes."""

    def __init__(self, port):
        self.target = port
        self.holes = 0
        self._path = None
        self._left = 0
        self._answers_only = False
        self._lock = threading.Lock()
        self._is_closing = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = []
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def swallow(self, path, connections=1, answers_only=False):
        """From the next request for `path` on, that many connections are black holes; with `answers_only` the server
        still gets the request."""
        with self._lock:
            self._path, self._left, self._answers_only = path, connections, answers_only

    def swallow_all(self, path):
        self.swallow(path, math.inf)

    def heal(self):
        """No more of them; those that are there stay as they are."""
        self.swallow(None, 0)

    def close(self):
        self._is_closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _start(self, function, *words):
        thread = threading.Thread(target=function, args=words, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._is_closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client):
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._forward(client, server)

    def _forward(self, client, server):
        is_hole = False
        while not self._is_closing:
            ready, _, _ = select.select([client, server], [], [], STEP_S)
            for one, other in ((client, server), (server, client)):
                if one not in ready:
                    continue
                data = one.recv(65536)
                if not data:
                    return
                if one is client and not is_hole and self._note(data):
                    is_hole = True
                    if self._answers_only:
                        server.sendall(data)
                if not is_hole:
                    other.sendall(data)

    def _note(self, data):
        """Whether the connection is to become a black hole. A request's head comes in one piece."""
        words = data[:200].split(b" ", 2)
        if len(words) < 3 or words[0] not in (b"GET", b"POST", b"PUT", b"DELETE"):
            return False
        path = words[1].decode().partition("?")[0]
        with self._lock:
            is_hole = path == self._path and self._left > 0
            self._left -= is_hole
            self.holes += is_hole
        return is_hole
