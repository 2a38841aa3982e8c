"""A network between a program and its server, for tests and benchmarks: bench/delay_proxy.c as a context.

    with Redis() as server, DelayProxy(server, round_trip_ms=1) as network:
        ... network.url ...
        network.reset()
        ... network.counts()["round_trips"] ...
"""
import json
import pathlib
import subprocess
import time

from tests.kit.program import BUILD

STOP_S = 20
STEP_MS = 20  # so long that it cannot be taken for work of the server or of the client
STEP_BATCH = 64


def find_program(build=None):
    """That of a build; of the one under test unless given."""
    return pathlib.Path(build or BUILD) / "bench" / "delay_proxy"


class DelayProxy:
    """`server` has a port on loopback and a URL with it; `build` is that under test unless given."""

    def __init__(self, server, round_trip_ms, build=None):
        self.server = server
        self.process = subprocess.Popen([str(find_program(build)), str(server.port), str(round(round_trip_ms * 1000))],
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


def round_trips_of_transactions(server, url, build=None, step_ms=STEP_MS):
    """{"settle_claim": n, "settle": n}: those that a transaction waits for, one that settles a batch and claims the next
    one, and one that only settles, as bench_engine makes them on the store at `url` of the server. They follow from
    the shortest time of many with `step_ms` of delay: what is sent ahead and not waited for costs nothing."""
    shortest_ms, done, asked_s = {}, "", 0
    with DelayProxy(server, step_ms, build) as network:
        command = [str(find_program(build).with_name("bench_engine")), "steps", "--store", network.through(url),
                   "--batch", str(STEP_BATCH)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
            for line in engine.stdout:
                took_ms = (time.monotonic() - asked_s) * 1000
                shortest_ms[done] = min(shortest_ms.get(done, took_ms), took_ms)
                done = line.strip()
                time.sleep(step_ms / 500)  # what was sent ahead is answered
                asked_s = time.monotonic()
                engine.stdin.write("\n")
                engine.stdin.flush()
    if engine.returncode != 0:
        raise RuntimeError("bench_engine has failed")
    return {step: int(ms / step_ms) for step, ms in shortest_ms.items() if step}
