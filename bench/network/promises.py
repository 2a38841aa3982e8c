"""What the project promises over a network."""
import collections

Promise = collections.namedtuple("Promise", "text figure limit aim better")

AT_LEAST, AT_MOST = "at least", "at most"
BUSY = 90  # percent of a processor: more workers cannot help a server that has no more

PEERS = {"postgres": ("graphile", "graphile.batched", "river"), "redis": ("bullmq", "asynq")}
SHOWN = {"postgres": "Redrive", "redis": "Redrive", "graphile": "graphile-worker", "graphile.batched": "graphile-worker, batched",
         "river": "River", "bullmq": "BullMQ", "asynq": "Asynq"}
STORES = {"postgres": "PostgreSQL", "redis": "Redis"}


def _rate(values, name, n):
    return values.get(f"net.{name}.1000us.{n}p.jobs")


def _against(values, store, n, rivals, least, aim):
    """Ours to the best of these."""
    rates = [rate for rate in (_rate(values, rival, n) for rival in rivals) if rate]
    ours = _rate(values, store, n)
    if not rates or not ours:
        return []
    names = " or ".join(SHOWN[rival] for rival in rivals)
    text = f"{STORES[store]}, 1 ms, {n} process{'es' if n > 1 else ''}: Redrive to {names}"
    return [Promise(text, ours / max(rates), least, aim, AT_LEAST)]


def _growth(values):
    """Eight processes to one, unless the server has no more to give."""
    one, eight = _rate(values, "redis", 1), _rate(values, "redis", 8)
    busy = values.get("net.redis.1000us.8p.server_cpu", 0)
    if not one or not eight:
        return []
    if busy >= BUSY:
        return [Promise("Redis, 1 ms, 8 processes: percent of a processor that the server uses", busy, BUSY, BUSY, AT_LEAST)]
    return [Promise("Redis, 1 ms, Redrive: 8 processes to 1", eight / one, 4, 7, AT_LEAST)]


def _transactions(values):
    for step, text, most in (("settle_claim", "settles and claims", 2), ("settle", "settles", 1)):
        for store, shown in STORES.items():
            if (name := f"net.{store}.{step}.round_trips") in values:
                yield Promise(f"{shown}: round trips of a transaction that {text}", values[name], most, most, AT_MOST)


def _idle(values):
    one, many = values.get("net.redis.idle_1.p50_ms"), values.get("net.redis.idle_100.p50_ms")
    if not one or not many:
        return []
    return [Promise("Redis, loopback: submit to start (p50) with 100 idle workers, to that with 1", many / one, 5, 2, AT_MOST),
            Promise("Redis, loopback: calls of a job with 100 idle workers", values["net.redis.idle_100.calls"], 12, 8, AT_MOST)]


def promised(rows):
    """Those that these rows say something about."""
    values = {row["name"]: row["value"] for row in rows}
    return [
        *_against(values, "redis", 1, ("bullmq",), 1.5, 3),
        *_growth(values),
        *_against(values, "redis", 8, ("bullmq", "asynq"), 2, 4),
        *_against(values, "postgres", 1, ("river",), 2, 3),
        *_against(values, "postgres", 1, ("graphile.batched",), 2, 3),
        *_against(values, "postgres", 8, ("river",), 1.5, 2.5),
        *_transactions(values),
        *_idle(values),
    ]


def is_held(promise):
    return promise.figure >= promise.limit if promise.better == AT_LEAST else promise.figure <= promise.limit


def print_held(rows):
    """Says of each whether it was held; the texts of those that were missed."""
    made = promised(rows)
    for promise in made:
        print(f"{promise.text}: {promise.figure:.2f}; promised {promise.better} {promise.limit:g}: "
              f"{'held' if is_held(promise) else 'MISSED'}")
    return [promise.text for promise in made if not is_held(promise)]
