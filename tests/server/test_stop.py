"""A stop while many clients ask: each gets an answer or a closed connection, and the end comes."""

import http.client
import json
import threading
import time

import pytest

from tests.kit.waiting import LIMIT_S, wait_for

N_CLIENTS = 50
# Some clients claim jobs and never settle them: a stop waits for these as long as the grace.
GRACE_S = 1
END_S = 50  # a claim would wait for 60

# What clients do over and over: with a reader, without, with an operation, with a wait.
REQUESTS = [
    ("POST", "/jobs", {"task": "mail"}),
    ("GET", "/jobs?limit=50", None),
    ("POST", "/claim", {"n": 5, "worker": "w"}),
    ("POST", "/claim", {"queues": ["none"], "worker": "w", "wait": 60}),
    ("GET", "/metrics", None),
    ("POST", "/retry/dead-letters/retry", {"all": True}),
    ("DELETE", "/retry/dead-letters?older_than_hours=1", None),
    ("GET", "/retry/stats", None),
    ("GET", "/events", None),
    ("POST", "/jobs/none/retry", {}),
]


class Client(threading.Thread):
    """Asks until the server has gone; `trouble` is what must not happen."""

    def __init__(self, port, number):
        super().__init__(daemon=True)
        self.port = port
        self.request = REQUESTS[number % len(REQUESTS)]
        self.answers = 0
        self.trouble = None

    def ask(self, connection):
        method, path, body = self.request
        connection.request(method, path, body=json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status in (200, 201, 202, 404, 503), (answer.status, text)
        self.answers += 1

    def run(self):
        while self.trouble is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
            try:
                while True:
                    self.ask(connection)
            except ConnectionRefusedError:
                return
            except TimeoutError:
                self.trouble = "no answer"
            except (http.client.HTTPException, OSError):
                pass  # closed; whether it has gone shows the next connection
            except AssertionError as wrong:
                self.trouble = wrong
            finally:
                connection.close()


@pytest.mark.parametrize("after_s", [0, 0.5, 1.5])
def test_a_stop_under_load_answers_or_closes(bench, after_s):
    server = bench.serve("--grace", f"{GRACE_S}s").ready()
    clients = [Client(server.port(), i) for i in range(N_CLIENTS)]
    for client in clients:
        client.start()
    wait_for(lambda: sum(client.answers for client in clients) >= N_CLIENTS, "the first answers")
    time.sleep(after_s)
    began = time.monotonic()
    assert server.stop() == 0, server.log()
    took = time.monotonic() - began
    for client in clients:
        client.join(LIMIT_S)
        assert not client.is_alive()
        assert client.trouble is None, client.request
    assert took < END_S, took
    assert server.logged(r"\bstopped\b")
