"""damage.py - rows of a Redis store are damaged under a server and workers; the other jobs come to their end, lists
and figures answer, retention goes on, and `redrive doctor --repair` takes the damaged jobs out.

    python3 -m tests.torture.damage [--rounds N] [--letters N] [--seed N]

A round submits jobs and damages rows at random, among them those of running jobs and their neighbours. Before all that
there are dead letters that retention must remove, behind as many as --letters says that cannot be read.
"""
import argparse
import contextlib
import json
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from tests.kit import servers
from tests.kit.waiting import LIMIT_S, wait_for
from tests.torture import rig
from tests.torture.stores import LIVE

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|old-\d+")
PATHS = ("/v1/jobs?limit=100", "/v1/jobs?state=queued,running&limit=100", "/v1/stats", "/v1/queues",
         "/v1/retry/dead-letters?limit=100", "/v1/retry/dead-letters/groups")
DAY_MS = 24 * 3600 * 1000
READABLE_LETTERS = 60  # behind those that are damaged

# Gives the row as it was, or nothing.
SPOIL = """
local key, field = '{redrive}:j:' .. math.floor(ARGV[1] / 256), string.char(ARGV[1] % 256)
local row, kind = redis.call('HGET', key, field), ARGV[2]
if not row then
    return ''
elseif kind == 'gone' then
    redis.call('HDEL', key, field)
elseif kind == 'noise' then
    redis.call('HSET', key, field, string.rep(string.char(255, 7, 200), 30))
elseif kind == 'state' then
    redis.call('HSET', key, field, string.char(77) .. string.sub(row, 2))
elseif kind == 'empty' then
    redis.call('HSET', key, field, '')
else
    redis.call('HSET', key, field, string.sub(row, 1, math.max(1, #row - tonumber(ARGV[3]))))
end
return row
"""
KINDS = ("noise", "state", "cut", "gone", "empty")


class Poller(threading.Thread):
    """Asks a server for lists and figures all the time; `wrong` has each answer that was no 200."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.url = f"http://127.0.0.1:{port}"
        self.wrong = []
        self.answers = 0
        self.is_over = threading.Event()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def run(self):
        while not self.is_over.is_set():
            for path in PATHS:
                try:
                    self.get(path)
                    self.answers += 1
                except urllib.error.HTTPError as error:
                    self.wrong.append(f"{path}: {error.code} {error.read().decode(errors='replace')}")
                except OSError as error:
                    self.wrong.append(f"{path}: {error}")
            self.is_over.wait(0.02)

    def end(self):
        self.is_over.set()
        self.join(60)


class DamageRig(rig.Rig):
    config_text = rig.CONFIG + "  old: {{retry: {{dlq_retention_days: 1}}}}\n"

    def __init__(self, seed, url, place=None):
        super().__init__(seed, place=place, store=url, servers=1, workers=2)
        self.aside = self.place / "aside.jsonl"
        self.spoilt = {}  # seq -> id
        self.lost_for_good = set()  # of these, those that no commit that was under way can have written anew

    # ---- Dead letters that retention is to remove ------------------------------------------------

    def put_old_letters(self, n_damaged):
        """Made in a SQLite store, whose times can be set, and taken over."""
        path, archive = self.place / "old.db", self.place / "old.archive"
        count = n_damaged + READABLE_LETTERS
        for first in range(0, count, 500):
            letters = [{"task": "old", "id": f"old-{n}", "failed": {"class": "permanent"}}
                       for n in range(first, min(first + 500, count))]
            self.run("dlq", "add", "--store", f"sqlite:{path}", text=json.dumps(letters))
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE job_states SET sort_key = sort_key - ? + seq", (3 * DAY_MS,))
        self.run("export", "--store", f"sqlite:{path}", str(archive))
        self.run("import", str(archive))
        for seq in range(1, n_damaged + 1):
            assert self.spoil(seq), seq

    def run(self, *words, text=None, code=0):
        done = subprocess.run(self.command(*words), input=text, capture_output=True, text=True, check=False, timeout=120,
                              env=self.environment)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    # ---- Damage ----------------------------------------------------------------------------------

    def spoil(self, seq, kind=None):
        """Whether there was a row to be spoilt."""
        if seq in self.spoilt or seq < 1:
            return False
        kind = kind or self.random.choice(KINDS)
        row = self.store.call("EVAL", SPOIL, 0, seq, kind, self.random.randrange(1, 60))
        found = ID.search(row)
        if not found:
            assert "ERR" not in row, row
            return False
        self.spoilt[seq] = found[0]
        if kind in ("noise", "empty"):
            self.lost_for_good.add(seq)
        return True

    def running(self):
        return [int.from_bytes(member.encode(errors="surrogateescape"), "big")
                for member in self.store.call("ZRANGE", "{redrive}:x", 0, -1)]

    def spoil_some(self, n):
        """Rows of running jobs, their neighbours, and any."""
        last = int(self.store.call("HGET", "{redrive}:root", "seq"))
        for _ in range(n):
            seq = self.random.randrange(max(1, last - 400), last + 1)
            running = self.running()
            if running and self.random.random() < 0.7:
                seq = self.random.choice(running) + self.random.choice((-1, 0, 1))
            self.spoil(seq)

    # ---- What is left ----------------------------------------------------------------------------

    def pages(self, poller, states):
        """All jobs of a list, and how many it leaves out."""
        jobs, left_out, cursor = [], 0, ""
        while cursor is not None:
            page = poller.get(f"/v1/jobs?limit=500&state={states}" + (f"&cursor={urllib.parse.quote(cursor)}" if cursor else ""))
            jobs += page["items"]
            left_out += page.get("unreadable", 0)
            cursor = page["next"]
        return jobs, left_out

    def is_idle(self, poller):
        self.all_are_alive()
        return not self.pages(poller, ",".join(LIVE))[0]

    def repair(self, kills):
        """Killed so often at any moment, then once to its end; what it says."""
        for _ in range(kills):
            process = self.start("doctor", "--repair", "--aside", str(self.aside))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.random.uniform(0.005, 0.4))
            process.kill()
            process.wait()
            self.forget(process)
        done = json.loads(self.run("doctor", "--repair", "--aside", str(self.aside), "--json"))["items"]
        assert all(item["status"] != "fail" for item in done), done
        return next(item for item in done if item["check"] == "repair")

    def kept(self):
        lines = self.aside.read_text("utf-8").splitlines()
        return {json.loads(line)["seq"] for line in lines if line.endswith("}")}

    def check_counts(self, poller):
        """Figures are those of the jobs that are there."""
        jobs, left_out = self.pages(poller, ",".join((*LIVE, "waiting", "completed", "failed", "dead_letter", "cancelled")))
        assert left_out == 0, left_out
        sizes = poller.get("/v1/stats")["sizes"]
        for state, size in sizes.items():
            there = sum(job["state"] == state for job in jobs)
            assert size == there, f"{size} jobs {state} are counted, {there} are there"

    def judge_the_rest(self):
        """Complaints of jobs that were not damaged, and of sizes; counters have counted the others too."""
        ids = set(self.spoilt.values())
        return [found for found in self.judge()
                if found.id not in ids and not (found.kind == "figures" and found.text.startswith("jobs_"))]


def torture(rig_, rounds, letters):
    rig_.put_old_letters(letters)
    for member in rig_.members:
        rig_.launch(member)
    server = next(member for member in rig_.members if member.port)
    wait_for(server.is_reached, "the server")
    poller = Poller(server.port)
    poller.start()
    try:
        for _ in range(rounds):
            rig_.submit_lines(60)
            for _ in range(6):
                rig_.spoil_some(2)
                time.sleep(rig_.random.uniform(0, 0.1))
            rig_.all_are_alive()
        wait_for(lambda: rig_.is_idle(poller), lambda: str(rig_.pages(poller, ",".join(LIVE))[0][:3]), 120)
        wait_for(lambda: not [job for job in rig_.pages(poller, "dead_letter")[0] if job["task"] == "old"],
                 "retention behind damaged dead letters", 120)
        assert rig_.pages(poller, "dead_letter,completed")[1] > 0, "nothing was damaged"
        rig_.submit_lines(100)  # a repair goes on beside work
        did = rig_.repair(kills=3)
        rig_.submit_lines(60)
        wait_for(lambda: rig_.is_idle(poller), "what was submitted after the repair", 120)
        rig_.check_counts(poller)
    finally:
        poller.end()
    assert poller.wrong == [], poller.wrong[:5]
    assert "nothing to repair" in json.dumps(rig_.repair(kills=0))
    rig_.drain()
    kept = rig_.kept()
    assert kept <= set(rig_.spoilt), kept - set(rig_.spoilt)
    assert rig_.lost_for_good <= kept, rig_.lost_for_good - kept
    return {"spoilt": len(rig_.spoilt), "kept": len(kept), "answers": poller.answers, "did": did}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--letters", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    started = time.monotonic()
    with servers.KINDS["redis"]() as server, contextlib.closing(DamageRig(args.seed, server.url)) as rig_:
        did = torture(rig_, args.rounds, args.letters)
        found = rig_.judge_the_rest()
    print(f"damage on redis: {did['spoilt']} rows damaged, {did['kept']} set aside, {did['answers']} answers, "
          f"{time.monotonic() - started:.0f} s, seed {args.seed}: {len(found)} complaints")
    for complaint in found[:20]:
        print(f"  {complaint}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
