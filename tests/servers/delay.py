"""A network between a program and its server, for tests and benchmarks: bench/delay_proxy.c as a context.

    with Redis() as server, DelayProxy(server, round_trip_ms=1) as network:
        ... network.url ...
        network.reset()
        ... network.counts()["round_trips"] ...
"""
import json
import os
import pathlib
import subprocess

STOP_S = 20


def find_program():
    return pathlib.Path(os.environ["REDRIVE_BUILD"]) / "bench" / "delay_proxy"


class DelayProxy:
    """`server` has a port on loopback and a URL with it; `program` is that of the build under test unless given."""

    def __init__(self, server, round_trip_ms, program=None):
        self.server = server
        self.process = subprocess.Popen([str(program or find_program()), str(server.port), str(round(round_trip_ms * 1000))],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.port = self._answer()["port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def url(self):
        return self.through(self.server.url)

    def through(self, url):
        """The same URL of the server, by way of the proxy."""
        return url.replace(f"127.0.0.1:{self.server.port}", f"127.0.0.1:{self.port}")

    def counts(self):
        """Since the start or the last reset; bench/delay_proxy.c says what each of them is."""
        return self._ask("counts")

    def reset(self):
        """The counts up to now; from now on it counts from 0."""
        return self._ask("reset")

    def close(self):
        """The last counts."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        with self.process.stdout as out:
            said = out.read()
        return json.loads(said) if said else None

    def _ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the delay proxy has ended with {self.process.wait()}")
        return json.loads(line)
