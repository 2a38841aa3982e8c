"""What the project promises over a network, and the tables that show it."""
import collections

Promise = collections.namedtuple("Promise", "text figure limit better")

AT_LEAST, AT_MOST = "at least", "at most"
BUSY = 90  # percent of a processor: more machines cannot help a server that has no more

PEERS = {"postgres": ("graphile", "graphile.batched", "river"), "redis": ("bullmq", "asynq")}
SHOWN = {"postgres": "Redrive", "redis": "Redrive", "graphile": "graphile-worker", "graphile.batched": "graphile-worker, batched",
         "river": "River", "bullmq": "BullMQ", "asynq": "Asynq"}


def _rate(values, name, us, n):
    return values.get(f"net.{name}.{us}us.{n}p.jobs")


def _against(values, store, us, n, rivals, least):
    """Ours to the best of these."""
    rates = [rate for rate in (_rate(values, rival, us, n) for rival in rivals) if rate]
    ours = _rate(values, store, us, n)
    if not rates or not ours:
        return []
    names = " and ".join(SHOWN[rival] for rival in rivals)
    return [Promise(f"{store}, {us} us, {n} process(es): Redrive to {names}", ours / max(rates), least, AT_LEAST)]


def _growth(values):
    """Eight processes to one, unless the server has no more to give."""
    one, eight = _rate(values, "redis", 1000, 1), _rate(values, "redis", 1000, 8)
    busy = values.get("net.redis.1000us.8p.server_cpu", 0)
    if not one or not eight:
        return []
    if busy >= BUSY:
        return [Promise("redis, 1000 us, 8 processes: percent of a processor that the server uses", busy, BUSY, AT_LEAST)]
    return [Promise("redis, 1000 us: 8 processes to 1", eight / one, 4, AT_LEAST)]


def _row(values, name, limit):
    return [Promise(name, values[name], limit, AT_MOST)] if name in values else []


def _idle(values):
    one, many = values.get("net.redis.idle_1.p50_ms"), values.get("net.redis.idle_100.p50_ms")
    if not one or not many:
        return []
    return [Promise("redis: submit to start with 100 idle workers, to that with 1", many / one, 5, AT_MOST)]


def promised(rows):
    """Those that these rows say something about."""
    values = {row["name"]: row["value"] for row in rows}
    return [
        *_against(values, "redis", 1000, 1, ("bullmq",), 1.5),
        *_growth(values),
        *_against(values, "redis", 1000, 8, ("bullmq", "asynq"), 2),
        *_against(values, "postgres", 1000, 1, ("river",), 2),
        *_against(values, "postgres", 1000, 1, ("graphile.batched",), 2),
        *_against(values, "postgres", 1000, 8, ("river",), 1.5),
        *(promise for store in PEERS for promise in _row(values, f"net.{store}.settle_claim.round_trips", 2)),
        *(promise for store in PEERS for promise in _row(values, f"net.{store}.settle.round_trips", 1)),
        *_idle(values),
        *_row(values, "net.redis.idle_100.calls", 12),
    ]


def print_held(rows):
    """Says of each whether it was held; the texts of those that were missed."""
    missed = []
    for text, figure, limit, better in promised(rows):
        held = figure >= limit if better == AT_LEAST else figure <= limit
        if not held:
            missed.append(text)
        print(f"{text}: {figure:.2f}; promised {better} {limit:g}: {'held' if held else 'MISSED'}")
    return missed


def _figures(values, name):
    return " ".join(f"{text}{values[f'{name}.{part}']:,.{digits}f}{unit}" for part, text, digits, unit in (
        ("round_trips", "", 2, " trips,"), ("bytes", "", 0, " B a job; server "), ("server_cpu", "", 0, " %,"),
        ("machine_cpu", "machine ", 0, " %")) if f"{name}.{part}" in values)


def _cells(values, store):
    for name in (store, *PEERS[store]):
        for us in (0, 500, 1000):
            for n in (1, 4, 8):
                key = f"net.{name}.{us}us.{n}p"
                if f"{key}.jobs" in values:
                    yield f"{SHOWN[name]:<26}{us:>6} us {n:>3} processes {values[f'{key}.jobs']:>9,.0f} jobs/s  " + \
                        _figures(values, key)


def _waits(values, key):
    parts = [f"{part} {values[f'{key}.{part}_ms']:,.2f} ms" for part in ("p50", "p99", "p99.9")
             if f"{key}.{part}_ms" in values]
    return ", ".join(parts)


def print_tables(rows):
    """A line for each thing that was measured, by store."""
    values = {row["name"]: row["value"] for row in rows}
    for store, durable in (("postgres", "fsync and synchronous_commit on"), ("redis", "appendfsync always")):
        lines = list(_cells(values, store))
        for name in (store, *PEERS[store]):
            lines += [f"{SHOWN[name]:<26}  submit to start at {load:>3} %: {waits}" for load in (10, 50, 90)
                      if (waits := _waits(values, f"net.{name}.1000us.load_{load}"))]
        for n in (1, 10, 100):
            if waits := _waits(values, f"net.{store}.idle_{n}"):
                lines.append(f"{'Redrive':<26}  {n:>3} idle workers: {waits}; {values[f'net.{store}.idle_{n}.calls']:.1f} calls a job")
        if lines:
            print(f"\n{store} over a network ({durable}: what is done survives power loss)")
            print("\n".join(lines))
    if "net.proxy.late_p99_us" in values:
        print(f"the delays were {values['net.proxy.late_p50_us']:.0f} us longer than asked in the median, "
              f"{values['net.proxy.late_p99_us']:.0f} us at p99 (each way)")
