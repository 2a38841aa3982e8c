"""A server on a free loopback port, with a store of its own."""

import http.client
import os
import re
import subprocess

from conftest import BINARY, LIMIT_S
from waiting import wait_for


class Serving:
    """`words` are further options. It is ended with the block, by its process id."""

    def __init__(self, folder, *words):
        self.log = folder / "serve.log"
        command = [BINARY, "serve", *words, "--store", f"sqlite:{folder}/jobs.db", "--listen", "127.0.0.1:0",
                   "--faktory", "off", "--log-format", "text"]
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
            return re.search(r"listening interface=http address=\S+:(\d+)", text)

        return int(wait_for(there, "the server listens").group(1))

    def get(self, path, token=None):
        """Status and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()
