#!/usr/bin/env python3
"""steady - a busy SQLite store for minutes, with retention on, as a picture; and what retention costs.

    bench/steady.py BENCH_DIR [MINUTES] [SVG]

First rounds with and without retention take turns on new files, each long enough that as many jobs
are removed as end. Then one run with retention lasts for MINUTES (10 unless said). Its throughput,
the time of a single submit beside the load, the size of the file, the number of ended jobs and what the
host gave to other machines, second by second, are drawn into SVG (steady.svg in the current folder unless said).
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

KEPT_MS = 2000
ROUNDS = 5
ROUND_S = 12
WARM_S = 6  # seconds of a round that do not count: until jobs are removed as fast as they end
MINUTES = 1  # as a part of make bench

# ours, rival, better, least
PAIRS = [("engine.steady.jobs", "engine.steady.jobs_kept", "higher", 0.8)]


def be_quick():
    global ROUNDS, ROUND_S, WARM_S, MINUTES
    ROUNDS, ROUND_S, WARM_S, MINUTES = 1, 5, 3, 0


def processors():
    """Their time so far, all of it, and what the host gave to other machines; in ticks."""
    ticks = [int(n) for n in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[7]


def run(bench, scratch, seconds, kept_ms):
    """A sample for each second, as the program writes it, and what of the processors the host took meanwhile."""
    command = [str(pathlib.Path(bench) / "bench" / "bench_steady"), "run", "--dir", str(scratch),
               "--seconds", str(seconds), "--kept-ms", str(kept_ms)]
    samples = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        late = threading.Timer(seconds + 120, process.kill)
        late.start()
        before = processors()
        for line in process.stdout:
            now = processors()
            samples.append(json.loads(line) | {"taken_percent": 100 * (now[1] - before[1]) / max(1, now[0] - before[0])})
            before = now
        late.cancel()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return samples


def row(name, value, unit, durable=True):
    return {"name": name, "value": value, "unit": unit, "durable": durable}


def in_turns(bench, scratch):
    """Rows of rounds with and without retention."""
    samples = {KEPT_MS: [], 0: []}
    for _ in range(ROUNDS):
        for kept_ms, seconds in samples.items():
            seconds += run(bench, scratch, ROUND_S, kept_ms)[WARM_S:]

    def middle(kept_ms, key):
        return statistics.median(second[key] for second in samples[kept_ms])

    return [row("engine.steady.jobs", middle(KEPT_MS, "jobs_per_s"), "1/s"),
            row("engine.steady.jobs_kept", middle(0, "jobs_per_s"), "1/s"),
            row("engine.steady.cpu", middle(KEPT_MS, "cpu_us"), "us", None),
            row("engine.steady.cpu_kept", middle(0, "cpu_us"), "us", None),
            row("engine.steady.submit_p50_ms", middle(KEPT_MS, "p50_ms"), "ms"),
            row("engine.steady.submit_p99_ms", middle(KEPT_MS, "p99_ms"), "ms")]


# ---- The picture ---------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, GAP = 900, 130, 90, 60

# title, what is drawn: name, colour, function of a second
CHARTS = [
    ("jobs a second (submit, claim, settle)", [("jobs", "#1f77b4", lambda s: s["jobs_per_s"])]),
    ("a single submit beside the load, ms", [("99th percentile", "#d62728", lambda s: s["p99_ms"]),
                                            ("median", "#2ca02c", lambda s: s["p50_ms"])]),
    ("file and log, MiB", [("bytes", "#9467bd", lambda s: s["bytes"] / 1048576)]),
    ("ended jobs in the store, thousands", [("ended", "#8c564b", lambda s: s["ended"] / 1000)]),
    ("what other machines of the host took of the processors, %", [("taken", "#7f7f7f", lambda s: s["taken_percent"])]),
]


def chart(samples, top, title, lines):
    highest = max(1e-9, *(value(s) for _, _, value in lines for s in samples)) * 1.05
    out = [f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>',
           f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    for part in (0, 0.5, 1):
        y = top + HEIGHT * (1 - part)
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{highest * part:,.0f}</text>')
    for i, (name, colour, value) in enumerate(lines):
        points = " ".join(f"{LEFT + WIDTH * j / max(1, len(samples) - 1):.1f},"
                          f"{top + HEIGHT * (1 - value(s) / highest):.1f}" for j, s in enumerate(samples))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
        if len(lines) > 1:
            out.append(f'<text x="{LEFT + WIDTH - 8}" y="{top + 16 + 16 * i}" text-anchor="end" '
                       f'fill="{colour}">{name}</text>')
    return out


def draw(samples, path):
    height = len(CHARTS) * (HEIGHT + GAP) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for i, (title, lines) in enumerate(CHARTS):
        out += chart(samples, 40 + i * (HEIGHT + GAP), title, lines)
    out.append(f'<text x="{LEFT}" y="{height - 12}">{len(samples)} seconds; completed jobs are kept for '
               f'{KEPT_MS / 1000:g} s</text>')
    out.append("</svg>")
    pathlib.Path(path).write_text("\n".join(out) + "\n")


def measure(bench, scratch, picture):
    rows = in_turns(bench, scratch)
    if MINUTES:
        draw(run(bench, scratch, 60 * MINUTES, KEPT_MS), picture)
        print(f"bench: a busy store second by second is in {picture}")
    return rows


def main():
    global MINUTES
    bench = pathlib.Path(sys.argv[1])
    MINUTES = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    picture = sys.argv[3] if len(sys.argv) > 3 else "steady.svg"
    with tempfile.TemporaryDirectory(prefix="steady-", dir=".") as scratch:
        rows = measure(bench, scratch, picture)
    for each in rows:
        print(f"{each['name']:<32}{each['value']:>12,.2f} {each['unit']}")
    values = {each["name"]: each["value"] for each in rows}
    print(f"with retention to without: {values['engine.steady.jobs'] / values['engine.steady.jobs_kept']:.2f} of the "
          f"throughput, {values['engine.steady.cpu_kept'] / values['engine.steady.cpu']:.2f} by processor time")


if __name__ == "__main__":
    main()
