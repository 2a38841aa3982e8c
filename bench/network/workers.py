"""Worker processes of a contestant that stand by until they are told to go: bench/network/contestant.c has the
words that are spoken on their standard input and output."""
import json
import os
import select
import subprocess
import tempfile
import time

READY_S = 60
ANSWER_S = 30


class Trouble(Exception):
    """A contestant has failed; the others can go on."""


class Worker:
    """One process."""

    def __init__(self, command):
        # What it says on standard error is in the benchmark's own output.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tempfile.gettempdir())
        self.unread = b""

    def wait_until_ready(self):
        line = self._read_line(READY_S)
        if line != b"ready":
            raise Trouble(f"a worker has said '{line.decode(errors='replace')}' and not that it is ready")

    def say(self, word):
        try:
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Trouble("a worker has ended") from None

    def answer(self):
        return json.loads(self._read_line(ANSWER_S))

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def _read_line(self, limit_s):
        end = time.monotonic() + limit_s
        while b"\n" not in self.unread:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            said = os.read(self.process.stdout.fileno(), 1 << 20) if ready else b""
            if not said:
                raise Trouble("a worker has ended" if ready else f"a worker has said nothing for {limit_s} s")
            self.unread += said
        line, _, self.unread = self.unread.partition(b"\n")
        return line


class Team:
    """Several processes of the same contestant, on the same store."""

    def __init__(self, command, n):
        self.workers = []
        try:
            for _ in range(n):
                self.workers.append(Worker(command))
            for worker in self.workers:
                worker.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for worker in self.workers:
            worker.close()

    def go(self):
        for worker in self.workers:
            worker.say("go")

    def ask(self, word):
        """The answers of all."""
        for worker in self.workers:
            worker.say(word)
        return [worker.answer() for worker in self.workers]

    def ran(self):
        return sum(answer["ran"] for answer in self.ask("count"))

    def wait_until_all_run(self, limit_s):
        """Until each process has run a job; gives up after that time."""
        end = time.monotonic() + limit_s
        while min(answer["ran"] for answer in self.ask("count")) == 0 and time.monotonic() < end:
            time.sleep(0.01)

    def rate(self, ran_before, since_ns):
        """Jobs a second since then, when so many had run, up to the last one that has started."""
        answers = self.ask("count")
        ran = sum(answer["ran"] for answer in answers) - ran_before
        took_ns = max(answer["last_ns"] for answer in answers) - since_ns
        if ran < 1 or took_ns <= 0:
            raise Trouble("no job has run after the first ones")
        return ran / took_ns * 1e9

    def waits_us(self):
        return [wait for waits in self.ask("waits") for wait in waits]

    def wait_for(self, jobs, limit_s):
        """Until so many have run; gives up after that time."""
        end = time.monotonic() + limit_s
        while self.ran() < jobs and time.monotonic() < end:
            time.sleep(0.05)
