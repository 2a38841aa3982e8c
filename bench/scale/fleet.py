#!/usr/bin/env python3
"""fleet - a simulation of 1,000 workers on many Redis shards, one of which is away for 30 s.

    bench/scale/fleet.py FIGURES.json [SVG]     prints what was found, and draws it
    python3 -m doctest bench/scale/fleet.py

FIGURES.json is what measure.py prints; docs/scale.md says what is simulated and what is assumed. The fleet is cells that share
nothing: stores of some shards with workers of their own. So two cells are simulated event by event, one with a shard that
fails and one without, and the fleet is the first and so many of the second.

A cell that has room keeps up with what arrives:

>>> cost = model.Cost(100e-6, 20e-6)
>>> plan = Plan(workers=4, shards=2, rate=1000, slots=50, job_s=0.02, server=cost, submit_s=10e-6, sync_s=0.5e-3, round_trip_s=1e-3)
>>> quiet = simulate(plan, seconds=8)
>>> all(abs(row["settled"] - 2000) < 100 for row in quiet[2:])
True

While a shard is away the other goes on, and all is settled in the end:

>>> cut = simulate(plan, seconds=16, away=(4, 7))
>>> 850 < cut[5]["settled"] < 1150, cut[5]["kept"] > 900, cut[15]["kept"] + cut[15]["ready"] < 100
(True, True, True)
>>> cut == simulate(plan, seconds=16, away=(4, 7))      # the same seed, the same run
True
"""
import dataclasses
import heapq
import itertools
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import model  # noqa: E402

TICK_S = 0.005  # a worker gathers outcomes for so long
RETRY_S = 0.5  # and leaves a shard alone for so long that has refused it
SEED = 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """A cell."""
    workers: int
    shards: int
    rate: float  # jobs that arrive for a shard in a second
    slots: int
    job_s: float  # a job runs between half and one and a half of it
    server: model.Cost  # of a transaction that settles and claims
    submit_s: float  # of the server, for a job
    sync_s: float
    round_trip_s: float


class Shard:
    """One thread: it carries out all transactions that have come, waits for the disk once, and answers them."""

    def __init__(self, plan):
        self.plan = plan
        self.waiting = []
        self.is_busy = self.is_away = False
        self.ready = self.kept = 0.0  # kept: by clients whose submits were refused
        self.at = 0.0
        self.busy_s = 0.0

    def arrive(self, now):
        """Jobs that were submitted until now. Clients send what they have kept as fast again as new ones come."""
        due, self.at = (now - self.at) * self.plan.rate, now
        if self.is_away:
            self.kept += due
            return
        again = min(self.kept, due)
        self.kept -= again
        self.ready += due + again
        self.busy_s += (due + again) * self.plan.submit_s


class Worker:
    def __init__(self, plan, number):
        self.free = plan.slots
        self.ended = [0] * plan.shards  # to be settled, by shard
        self.is_sent = [False] * plan.shards
        self.not_before = [0.0] * plan.shards
        self.is_claiming = False
        self.next = number % plan.shards


class Cell:
    def __init__(self, plan, away, seed):
        self.plan, self.random = plan, random.Random(seed)
        self.shards = [Shard(plan) for _ in range(plan.shards)]
        self.workers = [Worker(plan, i) for i in range(plan.workers)]
        self.events, self.order = [], itertools.count()
        self.ends = {}  # (tick, worker): jobs that end then, by shard
        self.settled = self.transactions = 0
        self.busy_s = 0.0  # of all servers
        for i, worker in enumerate(self.workers):
            self.at(TICK_S * i / plan.workers, self.tick, i, worker, 0)
        if away:
            self.at(away[0], self.cut)
            self.at(away[1], self.mend)

    def at(self, when, what, *words):
        heapq.heappush(self.events, (when, next(self.order), what, words))

    def run_until(self, end):
        while self.events and self.events[0][0] < end:
            when, _, what, words = heapq.heappop(self.events)
            what(when, *words)

    # -- The shard that fails is the first --

    def cut(self, now):
        self.shards[0].arrive(now)
        self.shards[0].is_away = True
        refused, self.shards[0].waiting = self.shards[0].waiting, []
        for sent in refused:
            self.refuse(now, *sent)

    def mend(self, now):
        self.shards[0].arrive(now)
        self.shards[0].is_away = False

    # -- Workers --

    def tick(self, now, number, worker, tick):
        for shard, jobs in self.ends.pop((tick, number), {}).items():
            worker.ended[shard] += jobs
        claim = self.choose(now, worker)
        for shard in range(self.plan.shards):
            wants = shard == claim
            if (worker.ended[shard] or wants) and not worker.is_sent[shard] and now >= worker.not_before[shard]:
                self.send(now, worker, number, shard, wants)
        self.at(now + TICK_S, self.tick, number, worker, tick + 1)

    def choose(self, now, worker):
        """The next shard that has jobs, as notifications say; none while a claim is under way or all slots are taken."""
        if worker.is_claiming or worker.free == 0:
            return None
        for step in range(self.plan.shards):
            shard = (worker.next + step) % self.plan.shards
            self.shards[shard].arrive(now)
            if self.shards[shard].ready >= 1 and not worker.is_sent[shard] and now >= worker.not_before[shard]:
                worker.next = (shard + 1) % self.plan.shards
                return shard
        return None

    def send(self, now, worker, number, shard, claims):
        settles, worker.ended[shard] = worker.ended[shard], 0
        worker.is_sent[shard] = True
        wants = worker.free if claims else 0
        worker.is_claiming = worker.is_claiming or claims
        worker.free -= wants
        self.at(now + self.plan.round_trip_s * (1.5 if claims else 0.5), self.receive, shard, (worker, number, shard, settles, wants))

    # -- Servers --

    def receive(self, now, shard, sent):
        server = self.shards[shard]
        if server.is_away:
            self.refuse(now, *sent)
            return
        server.waiting.append(sent)
        if not server.is_busy:
            self.carry_out(now, server)

    def carry_out(self, now, server):
        server.arrive(now)
        took, server.busy_s = server.busy_s, 0.0
        answers = []
        for worker, number, shard, settles, wants in server.waiting:
            given = min(wants, int(server.ready))
            server.ready -= given
            cost = self.plan.server
            took += cost.fixed + cost.each * (settles + given) / 2
            answers.append((worker, number, shard, settles, wants, given))
        self.transactions += len(answers)
        self.busy_s += took
        server.waiting = []
        server.is_busy = True
        self.at(now + took + self.plan.sync_s, self.answer_all, server, answers)

    def answer_all(self, now, server, answers):
        for answer in answers:
            self.at(now + self.plan.round_trip_s / 2, self.answer, *answer)
        server.is_busy = False
        if server.waiting:
            self.carry_out(now, server)

    def answer(self, now, worker, number, shard, settles, wants, given):
        self.settled += settles
        worker.is_sent[shard] = False
        worker.is_claiming = worker.is_claiming and wants == 0
        worker.free += settles + wants - given
        start = int((now - TICK_S * number / self.plan.workers) / TICK_S) + 1
        for _ in range(given):
            ticks = start + int(self.plan.job_s * (0.5 + self.random.random()) / TICK_S)
            ends = self.ends.setdefault((ticks, number), {})
            ends[shard] = ends.get(shard, 0) + 1

    def refuse(self, now, worker, number, shard, settles, wants):
        worker.ended[shard] += settles
        worker.free += wants
        worker.is_sent[shard] = False
        worker.is_claiming = worker.is_claiming and wants == 0
        worker.not_before[shard] = now + RETRY_S


def simulate(plan, seconds, away=None, seed=SEED):
    """A row for each second: jobs settled and transactions in it, how busy the servers were, and the jobs that the first
    shard and its clients hold at its end."""
    cell, rows = Cell(plan, away, seed), []
    before = (0, 0, 0)
    for second in range(seconds):
        cell.run_until(second + 1)
        first = cell.shards[0]
        first.arrive(second + 1)
        now = (cell.settled, cell.transactions, cell.busy_s)
        settled, transactions, busy_s = (new - old for new, old in zip(now, before))
        rows.append({"settled": settled, "transactions": transactions, "busy": busy_s / plan.shards,
                     "ready": round(first.ready), "kept": round(first.kept)})
        before = now
    return rows


# ---- The fleet -----------------------------------------------------------------------------------

RATE, WORKERS, SHARDS = 1_000_000, 1000, 200
SLOTS, JOB_S = 100, 0.05
SYNC_S, ROUND_TRIP_S = 0.5e-3, 0.5e-3
IN_CALL, REMOVAL = 100, 0.8  # as in report.py
SECONDS, AWAY = 150, (20, 50)
IN_A_STORE = 2  # shards
TRIED = (1, 2, 4, 10)


def plan_of(figures, in_a_store):
    """The cell of a fleet whose stores have so many shards each. Removing ended jobs makes all of it dearer."""
    server, _ = model.submit_of(figures, "redis")
    work = model.store_of(figures, "redis").server
    return Plan(workers=WORKERS * in_a_store // SHARDS, shards=in_a_store, rate=RATE / SHARDS, slots=SLOTS, job_s=JOB_S,
                server=model.Cost(work.fixed, work.each / REMOVAL), submit_s=server.of(IN_CALL) / REMOVAL,
                sync_s=SYNC_S, round_trip_s=ROUND_TRIP_S)


def print_layouts(figures):
    for in_a_store in TRIED:
        rows = simulate(plan_of(figures, in_a_store), 5)[2:]
        mean = lambda name: sum(row[name] for row in rows) / len(rows)  # noqa: E731, B023
        print(f"{SHARDS // in_a_store} stores of {in_a_store} shards: {mean('settled') * SHARDS / in_a_store:,.0f} jobs/s, servers "
              f"{mean('busy') * 100:.0f} % busy, {2 * mean('settled') / mean('transactions'):.1f} moves in a transaction, "
              f"{rows[-1]['ready']:,} jobs wait on a shard")


def of_fleet(figures, away=AWAY):
    plan = plan_of(figures, IN_A_STORE)
    cut, whole = simulate(plan, SECONDS, away), simulate(plan, SECONDS, None, SEED + 1)
    others = SHARDS // IN_A_STORE - 1
    return [{"fleet": one["settled"] + others * other["settled"], "cell": one["settled"], "waiting": one["ready"] + one["kept"],
             "busy": one["busy"]} for one, other in zip(cut, whole)]


# ---- The picture ---------------------------------------------------------------------------------

LEFT, WIDTH, HEIGHT, GAP, TOP = 110, 720, 150, 74, 96


def panel(out, top, title, values, highest, colour, unit):
    out.append(f'<text x="{LEFT}" y="{top - 12}" font-weight="600">{title}</text>')
    for part in (0, 0.5, 1):
        y = top + HEIGHT * (1 - part)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="{"#e3e6ea" if part else "#1b1f24"}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4.5:.1f}" text-anchor="end" fill="#57606a">{highest * part:,.0f}{unit}</text>')
    points = " ".join(f"{LEFT + WIDTH * (i + 0.5) / len(values):.1f},{top + HEIGHT * (1 - value / highest):.1f}"
                      for i, value in enumerate(values))
    out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')


def round_up(value):
    step = 10 ** (len(str(int(value))) - 1) // 5
    return (int(value / step) + 1) * step


def draw(rows, path):
    charts = [("fleet", f"Jobs settled in a second, all {SHARDS} shards", "#0969da"),
              ("cell", f"The same, of the store of {IN_A_STORE} shards that one of them is missing from", "#8250df"),
              ("waiting", "Jobs of the shard that fails that wait on it, or at clients whose submits were refused", "#bc4c00")]
    height = TOP + len(charts) * (HEIGHT + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" width="900" height="{height}" role="img" '
           "font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#1b1f24\">",
           "<title>A fleet while one shard is away</title>", f'<rect width="900" height="{height}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="34" font-size="19" font-weight="600">A fleet of 1,000 workers while one of {SHARDS} shards is away for '
           f"{AWAY[1] - AWAY[0]} s</text>",
           f'<text x="{LEFT}" y="56" fill="#57606a">simulated: 1,000,000 jobs a second arrive, jobs of {JOB_S * 1000:g} ms, {SLOTS} '
           "slots in a worker</text>"]
    left, right = (LEFT + WIDTH * second / len(rows) for second in AWAY)
    for i, (key, title, colour) in enumerate(charts):
        top = TOP + 10 + i * (HEIGHT + GAP)
        out.append(f'<rect x="{left:.1f}" y="{top}" width="{right - left:.1f}" height="{HEIGHT}" fill="#fbe9e2"/>')
        values = [row[key] for row in rows]
        panel(out, top, title, values, round_up(max(values)), colour, "")
        for second in range(0, len(rows) + 1, 25):
            x = LEFT + WIDTH * second / len(rows)
            out.append(f'<text x="{x:.1f}" y="{top + HEIGHT + 18}" text-anchor="middle" fill="#57606a">{second} s</text>')
    out.append("</svg>")
    pathlib.Path(path).write_text("\n".join(out) + "\n", encoding="utf-8")


def main():
    figures = json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))
    print_layouts(figures)
    rows = of_fleet(figures)
    for second in range(0, SECONDS, 5):
        print(second, json.dumps(rows[second]))
    if len(sys.argv) > 2:
        draw(rows, sys.argv[2])


if __name__ == "__main__":
    main()
