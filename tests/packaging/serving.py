"""A server or a worker on a free loopback port, with a store of its own unless one is given."""

import http.client
import os
import re
import subprocess

from conftest import BINARY, LIMIT_S
from waiting import wait_for


class Running:
    """A program that listens with `interface`. It is ended with the block, by its process id."""

    def __init__(self, folder, interface, words, store):
        self.log = folder / f"{words[0]}.log"
        self.interface = interface
        command = [BINARY, *words, "--store", store or f"sqlite:{folder}/jobs.db", "--log-format", "text"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stderr=log,
                                            env={"PATH": os.environ["PATH"]})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        finally:
            self.process.kill()

    def port(self):
        def there():
            text = self.log.read_text("utf-8")
            assert self.process.poll() is None, text
            return re.search(rf"listening interface={self.interface} address=\S+:(\d+)", text)

        return int(wait_for(there, "the program listens").group(1))

    def ask(self, method, path, token=None, body=None):
        """Status and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT_S)
        try:
            connection.request(method, path, body=body, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def get(self, path, token=None):
        return self.ask("GET", path, token)


class Serving(Running):
    """`words` are further options of `redrive serve`."""

    def __init__(self, folder, *words, store=None):
        super().__init__(folder, "http", ["serve", *words, "--listen", "127.0.0.1:0", "--faktory", "off"], store)


class Working(Running):
    """`words` are further options of `redrive work`. It answers with its metrics."""

    def __init__(self, folder, *words, store=None):
        super().__init__(folder, "metrics", ["work", *words, "--metrics", "127.0.0.1:0"], store)
