"""model - how many jobs a second a store and its workers hold, from what a job costs.

    python3 -m doctest bench/scale/model.py

report.py prints what it says of the figures of a run. Times are in seconds unless a name says otherwise. docs/scale.md has the model in words.

A worker process takes turns: it settles the jobs that have ended and claims the next, in one transaction. A transaction
costs a fixed part and a part for each job, of the server's processor, of the worker's and of the log:

>>> round(Cost(fixed=100e-6, each=20e-6).of(50) * 1e6, 3)       # microseconds a job
22.0

A store holds what its scarcest resource allows:

>>> redis = Store("redis", server=Cost(100e-6, 20e-6), worker=Cost(50e-6, 10e-6), log_bytes=Cost(100, 200), trips=2, cores=1)
>>> net = Setting(round_trip=1e-3, sync=1e-3)
>>> found = limits(redis, net, processes=1, batch=50)
>>> {name: round(rate) for name, rate in found.items()}
{'server': 45455, 'worker': 90909, 'turn': 10753, 'log': 1980198, 'sync': 23810}
>>> min(found, key=found.get)
'turn'

More processes share the server. Throughput grows with them and never passes a limit:

>>> rates = [throughput(redis, net, n, 50) for n in (1, 2, 4, 8, 64)]
>>> rates == sorted(rates) and rates[-1] < limits(redis, net, 64, 50)["server"]
True
>>> abs(rates[0] / found["turn"] - 1) < 0.01
True

On one machine server and workers share the processors:

>>> shared = Setting(round_trip=1e-3, sync=1e-3, shared_processors=0.5)
>>> round(limits(redis, shared, 8, 50)["machine"])      # 0.5 / (22 µs + 11 µs)
15152
"""
import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of a transaction: a fixed part, and a part for each of its jobs."""
    fixed: float
    each: float

    def of(self, batch):
        """For one job, in a transaction of so many."""
        return self.each + self.fixed / batch

    def __add__(self, other):
        return Cost(self.fixed + other.fixed, self.each + other.each)


@dataclasses.dataclass(frozen=True)
class Store:
    name: str
    server: Cost  # processor time of the server
    worker: Cost  # of the worker's process
    log_bytes: Cost
    trips: float  # round trips of a transaction
    cores: float = 1  # that the server can use: Redis one, PostgreSQL all of its machine, SQLite none
    batches: tuple = ()  # (slots, jobs in a transaction) as measured


@dataclasses.dataclass(frozen=True)
class Setting:
    round_trip: float
    sync: float  # an fdatasync
    disk_bytes: float = 400e6  # a second
    shared_processors: float = 0  # of the machine that server and workers share; 0: each has its own
    proxy: float = 0  # processor time of a job in whatever stands between, on a shared machine


# ---- Throughput ----------------------------------------------------------------------------------


def spread(store, shards):
    """With shards a worker settles jobs of one and claims from another: two transactions instead of one."""
    if shards < 2:
        return store
    twice = [Cost(2 * cost.fixed, cost.each) for cost in (store.server, store.worker, store.log_bytes)]
    return dataclasses.replace(store, server=twice[0], worker=twice[1], log_bytes=twice[2])


def limits(store, setting, processes, batch, shards=1):
    """Jobs a second that each resource allows. `batch` is what a process settles and claims in one turn."""
    store = spread(store, shards)
    server, worker = store.server.of(batch), store.worker.of(batch)
    turn = store.trips * setting.round_trip + setting.sync + batch * (server + worker)
    found = {"server": shards * store.cores / server if server else math.inf,
             "worker": processes / worker,
             "turn": processes * batch / turn,
             "log": shards * setting.disk_bytes / store.log_bytes.of(batch),
             "sync": sync_limit(store, setting, processes, batch, shards)}
    if setting.shared_processors:
        found["machine"] = setting.shared_processors / (server + worker + setting.proxy)
    return found


def sync_limit(store, setting, processes, batch, shards):
    """SQLite: a transaction has the file for itself until it is on disk. Redis: what has come while the thread waited for the
    disk shares the next fsync. PostgreSQL: commits that wait together share one."""
    if store.name == "sqlite":
        return shards * batch / (setting.sync + batch * store.worker.of(batch))
    if store.name == "redis":
        return processes * batch / (setting.sync + processes * batch * store.server.of(batch) / shards)
    return processes * batch / setting.sync


def sync_wait(store, setting, processes):
    """The time that a turn waits for the disk. Redis answers no one while its thread waits: beside other processes both calls
    of a turn come, on the average, in the middle of an fsync."""
    return setting.sync * (2 - 1 / processes) if store.name == "redis" else setting.sync


def stations(store, setting, processes, batch, shards):
    """(demand, servers) of each place where turns queue, and the time in which they hinder no other."""
    store = spread(store, shards)
    server, worker = batch * store.server.of(batch), batch * store.worker.of(batch)
    away = store.trips * setting.round_trip
    wait = sync_wait(store, setting, processes)
    if setting.shared_processors:
        every = [(server + worker + batch * setting.proxy, setting.shared_processors)]
        return (every + [(setting.sync, 1)], away) if store.name == "sqlite" else (every, away + wait)
    if store.name == "sqlite":
        return [((worker + setting.sync) / shards, 1)] * shards, away
    return [(server / shards, store.cores)] * shards, away + wait + worker


def closed(places, away, customers):
    """Transactions a second of so many processes that make one after the other: mean value analysis. A place of c servers
    counts as one that is c times as fast, and a delay of the rest.

    >>> round(closed([(1, 1)], 9, 1), 3), round(closed([(1, 1)], 9, 100), 3)
    (0.1, 1.0)
    """
    fast = [demand / max(1, servers) if servers >= 1 else demand / servers for demand, servers in places]
    away += sum(demand - demand / servers for demand, servers in places if servers > 1)
    queue = [0.0] * len(fast)
    rate = 0.0
    for n in range(1, customers + 1):
        waits = [demand * (1 + length) for demand, length in zip(fast, queue)]
        rate = n / (away + sum(waits))
        queue = [rate * wait for wait in waits]
    return rate


def throughput(store, setting, processes, batch, shards=1):
    """Jobs a second of processes that always have jobs to claim."""
    places, away = stations(store, setting, processes, batch, shards)
    found = batch * closed(places, away, processes)
    return min(found, *limits(store, setting, processes, batch, shards).values())


def batch_of(store, slots):
    """Jobs in a transaction of a process with so many slots, between the measured ones.

    >>> store = Store("redis", Cost(0, 0), Cost(0, 0), Cost(0, 0), 2, batches=((1, 4), (20, 80)))
    >>> batch_of(store, 1), batch_of(store, 20), batch_of(store, 100)
    (4, 80, 80)
    """
    rows = store.batches
    if slots <= rows[0][0] or slots >= rows[-1][0]:
        return rows[0][1] if slots <= rows[0][0] else rows[-1][1]
    at = next(i for i, row in enumerate(rows) if row[0] >= slots)
    (few, small), (many, large) = rows[at - 1:at + 1]
    return small + (large - small) * (slots - few) / (many - few)


# ---- Latency -------------------------------------------------------------------------------------


def waits(servers, offered):
    """Erlang's C: the share of transactions that find all servers busy; `offered` is their load in servers.

    >>> round(waits(1, 0.7), 3), round(waits(8, 5.6), 3)
    (0.7, 0.271)
    """
    term, total = 1.0, 0.0
    for k in range(servers):
        total += term
        term *= offered / (k + 1)
    last = term * servers / (servers - offered)
    return last / (total + last)


def wait_at(service, servers, load, share):
    """The time in the queue that `share` of all transactions do not exceed.

    >>> round(wait_at(1.0, 1, 0.5, 0.99), 2)
    7.82
    """
    late = waits(servers, load * servers)
    return max(0.0, service / (servers * (1 - load)) * math.log(late / (1 - share)))


def start_latency(store, setting, submit, load, share, in_call=10, batch=10):
    """From submit to start on an otherwise idle worker: the submit and its commit, the way of the notification, and the claim.
    Both queue at the server; that both are late is rarer than that one is, so this is no less than the true figure."""
    servers = max(1, round(store.cores))
    first, second = submit.fixed + in_call * submit.each, batch * store.server.of(batch)
    mean = (first + second) / 2
    return (setting.round_trip * (1 + 0.5 + store.trips) + 2 * setting.sync + first + second
            + 2 * wait_at(mean, servers, load, share))


# ---- From figures --------------------------------------------------------------------------------


def fit(rows, value):
    """The line through cost over 1/batch with the least sum of squared relative errors.

    >>> fit([{"syncs": 1 / b, "y": 5 + 100 / b} for b in (2, 10, 50)], "y")
    Cost(fixed=100.0, each=5.0)
    """
    points = [(row["syncs"], row[value], 1 / max(row[value], 1e-12) ** 2) for row in rows]
    total = sum(w for *_, w in points)
    mean_x, mean_y = sum(x * w for x, _, w in points) / total, sum(y * w for _, y, w in points) / total
    spread = sum(w * (x - mean_x) ** 2 for x, _, w in points)
    slope = sum(w * (x - mean_x) * (y - mean_y) for x, y, w in points) / spread if spread else 0
    slope = min(max(0.0, slope), mean_y / mean_x)
    return Cost(round(slope, 9), round(mean_y - slope * mean_x, 9))


def gather(rows, keys):
    """One row for each value of the keys: of processor times the least, since other programs only add to them (cold caches,
    shared cores), of everything else the median."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [{name: value if name in keys or isinstance(value, str) else
             (min if name.endswith("_us") else statistics.median)(row[name] for row in same)
             for name, value in same[0].items()} for same in groups.values()]


def cost_rows(figures):
    """With the processor times of a busy server where they are less."""
    rows = gather(figures["costs"], ("store", "slots"))
    for row in rows:
        for busy in figures.get("busy", ()):
            if (busy["store"], busy["busy_slots"]) == (row["store"], row["slots"]):
                row.update({name: min(row[name], busy[name]) for name in ("server_us", "worker_us")})
    return rows


def submit_rows(figures):
    """By the size of the calls: one or two, a hundred, some hundreds."""
    rows = gather([{**row, "calls": round(math.log10(row["in_call"]))} for row in figures["submits"]], ("store", "calls"))
    return sorted(rows, key=lambda row: (row["store"], row["in_call"]))


def seconds(cost):
    return Cost(cost.fixed / 1e6, cost.each / 1e6)


def store_of(figures, name, cores=1):
    rows = [row for row in cost_rows(figures) if row["store"] == name]
    trips = statistics.median(row["round_trips"] / row["syncs"] for row in rows)
    return Store(name, Cost(0, 0) if name == "sqlite" else seconds(fit(rows, "server_us")), seconds(fit(rows, "worker_us")),
                 fit(rows, "log_bytes"), trips, cores, tuple((row["slots"], 1 / row["syncs"]) for row in rows))


def submit_of(figures, name):
    """What a submit costs the server and its client."""
    rows = [{**row, "syncs": 1 / row["in_call"]} for row in submit_rows(figures) if row["store"] == name]
    return seconds(fit(rows, "server_us")), seconds(fit(rows, "client_us"))


def submit_log(figures, name, in_call):
    rows = [{**row, "syncs": 1 / row["in_call"]} for row in submit_rows(figures) if row["store"] == name]
    return fit(rows, "log_bytes").of(in_call) if rows else 0


def proxy_of(figures, name):
    """Processor time of the program that stands for the network, in seconds a job."""
    return min((row["proxy_us"] for row in figures["points"] if row["store"] == name and row.get("proxy_us")), default=0) / 1e6
