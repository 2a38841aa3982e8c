#!/usr/bin/env python3
"""filter_times - how long a server takes for each page of the dashboard, and for each filter of the jobs.

    bench/dashboard/filter_times.py [--store sqlite | postgres | redis | URL] [--jobs 1000,1000000] [--rounds 20]

A store of each size is filled: of a thousand jobs 860 are queued, 98 completed, 20 dead, 20 wait to be retried and 2
are scheduled; one in fifty has a user; a rare task has 50 jobs that are scheduled and 50 that were the first to
complete. All servers run at the same time, and every round asks each of them for every page in turn, so that what else
the machine does slows all of them. The time of a page is that of all its requests and their answers, one after the
other on a connection which is open, and it has as many as the page of web/pages/jobs.js has: a search that the server
ends early is gone on with, up to ten times. The figures are the best and the median of the rounds, the longest single
request, and the best of the last size through the best of the first. Filters are asked with a value that many jobs
have, with one that few have, and with one that none has. In the URL of a store {n} stands for the number of jobs; one
that has jobs already is not filled again.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

from common import PAGES, ROOT, Client, serve

sys.path.insert(0, str(ROOT))

from tests.kit import servers  # noqa: E402

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
    "state=completed": "state=completed",
    "state=dead_letter": "state=dead_letter",
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
    "older_than=1h (none)": "older_than=1h",
    "newer_than=1h": "newer_than=1h",
    "older_than=1h, task=work (none)": "older_than=1h&task=work",
    "older_than=1h, task=rare (none)": "older_than=1h&task=rare",
    "newer_than=1h, task=rare (few)": "newer_than=1h&task=rare",
    "state=completed, task=work (most)": "state=completed&task=work",
    "state=completed, task=rare (few)": "state=completed&task=rare",
    "state=scheduled, task=rare (few)": "state=scheduled&task=rare",
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
        client.ask("POST", "/jobs", [
            {"task": "work", "payload": {"n": i},
             **({"user": f"user-{i % 20}"} if i % 50 == 0 else {"user": "ann"} if i == 1 and left < 3000 else {})} for i in range(size)])
        left -= size


def ask(client, path):
    """One request, or those of a search; the longest, in s, and how much was found."""
    began, cursor, longest, found = time.monotonic(), None, 0, 0
    for _ in range(1 + GO_ON):
        answer = client.ask("GET", path + (f"&cursor={cursor}" if cursor else ""))
        now = time.monotonic()
        longest, began = max(longest, now - began), now
        found += len(answer.get("items", []))
        cursor = answer.get("next") if path.startswith("/jobs?") else None
        if not cursor or found >= PAGE:
            break
    return longest, found


def is_of_errors(path):
    """As OF_ERRORS in web/pages/dead.js."""
    return "dead-letters?" in path and any(f"{name}=" in path for name in ("type", "text", "group"))


def is_by_end(query):
    """As isByEnd in web/pages/jobs.js."""
    parts = dict(part.split("=") for part in query.split("&") if part)
    return (set(parts) - {"task", "queue"} and set(parts) <= {"state", "task", "queue", "older_than", "newer_than"}
            and parts.get("state", "completed") in ("completed", "failed", "dead_letter", "cancelled"))


def pages_of(client):
    """The requests of each page, by its name."""
    group = client.ask("GET", "/retry/dead-letters/groups")["items"][0]["fingerprint"]
    pages = {f"page {name}": paths for name, paths in PAGES.items()}
    for name, query in {**FILTERS, "group": f"group={group}"}.items():
        counted = "&".join(part for part in query.split("&") if part.split("=")[0] in ("state", "task", "queue"))
        pages[f"jobs: {name}"] = [f"/jobs?{query}{'&order=finished' if is_by_end(query) else ''}&limit=50", f"/counts?{counted}", "/bulk"]
    for name in ("task=work", "task=rare", "class=permanent", "reason=exhausted", "type=IOError", "type=Nothing", "text=no+such+bucket",
                 "text=no+such+words", "user=nobody", f"group={group}"):
        pages[f"dead: {name.split('=')[0] if name.startswith('group') else name}"] = [
            "/retry/dead-letters/retries", f"/retry/dead-letters/groups?{name}", f"/retry/dead-letters?{name}&limit=50"]
    return pages


def time_of(client, paths):
    """Of all requests of a page, and of its longest request, in ms."""
    began, longest, groups = time.monotonic(), 0, 1
    for path in paths:
        if groups == 0 and is_of_errors(path):
            continue
        took, found = ask(client, path)
        longest = max(longest, took)
        groups = found if "/groups" in path else groups
    return (time.monotonic() - began) * 1000, longest * 1000


def measure(clients, rounds):
    """{page: {size: [(time, longest)]}}"""
    pages = {n: pages_of(client) for n, client in clients.items()}
    took = {name: {n: [] for n in clients} for name in next(iter(pages.values()))}
    for i in range(rounds):
        for name, times in took.items():
            for n in list(clients) if i % 2 == 0 else reversed(clients):
                times[n].append(time_of(clients[n], pages[n][name]))
    return took


def in_short(times):
    best, median, longest = min(t for t, _ in times), statistics.median(t for t, _ in times), min(t for _, t in times)
    return round(best, 2), round(median, 2), round(longest, 2)


def urls_of(store, sizes, stack):
    """Where the stores are: in servers of our own, or as they were given."""
    if store == "sqlite":
        return dict.fromkeys(sizes)
    if store == "postgres":
        server = stack.enter_context(servers.Postgres())
        for n in sizes:
            server.sql(f"CREATE DATABASE jobs_{n}")
        return {n: f"{server.url.rsplit('/', 1)[0]}/jobs_{n}" for n in sizes}
    if store == "redis":
        return {n: stack.enter_context(servers.Redis()).url for n in sizes}
    return {n: store.replace("{n}", str(n)) for n in sizes}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--jobs", default="1000,1000000")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    sizes = [int(n) for n in given.jobs.split(",")]
    with contextlib.ExitStack() as stack:
        ports = {n: stack.enter_context(serve(url, CONFIG)).http for n, url in urls_of(given.store, sizes, stack).items()}
        for n, port in ports.items():
            client, began = Client(port), time.monotonic()
            if client.ask("GET", "/counts")["total"] == 0:
                fill(client, n)
            print(f"{n} jobs are there after {time.monotonic() - began:.0f} s", flush=True)
        took = measure({n: Client(port) for n, port in ports.items()}, given.rounds)
    result = {name: {n: in_short(of_size) for n, of_size in times.items()} for name, times in took.items()}
    for name, times in result.items():
        ratio = times[sizes[-1]][0] / times[sizes[0]][0]
        print(f"| {name} | " + " | ".join(f"{best} ({median}; {longest}) ms" for best, median, longest in times.values()) + f" | {ratio:.2f} |")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
