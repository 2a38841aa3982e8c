"""lossy.py - a proxy in front of a PostgreSQL server that loses the answers to some commits."""
import contextlib
import select
import socket
import threading

COMMIT = b"redrive_COMMIT\0"  # the statement's name, in the message that carries it out
ASK = b"redrive_MARKER_ASK\0"  # the same of the question for the outcome of a commit
COMMITTED = b"COMMIT\0"  # the end of the server's answer
READY = b"Z\0\0\0\5"  # the server's last word on a request
LIMIT_S = 20


class Lossy:
    """Every nth COMMIT is harmed, in turn: it is made, its answer is swallowed and the connection is cut; the
    connection is cut and the COMMIT reaches the server, with all that was sent together with it, only after the client
    has asked what became of it; or the server gets what was sent before the COMMIT, and the COMMIT never. Every second
    answer to that question is lost as well."""

    def __init__(self, port, every):
        self.port = port
        self.every = every
        self.commits = 0
        self.swallowed = 0
        self.cut = 0  # that reached the server without their COMMIT
        self.asks = 0
        self.unheard = 0  # questions whose answer was lost
        self.late = []  # what the server said to each late COMMIT: whether it was made
        self.asked = threading.Event()
        self.lock = threading.Lock()
        self.is_closing = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.threads = []
        self._start(self._accept)

    @property
    def at(self):
        return self.listener.getsockname()[1]

    def close(self):
        self.is_closing = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(LIMIT_S)

    def _start(self, function, *words):
        thread = threading.Thread(target=function, args=words, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while not self.is_closing:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port)) as server, contextlib.suppress(OSError):
            self._forward(client, server)

    def _forward(self, client, server):
        while not self.is_closing:
            ready, _, _ = select.select([client, server], [], [], 0.2)
            if server in ready:
                answer = server.recv(65536)
                if not answer:
                    return
                client.sendall(answer)
            if client in ready:
                asked = client.recv(65536)
                if not asked:
                    return
                if COMMIT in asked and (harm := self._harm()):
                    harm(client, server, asked)
                    return
                server.sendall(asked)
                if ASK in asked:
                    is_heard = self._is_heard()
                    self._pass_answer(client if is_heard else None, server)
                    self.asked.set()
                    if not is_heard:
                        return

    @staticmethod
    def _pass_answer(client, server):
        answer = b""
        while READY not in answer and (more := server.recv(65536)):
            answer += more
        if client:
            client.sendall(answer)

    def _is_heard(self):
        with self.lock:
            self.asks += 1
            self.unheard += self.asks % 2
            return self.asks % 2 == 0

    def _harm(self):
        """What is done to this COMMIT, if it is an nth one."""
        with self.lock:
            self.commits += 1
            if self.commits % self.every != 0:
                return None
            return (self._swallow, self._delay, self._cut)[self.commits // self.every % 3]

    def _swallow(self, client, server, asked):
        server.sendall(asked)
        if self._is_committed(server):
            self.swallowed += 1

    def _delay(self, client, server, asked):
        """The bytes were under way when the client gave the connection up."""
        self.asked.clear()
        client.close()
        self.asked.wait(LIMIT_S)
        server.sendall(asked)
        self.late.append(self._is_committed(server))

    def _cut(self, client, server, asked):
        server.sendall(asked[:asked.index(COMMIT)])
        self.cut += 1

    @staticmethod
    def _is_committed(server):
        server.settimeout(LIMIT_S)
        answer = b""
        while READY not in answer and (more := server.recv(65536)):
            answer += more
        return COMMITTED in answer
