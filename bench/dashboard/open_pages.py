#!/usr/bin/env python3
"""open_pages - what dashboards that are open cost their server, and whether claims are slower for it.

    bench/dashboard/open_pages.py [--pages 50] [--seconds 20] [--rate 100] [--rounds 40] [--store URL]

Each open page does what web/ does: one event stream of digests, and when one comes the requests of its page, at
most every two seconds, else every ten. They are spread over the pages of PAGES, half of them on the overview.
Jobs are submitted at a rate, and claimed and settled by two clients. The processor time of the server is read
before and after, with and without pages, in turns; the difference is their cost.

At the end the two clients claim and settle as fast as they can, in rounds. The same pages are open on this server and on
another one, as two processes of which one is stopped (SIGSTOP) in each turn: what pages take of the machine's
processors is the same in both turns of a round, and what they take of the server is in one. The figure is the median of
the rounds' ratios, with the quartiles.
"""
import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import statistics
import threading
import time

from common import PAGES, Client, serve

LIVE_GAP_S, POLL_S = 2.0, 10.0  # web/router.js
STREAM = "/events?digest=1s"  # web/live.js
CONFIG = "tasks: {work: {queue: work, retry: {max_attempts: 3}}}\n"


# ---- Pages -----------------------------------------------------------------------------------------


class Page:
    """One open page: its stream, and a connection for its requests."""

    def __init__(self, port, paths):
        self.port, self.paths = port, paths
        self.changed = asyncio.Event()
        self.requests = 0

    async def listen(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET /v1{STREAM} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        while line := await reader.readline():
            if line.startswith(b"event: "):
                self.changed.set()

    async def get(self, reader, writer, path):
        writer.write(f"GET /v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        self.requests += 1

    async def live(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while True:
            for path in self.paths:
                await self.get(reader, writer, path)
            self.changed.clear()
            loaded = time.monotonic()
            try:
                await asyncio.wait_for(self.changed.wait(), POLL_S)
            except asyncio.TimeoutError:
                continue
            await asyncio.sleep(max(0.1, loaded + LIVE_GAP_S - time.monotonic()))


async def keep_open(port, n, total):
    others = [name for name in PAGES if name != "overview"]
    pages = [Page(port, PAGES["overview" if i % 2 == 0 else others[i // 2 % len(others)]]) for i in range(n)]

    async def count():
        while True:
            await asyncio.sleep(0.5)
            total.value = sum(page.requests for page in pages)

    await asyncio.gather(count(), *(page.listen() for page in pages), *(page.live() for page in pages))


class OpenPages:
    """A process with that many pages open."""

    def __init__(self, port, n):
        self.requests = multiprocessing.Value("l", 0)
        self.process = multiprocessing.Process(target=lambda: (os.nice(5), asyncio.run(keep_open(port, n, self.requests))), daemon=True)

    def __enter__(self):
        self.process.start()
        time.sleep(3)  # all have loaded once
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()


# ---- Jobs ------------------------------------------------------------------------------------------


class Load:
    """Submits at a rate (0: none), and claims and settles with two clients; `took` are the times of claims, in s."""

    def __init__(self, port, rate, is_full_speed=False):
        self.port, self.rate, self.is_full_speed = port, rate, is_full_speed
        self.is_over = threading.Event()
        self.took, self.done = [], 0
        self.threads = [threading.Thread(target=self.submit)] + [threading.Thread(target=self.work) for _ in range(2 if rate or is_full_speed else 0)]

    def submit(self):
        client, due = Client(self.port), time.monotonic()
        while self.rate and not self.is_over.is_set():
            client.ask("POST", "/jobs", [{"task": "work", "payload": {"n": 1}}] * max(1, self.rate // 10))
            due += max(1, self.rate // 10) / self.rate
            time.sleep(max(0, due - time.monotonic()))

    def work(self):
        client = Client(self.port)
        while not self.is_over.is_set():
            began = time.monotonic()
            jobs = client.ask("POST", "/claim", {"queues": ["work"], "n": 5, "wait": 0 if self.is_full_speed else 1})["jobs"]
            if not jobs:
                continue
            self.took.append(time.monotonic() - began)
            self.done += len(jobs)
            client.ask("POST", "/settle", {"items": [{"id": job["id"], "token": job["token"], "status": "SUCCESS"} for job in jobs]})

    def run(self, server, seconds):
        """Processor time of the server for each second, in percent of a core."""
        for thread in self.threads:
            thread.start()
        cpu, began = server.cpu_s(), time.monotonic()
        time.sleep(seconds)
        percent = 100 * (server.cpu_s() - cpu) / (time.monotonic() - began)
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        return percent


def measure(server, seconds, pages, rate):
    """Cost of the pages in percent of a core: the median of three turns of with and without."""
    costs, asked = [], []
    for _ in range(3):
        without = Load(server.http, rate).run(server, seconds)
        with OpenPages(server.http, pages) as opened:
            before = opened.requests.value
            costs.append(Load(server.http, rate).run(server, seconds) - without)
            asked.append((opened.requests.value - before) / seconds)
    return {"cost_percent": round(statistics.median(costs), 2), "turns": [round(c, 2) for c in costs], "requests_per_s": round(statistics.median(asked), 1)}


def turn(server, client, seconds, shown, hidden):
    """Jobs a second, processor time of the server for a job in µs, the median and the 90th percentile of a claim in ms,
    and requests of pages a second, while some pages are shown and others stopped."""
    for _ in range(int(5 * seconds)):  # more than are claimed
        client.ask("POST", "/jobs", [{"task": "work"}] * 1000)
    os.kill(hidden.process.pid, signal.SIGSTOP)
    os.kill(shown.process.pid, signal.SIGCONT)
    before = shown.requests.value
    load = Load(server.http, 0, is_full_speed=True)
    percent = load.run(server, seconds)
    asked = (shown.requests.value - before) / seconds
    rate = load.done / seconds
    return rate, 10000 * percent / rate, statistics.median(load.took) * 1000, statistics.quantiles(load.took, n=10)[8] * 1000, asked


def full_speed(server, seconds, pages, rounds):
    """Claims of five as fast as two clients can: the medians, and the quartiles of the ratios of each round."""
    client, turns = Client(server.http), {"elsewhere": [], "here": []}
    with serve(None, CONFIG) as other, OpenPages(server.http, pages) as here, OpenPages(other.http, pages) as elsewhere:
        events = Load(other.http, 1)  # its pages load as often as ours
        for thread in events.threads:
            thread.start()
        for i in range(rounds):
            order = [("elsewhere", elsewhere, here), ("here", here, elsewhere)]
            for name, shown, hidden in order if i % 2 == 0 else reversed(order):
                turns[name].append(turn(server, client, seconds, shown, hidden))
        events.is_over.set()
        for thread in events.threads:
            thread.join()
    names = ("jobs_per_s", "cpu_us_per_job", "claim_p50_ms", "claim_p90_ms", "page_requests_per_s")
    ratios = [[h / e for h, e in list(zip(*pair))[:4]] for pair in zip(turns["here"], turns["elsewhere"])]
    return {**{name: dict(zip(names, (round(statistics.median(column), 2) for column in zip(*rows)))) for name, rows in turns.items()},
            "ratio_quartiles": {name: [round(q, 3) for q in statistics.quantiles(column, n=4)] for name, column in zip(names[:4], zip(*ratios))}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--store")
    given = parser.parse_args()
    with serve(given.store, CONFIG) as server:
        result = {"pages": given.pages, "idle": measure(server, given.seconds, given.pages, 0),
                  f"{given.rate} jobs/s": measure(server, given.seconds, given.pages, given.rate),
                  "full speed": full_speed(server, min(given.seconds, 3), given.pages, given.rounds)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
