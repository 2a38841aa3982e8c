#!/usr/bin/env python3
"""tables - what was measured over a network, as a text and for docs/comparison.md."""
from promises import PEERS, SHOWN, STORES, is_held, promised

ROUND_TRIPS_US = (0, 500, 1000)
PROCESSES = (1, 4, 8)
LOADS = (10, 50, 90)
PERCENTILES = ("p50", "p99", "p99.9")
DURABLE = {"postgres": "`fsync` and `synchronous_commit` on", "redis": "`appendfsync always`"}


def contestants(store):
    return (store, *PEERS[store])


# ---- Text ----------------------------------------------------------------------------------------


def _cell_lines(values, store):
    for name in contestants(store):
        for us in ROUND_TRIPS_US:
            for n in PROCESSES:
                key = f"net.{name}.{us}us.{n}p"
                if f"{key}.jobs" in values:
                    yield (f"{SHOWN[name]:<26}{us:>6} us {n:>3} processes {values[f'{key}.jobs']:>9,.0f} jobs/s  "
                           f"{values[f'{key}.round_trips']:.2f} round trips, {values[f'{key}.bytes']:,.0f} B a job; "
                           f"server {values[f'{key}.server_cpu']:.0f} %, machine {values[f'{key}.machine_cpu']:.0f} %")


def _waits(values, key):
    return ", ".join(f"{part} {values[f'{key}.{part}_ms']:,.2f} ms" for part in PERCENTILES if f"{key}.{part}_ms" in values)


def _wait_lines(values, store):
    for name in contestants(store):
        for load in LOADS:
            if waits := _waits(values, f"net.{name}.1000us.load_{load}"):
                yield f"{SHOWN[name]:<26}submit to start at {load} %: {waits}"
    for n in (1, 10, 100):
        if waits := _waits(values, f"net.{store}.idle_{n}"):
            yield f"{'Redrive':<26}{n} idle workers: {waits}; {values[f'net.{store}.idle_{n}.calls']:.1f} calls a job"


def print_text(rows):
    """A line for each thing that was measured, by store."""
    values = {row["name"]: row["value"] for row in rows}
    for store in STORES:
        if lines := [*_cell_lines(values, store), *_wait_lines(values, store)]:
            print(f"\n{STORES[store]} over a network ({DURABLE[store].replace('`', '')}: what is done survives power loss)")
            print("\n".join(lines))
    if "net.proxy.late_p99_us" in values:
        print(f"the proxy was {values['net.proxy.late_p50_us']:.0f} us late in the median, "
              f"{values['net.proxy.late_p99_us']:.0f} us at p99, each way")


# ---- Markdown ------------------------------------------------------------------------------------


def table(head, lines, numbers=True):
    """The lines of a table; with `numbers` all columns but the first one are."""
    side = "---:" if numbers else "---"
    return ["| " + " | ".join(head) + " |", "|---" + f"|{side}" * (len(head) - 1) + "|",
            *("| " + " | ".join(line) + " |" for line in lines), ""]


def _number(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def _rates(values, store):
    """Only of what was measured."""
    cells = [(us, n) for us in ROUND_TRIPS_US for n in PROCESSES
             if any(f"net.{name}.{us}us.{n}p.jobs" in values for name in contestants(store))]
    if not cells:
        return []
    return [f"{STORES[store]}, {DURABLE[store]}, jobs a second by round trip and number of processes:", "",
            *table(["", *(f"{us / 1000:g} ms, {n}" for us, n in cells)],
                   ([SHOWN[name], *(_number(values.get(f"net.{name}.{us}us.{n}p.jobs")) for us, n in cells)]
                    for name in contestants(store)))]


def _costs(values, store):
    parts = (("round_trips", 2), ("bytes", 0), ("server_cpu", 0))
    head = [f"{STORES[store]}, 1 ms, 1 and 8 processes", "round trips of a job", "bytes of a job", "server, % of a processor"]
    return table(head, ([SHOWN[name], *("; ".join(_number(values.get(f"net.{name}.1000us.{n}p.{part}"), digits) for n in (1, 8))
                                        for part, digits in parts)] for name in contestants(store)))


def _waits_table(values, store):
    if not any(f"net.{name}.1000us.load_{load}.p50_ms" in values for name in contestants(store) for load in LOADS):
        return []
    head = [f"{STORES[store]}, submit to start, ms: p50; p99; p99.9", *(f"at {load} %" for load in LOADS)]
    return table(head, ([SHOWN[name], *("; ".join(_number(values.get(f"net.{name}.1000us.load_{load}.{part}_ms"), 1)
                                                  for part in PERCENTILES) for load in LOADS)]
                        for name in contestants(store)))


def _idle(values):
    head = ["idle workers on Redis", "submit to start, ms: p50; p99; p99.9", "calls of a job"]
    return table(head, ([str(n), "; ".join(_number(values.get(f"net.redis.idle_{n}.{part}_ms"), 1) for part in PERCENTILES),
                         _number(values.get(f"net.redis.idle_{n}.calls"), 1)] for n in (1, 100)))


def markdown(rows):
    """Lines; none if nothing was measured over a network."""
    values = {row["name"]: row["value"] for row in rows}
    if not any(name.startswith("net.") for name in values):
        return []
    lines = table(["", "promised", "aim", "this run", ""],
                  ([promise.text, f"{promise.limit:g}", f"{promise.aim:g}", _number(promise.figure, 2),
                    "held" if is_held(promise) else "missed"] for promise in promised(rows)))
    for store in STORES:
        lines += _rates(values, store) + _costs(values, store) + _waits_table(values, store)
    return lines + _idle(values)
