#!/usr/bin/env python3
"""filter_times - how long a server takes for each page of the dashboard, and for each filter of the jobs.

    bench/dashboard/filter_times.py [--store postgres://…] [--jobs 1000,1000000] [--rounds 5]

A store of each size is filled: of a thousand jobs 860 are queued, 98 completed, 20 dead, 20 wait to be retried and 2
are scheduled; one in fifty has a user; a rare task has 50 jobs that are scheduled and 50 that were the first to
complete. The time of a page is that of all its requests and their answers, one after the other on a connection which
is open, and it has as many as the page of web/pages/jobs.js has: a search that the server ends early is gone on with,
up to ten times. The figures are the best and the median of the rounds, and for a search the longest single
request. Filters are asked with a value that many jobs have, with one that few have, and with one that none has. A store
that is given must be empty, unless it is --filled, and one size is measured.
"""
import argparse
import json
import statistics
import time

from common import PAGES, Client, serve

CONFIG = """tasks:
  work: {queue: work, retry: {max_attempts: 1}}
  flaky: {queue: flaky, breaker: {failure_threshold: 0, failure_rate: 0}, retry: {max_attempts: 5, initial_delay: 100h, max_delay: 1000h, total_timeout: 0s}}
  rare: {queue: rare, retry: {max_attempts: 1}}
"""
BATCH = 1000
PAGE, GO_ON = 50, 10  # web/pages/jobs.js

FILTERS = {
    "no filter": "",
    "state=queued (most)": "state=queued",
    "state=completed": "state=completed&order=finished",
    "state=dead_letter": "state=dead_letter&order=finished",
    "state=retrying": "state=retrying",
    "state=scheduled (few)": "state=scheduled",
    "state=failed (none)": "state=failed",
    "task=work (most)": "task=work",
    "task=rare (few)": "task=rare",
    "task=nothing (none)": "task=nothing",
    "queue=rare (few)": "queue=rare",
    "user=ann (few)": "user=ann",
    "user=nobody (none)": "user=nobody",
    "unique_key (none)": "unique_key=nothing",
    "class=permanent": "class=permanent",
    "class=validation (none)": "class=validation",
    "reason=not_retriable": "reason=not_retriable", "reason=exhausted (none)": "reason=exhausted",
    "type=IOError": "type=IOError",
    "type=Nothing (none)": "type=Nothing",
    "text, found": "text=no+such+bucket",
    "text, found nowhere": "text=no+such+words",
    "older_than=1h (none)": "older_than=1h&order=finished",
    "newer_than=1h": "newer_than=1h&order=finished",
    "older_than=1h, task=work (none)": "older_than=1h&task=work",
    "state=completed, task=rare (few)": "state=completed&task=rare",
    "state=dead_letter, text, found nowhere": "state=dead_letter&text=no+such+words",
    "state=queued, user=nobody (none)": "state=queued&user=nobody",
}


def fill(client, n):
    """In thousands: what fails and what completes is claimed from queues of its own, so that no claim looks at others."""
    def work(task, count, settle):
        done = 0
        while done < count:
            size = min(BATCH, count - done)
            client.ask("POST", "/jobs", [{"task": task, "payload": {"n": done}}] * size)
            taken = 0
            while taken < size:
                jobs = client.ask("POST", "/claim", {"queues": [task], "n": 100})["jobs"]
                client.ask("POST", "/settle", {"items": [{"id": job["id"], "token": job["token"], **settle(i)} for i, job in enumerate(jobs)]})
                taken += len(jobs)
            done += size

    def dead(i):
        return {"class": "permanent", "error_type": ["IOError", "KeyError"][i % 2], "message": f"no such bucket: pictures-{i % 5}"}

    work("rare", min(50, n // 1000), lambda i: {"status": "SUCCESS"})
    work("work", n * 98 // 1000, lambda i: {"status": "SUCCESS"})
    work("work", n * 20 // 1000, dead)
    work("flaky", n * 20 // 1000, lambda i: {"class": "network", "error_type": "ConnectError", "message": "connection refused"})
    client.ask("POST", "/jobs", [{"task": "rare", "delay": "100h"}] * min(50, n // 500))
    left = n * 860 // 1000
    while left > 0:
        size = min(BATCH, left)
        client.ask("POST", "/jobs", [{"task": "work", "payload": {"n": i}, **({"user": f"user-{i % 20}"} if i % 50 == 0 else {"user": "ann"} if i == 1 and left < 3000 else {})} for i in range(size)])
        left -= size


def ask(client, path):
    """One request, or those of a search; the longest, in s."""
    began, cursor, longest, found = time.monotonic(), None, 0, 0
    for _ in range(1 + GO_ON):
        answer = client.ask("GET", path + (f"&cursor={cursor}" if cursor else ""))
        now = time.monotonic()
        longest, began = max(longest, now - began), now
        found += len(answer.get("items", []))
        cursor = answer.get("next") if path.startswith("/jobs?") else None
        if not cursor or found >= PAGE:
            break
    return longest


def time_of(client, paths, rounds):
    """Best and median of all requests of a page, and the best of its longest request, in ms."""
    took, longest = [], []
    for _ in range(rounds):
        began = time.monotonic()
        longest.append(max(ask(client, path) for path in paths) * 1000)
        took.append((time.monotonic() - began) * 1000)
    return round(min(took), 1), round(statistics.median(took), 1), round(min(longest), 1)


def measure(server, n, rounds, is_filled):
    client = Client(server.http)
    began = time.monotonic()
    if not is_filled:
        fill(client, n)
    print(f"{n} jobs are there after {time.monotonic() - began:.0f} s", flush=True)
    group = client.ask("GET", "/retry/dead-letters/groups")["items"][0]["fingerprint"]
    rows = {f"page {name}": time_of(client, paths, rounds) for name, paths in PAGES.items()}
    filters = {**FILTERS, "group": f"group={group}"}
    for name, query in filters.items():
        counted = "&".join(part for part in query.split("&") if part.split("=")[0] in ("state", "task", "queue"))
        rows[f"jobs: {name}"] = time_of(client, [f"/jobs?{query}&limit=50", f"/counts?{counted}"], rounds)
    for name in ("task=work", "class=permanent", "type=Nothing", "text=no+such+words", "user=nobody", f"group={group}"):
        rows[f"dead: {name.split('=')[0]}"] = time_of(client, [f"/retry/dead-letters/groups?{name}", f"/retry/dead-letters?{name}&limit=50"], rounds)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--store")
    parser.add_argument("--jobs", default="1000,1000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--filled", action="store_true", help="the store has the jobs of an earlier run")
    given = parser.parse_args()
    result = {}
    for n in map(int, given.jobs.split(",")):
        with serve(given.store, CONFIG) as server:
            for name, times in measure(server, n, given.rounds, given.filled).items():
                result.setdefault(name, {})[n] = times
    for name, times in result.items():
        print(f"| {name} | " + " | ".join(f"{best} ({median}; {longest}) ms" for best, median, longest in times.values()) + " |")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
