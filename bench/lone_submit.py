#!/usr/bin/env python3
"""lone_submit - how long one client waits for a durable submit, beside what the disk itself takes.

    bench/lone_submit.py [--turns N] [--in-a-row N] [--scratch DIR]

One client has a connection to Faktory's port and one to the HTTP port of a `redrive serve` on an SQLite file. In each turn 4 KiB
of a file on the same disk are written over and synced twenty times, twenty jobs are pushed, and twenty are posted, one after
the other; nothing else is under way. With `--in-a-row 1` each takes its turn once, and finds the caches used by the other two. The
figures are medians of all, and the tenth percentile, which a disk that others use at the same time changes less.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time

import interfaces
from interfaces import row

TURNS, IN_A_ROW = 100, 20
BLOCK, BLOCKS = 4096, 256
PAIRS = [(f"serve.{door}.lone_submit_us{part}", f"disk.sync_us{part}", "lower", None if part else 1 / 2)
         for door in ("faktory", "rest") for part in ("", ".p10")]


class Disk:
    """A file whose blocks are written over: its size is synced once, as that of a log which is used again."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.pwrite(self.fd, bytes(BLOCK * BLOCKS), 0)
        os.fsync(self.fd)
        self.n = 0

    def act(self):
        os.pwrite(self.fd, self.n.to_bytes(8, "little") * (BLOCK // 8), self.n % BLOCKS * BLOCK)
        os.fdatasync(self.fd)
        self.n += 1


class Client:
    """Sends a text with a new id and reads one answer."""

    def __init__(self, port, text, good):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.text, self.good, self.n = text, good, 0

    def act(self):
        self.n += 1
        self.socket.sendall(self.text(f"lone-submit-{self.n:08}"))
        answer = self.socket.recv(4096)
        if not answer.startswith(self.good):
            raise RuntimeError(f"a submit was refused: {answer[:200]}")


def faktory_client(port):
    client = Client(port, lambda jid: b'PUSH {"jid":"%s","jobtype":"lone","args":[1]}\r\n' % jid.encode(), b"+OK\r\n")
    client.socket.recv(4096)  # +HI
    client.socket.sendall(b'HELLO {"v":2}\r\n')
    client.socket.recv(4096)
    return client


def http_client(port):
    def text(job_id):
        body = json.dumps({"id": job_id + "-http", "task": "lone", "payload": [1]}).encode()
        return b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
            len(body), body)
    return Client(port, text, b"HTTP/1.1 201")


def times_us(actor, n):
    for _ in range(n):
        start = time.perf_counter()
        actor.act()
        yield (time.perf_counter() - start) * 1e6


def measure(scratch, turns=None, in_a_row=IN_A_ROW):
    took = {"disk.sync_us": [], "serve.faktory.lone_submit_us": [], "serve.rest.lone_submit_us": []}
    with tempfile.TemporaryDirectory(dir=scratch) as folder, interfaces.serve(scratch) as server:
        actors = [Disk(pathlib.Path(folder) / "disk"), faktory_client(server.faktory), http_client(server.http)]
        for _ in range(turns or TURNS):
            for actor, times in zip(actors, took.values(), strict=True):
                times += times_us(actor, in_a_row)
    return [row(name + part, figure, "us", True) for name, times in took.items()
            for part, figure in (("", statistics.median(times)), (".p10", statistics.quantiles(times, n=10)[0]))]


def be_quick():
    global TURNS
    TURNS = 5


def main():
    options = argparse.ArgumentParser(description="How long one client waits for a durable submit.")
    options.add_argument("--turns", type=int, default=TURNS)
    options.add_argument("--in-a-row", type=int, default=IN_A_ROW)
    options.add_argument("--scratch", default=None, help="a folder on the disk to be measured; build-bench")
    given = options.parse_args()
    values = {}
    for found in measure(given.scratch or interfaces.BENCH, given.turns, given.in_a_row):
        values[found["name"]] = found["value"]
        print(f"{found['name']:<36}{found['value']:10.1f} us")
    for ours, disk, _, _ in PAIRS:
        print(f"{ours} is {values[ours] / values[disk]:.2f} times {disk}")


if __name__ == "__main__":
    sys.exit(main())
