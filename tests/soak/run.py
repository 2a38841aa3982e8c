"""run.py - everything at once for hours: does anything grow, and is anything lost?

    python3 -m tests.soak.run [--hours N | --minutes N] [--stores sqlite,postgres,redis,memory] [--into FOLDER] [--load SHARE]

On each store a server with both interfaces, a worker (but for `memory`, which one process has for itself), clients over HTTP
and Faktory that submit and work, handlers of the program, a cron entry, breakers that open and close, retention, dead letters
that are purged, reloads with another configuration, and dashboards that read the event stream. First the clients go as fast
as they can, for a tenth of the time and 30 s at the most, and what has piled up is worked off; from then on they submit 70 % of
what was done in that time.

Memory, descriptors and threads of each process, the size of each store, the rate and the latencies are sampled, written to
FOLDER/samples.json and drawn as FOLDER/soak.svg. It fails if one of those of BOUNDS grows (growth.py), if a cron tick is
missing or doubled, if jobs are left over, or if the history of the jobs has a complaint (tests/judge). All of those
are written to FOLDER/complaints.txt, with the history of each job that has one. A wait during which the wall clock of the machine was
set is judged less strictly; how often that was is printed.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import threading
import time
import urllib.parse

from tests.judge.events import Follower
from tests.judge.promises import Contract
from tests.judge.wallclock import ClockWatch
from tests.kit import servers
from tests.kit.program import BINARY
from tests.soak import growth, picture
from tests.soak.growth import Bound
from tests.soak.latencies import TimedJudge
from tests.torture.rig import BACKOFF_S, Rig
from tests.torture.stores import LIVE

STORES = ("sqlite", "postgres", "redis", "memory")
# A handler has four descriptors in the process that runs it, and a few of them come and go.
BOUNDS = {"rss_mib": Bound(0.10, 4), "descriptors": Bound(0.10, 16), "threads": Bound(0, 2), "size_mib": Bound(0.20, 8)}

CONFIG = """\
store: "{store}"
log: {{level: "off"}}
retention: {{completed: 20s}}
defaults:
  retry: {{strategy: fixed, initial_delay: 200ms, min_delay: 200ms, jitter: none, max_attempts: ATTEMPTS, total_timeout: 0}}
  breaker: {{failure_threshold: {threshold}, recovery_timeout: RECOVERY, release_rate: 1000}}
tasks:
  work:
    run: {{stream: [{python}, {handler}, {logs}/effects.log], processes: 2, timeout: 30s}}
    breaker: {{failure_threshold: 4}}
  tick: {{queue: ticks, run: {{stream: [{python}, {handler}, {logs}/ticks.events]}}}}
  remote: {{}}
  faktory: {{}}
  ordered: {{}}
cron:
  minutely: {{task: tick, schedule: '* * * * *', overlap: allow}}
"""
ATTEMPTS = 5
SAMPLE_S = 2
FORGET_S = 60  # after its last event a job that has ended is judged
TOO_MANY = 1000  # jobs that wait: no more are submitted until there are fewer
JOBS_A_SUBMIT = {"http": 1.9, "faktory": 1.0}  # on average, client.py
EVERY_S = {"reload": 15, "purge": 20, "fail": 25, "look": 3}


class SoakRig(Rig):
    config_text = CONFIG.replace("RECOVERY", "300ms").replace("ATTEMPTS", str(ATTEMPTS))


class Dashboard(threading.Thread):
    """Reads the event stream of a server, and comes back to where it was each half minute."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.events = 0
        self.is_over = threading.Event()

    def run(self):
        last = None
        while not self.is_over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", "/v1/events", headers={"Last-Event-ID": last} if last else {})
                last = self.read(connection.getresponse(), time.monotonic() + 30) or last
            connection.close()
            self.is_over.wait(0.5)

    def read(self, stream, end):
        last = None
        while not self.is_over.is_set() and time.monotonic() < end:
            line = stream.readline()
            if not line:
                break
            if line.startswith(b"id:"):
                last = line[3:].strip().decode()
                self.events += 1
        return last


class Site:
    """All of it on one store."""

    def __init__(self, stack, kind, place, offsets):
        self.kind = kind
        self.server = stack.enter_context(servers.KINDS[kind](durable=True)) if kind in servers.KINDS else None
        store = self.server.url if self.server else "memory:" if kind == "memory" else None
        self.rig = stack.enter_context(contextlib.closing(SoakRig(1, place=place, store=store, servers=1,
                                                                  workers=0 if kind == "memory" else 1)))
        self.judge = TimedJudge(Contract(backoff_s=BACKOFF_S, removed=frozenset({"completed", "dead_letter"}), attempts=ATTEMPTS),
                                offsets.moved)
        self.follower = Follower(self.rig.logs)
        self.port = self.rig.ports[0][0]
        self.pace = pathlib.Path(f"{self.rig.hold}.pace")
        self.limit = TOO_MANY  # jobs that may wait, before no more are submitted
        self.reloads = self.held = self.purged = self.refusals = 0
        self.began_minute = None

    def begin(self):
        self.rig.begin()
        self.rig.wait_for(self.rig.members[-1].is_reached, 60)
        self.dashboards = [Dashboard(self.port) for _ in range(2)]
        for dashboard in self.dashboards:
            dashboard.start()
        self.began_minute = time.time() // 60

    def ask(self, method, path):
        """The JSON of the answer; None: there is none. A server that cannot do it now is asked again."""
        for _ in range(30):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
                connection.request(method, path, headers={"Accept-Encoding": "gzip"} if path.startswith("/ui") else {})
                answer = connection.getresponse()
                text = answer.read()
            if answer.status != 503:
                break
            self.refusals += 1
            time.sleep(1)
        assert answer.status in (200, 202, 204, 404), f"{method} {path}: {answer.status} {text[:200]}"
        return json.loads(text) if text[:1] in (b"{", b"[") and answer.status != 404 else None

    def waiting(self):
        by_state = self.ask("GET", "/v1/counts")["by_state"]
        return sum(by_state.get(state, 0) for state in LIVE)

    # ---- What operators and dashboards do --------------------------------------------------------

    def reload(self):
        """A changed configuration, every other time the first one again."""
        self.reloads += 1
        text = self.rig.config.read_text("utf-8")
        before, after = ("300ms", "400ms") if self.reloads % 2 else ("400ms", "300ms")
        self.rig.config.write_text(text.replace(before, after), "utf-8")
        os.kill(self.rig.members[-1].process.pid, signal.SIGHUP)

    def purge(self):
        self.purged += 1
        self.ask("DELETE", "/v1/retry/dead-letters?older_than_hours=0")

    def fail(self):
        """As many failures as open the breaker of a task."""
        for _ in range(20):
            self.ask("POST", "/v1/retry/simulate-failure?task_type=remote")

    def look(self):
        for path in ("/v1/summary", "/v1/rates?minutes=10", "/v1/tasks", "/v1/jobs?limit=20", "/v1/workers", "/ui/", "/metrics"):
            self.ask("GET", path)
        if self.waiting() > self.limit:
            self.rig.hold.touch()
            self.held += self.limit > 0
        else:
            self.rig.hold.unlink(missing_ok=True)
            self.limit = TOO_MANY

    # ---- Load ------------------------------------------------------------------------------------

    def set_pace(self, done_a_second, load):
        """So that both clients together submit a share of that, when what waits has been worked off."""
        each = load * done_a_second / len(JOBS_A_SUBMIT)
        self.pace.write_text(json.dumps({kind: jobs / each for kind, jobs in JOBS_A_SUBMIT.items()}))
        self.rig.hold.touch()
        self.limit = 0

    # ---- Samples ---------------------------------------------------------------------------------

    def size_mib(self):
        if self.kind == "sqlite":
            path = pathlib.Path(self.rig.store.path)
            return sum(f.stat().st_size for f in path.parent.glob(path.name + "*")) / 2**20
        if self.kind == "postgres":
            return int(self.server.sql("SELECT pg_database_size(current_database())")) / 2**20
        if self.kind == "redis":
            return int(self.server.call("INFO", "memory").split("used_memory:")[1].split("\r")[0]) / 2**20
        return None

    def processes(self):
        for member in self.rig.members:
            yield f"{self.kind} {member.words[0]}", member.process.pid


def of_process(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        facts = dict(line.split(":", maxsplit=1) for line in status)
    return {"rss_mib": int(facts["VmRSS"].split()[0]) / 1024, "threads": int(facts["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


class Soak:
    def __init__(self, sites, seconds, load):
        self.sites = sites
        self.seconds = seconds
        self.load = load
        self.calibrated_s = min(30.0, seconds / 10)
        self.steady_s = None  # since then the load is the one that is meant to last
        self.series = {}  # quantity -> name -> pairs
        self.began = 0.0
        self.errors = []
        self.stories = []  # lines on each job with a complaint

    def add(self, quantity, name, value):
        if value is not None:
            self.series.setdefault(quantity, {}).setdefault(name, []).append((time.monotonic() - self.began, value))

    def sample(self, since):
        for site in self.sites:
            site.rig.all_are_alive()
            for name, pid in site.processes():
                for quantity, value in of_process(pid).items():
                    self.add(quantity, name, value)
            self.add("size_mib", site.kind, site.size_mib())
            site.judge.feed(site.follower.read())
            taken = site.judge.take_latencies()
            self.add("rate", site.kind, len(taken.start) / (time.monotonic() - since))
            for share in (0.5, 0.99):
                name = f"{site.kind} p{share * 100:.0f}"
                self.add("submit_ms", name, 1000 * percentile(taken.submit, share))
                self.add("start_ms", name, 1000 * percentile(taken.start, share))

    def run(self):
        for site in self.sites:
            site.begin()
        self.began = sampled = time.monotonic()
        due = {(site, act): self.began + every * (i + 1) / len(self.sites)
               for i, site in enumerate(self.sites) for act, every in EVERY_S.items()}
        is_calibrated = False  # the pace is known
        swept = self.began
        while (now := time.monotonic()) < self.began + self.seconds:
            for (site, act), at in due.items():
                if at <= now:
                    getattr(site, act)()
                    due[site, act] = now + EVERY_S[act]
            if now >= sampled + SAMPLE_S:
                self.sample(sampled)
                sampled = now
            if not is_calibrated and now >= self.began + self.calibrated_s:
                is_calibrated = True
                for site in self.sites:
                    site.set_pace(site.judge.counts["end:SUCCESS"] / (now - self.began), self.load)
            if is_calibrated and self.steady_s is None and all(site.limit > 0 for site in self.sites):
                self.steady_s = now - self.began
            if now >= swept + FORGET_S:
                swept = now
                for site in self.sites:
                    site.judge.drop_before(now - FORGET_S)
                    site.follower.free()
            time.sleep(0.1)

    def finish(self):
        """All jobs come to their end; then each is held against the store."""
        for site in self.sites:
            site.rig.hold.touch()
        time.sleep(2)  # for what clients are submitting
        for site in self.sites:
            end = time.monotonic() + 120
            while site.waiting() and time.monotonic() < end:
                time.sleep(0.2)
            for dashboard in site.dashboards:
                dashboard.is_over.set()
            for client in site.rig.living_clients().values():
                site.rig.end(client)
            site.judge.feed(site.follower.read())
            self.check_ticks(site)
            site.judge.finish(lambda job_id, site=site: final_of(site, job_id))
            if left := site.waiting():
                self.errors.append(f"{site.kind}: {left} jobs have not ended")
            self.stories += stories_of(site)
            self.errors += [f"{site.kind}: {found} (its last event at {found.at - self.began:.1f} s)" for found in site.judge.complaints]
            for member in site.rig.members:
                site.rig.end(member.process)

    def check_ticks(self, site):
        """Each minute that began makes one job."""
        path = site.rig.logs / "ticks.events"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        ids = {json.loads(line)["id"] for line in lines}
        minutes = time.time() // 60 - site.began_minute
        if not minutes - 1 <= len(ids) <= minutes + 1:
            self.errors.append(f"{site.kind}: {len(ids)} cron jobs in {minutes:.0f} minutes")

    def judge_growth(self):
        """Of what was sampled at the load that is meant to last."""
        for quantity, bound in BOUNDS.items():
            for name, points in sorted(self.series.get(quantity, {}).items()):
                verdict = growth.judge([point for point in points if point[0] > (self.steady_s or 0)], bound)
                print(f"  {quantity:12} {name:16} {statistics.median(v for _, v in points):9.1f}"
                      f"  rises by {verdict.rise:7.2f} of {verdict.limit:.2f} allowed")
                if verdict.grows:
                    self.errors.append(f"{name}: {quantity} grows by {verdict.rise:.2f} in the second half, {verdict.limit:.2f} allowed")


def stories_of(site):
    """What clients and handlers wrote down about each job with a complaint, and what the store has of it now."""
    for job_id, lines in site.judge.stories.items():
        yield f"{site.kind}: {job_id}"
        yield from lines
        yield f"  in the store: {json.dumps(site.ask('GET', '/v1/jobs/' + urllib.parse.quote(job_id, safe='')))}"


def final_of(site, job_id):
    job = site.ask("GET", "/v1/jobs/" + urllib.parse.quote(job_id, safe=""))
    return {name: job[name] for name in ("state", "attempts", "max_attempts")} if job else None


def picture_of(soak):
    calibration = [(0, soak.steady_s or soak.seconds)]
    wanted = (("rss_mib", "Memory of each process (MiB, resident)"), ("descriptors", "Open descriptors"), ("threads", "Threads"),
              ("size_mib", "Size of the store (MiB; of Redis its memory)"), ("rate", "Jobs started for the first time (1/s)"),
              ("submit_ms", "Submit to its answer (ms)"), ("start_ms", "Ready to first start (ms)"))
    panels = [picture.Panel(title, soak.series.get(quantity, {}), calibration, by_powers=quantity.endswith("_ms"))
              for quantity, title in wanted]
    subtitle = (f"{soak.seconds / 60:.1f} minutes; grey: clients at full speed, and what piled up is worked off; "
                f"then {soak.load:.0%} of what was done at full speed")
    return picture.draw("Soak: all stores, both interfaces, at once", subtitle, panels, soak.seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--minutes", type=float, help="in place of hours")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--load", type=float, default=0.7, help="share of what the clients reach at full speed")
    parser.add_argument("--into", type=pathlib.Path, default=BINARY.parent / "soak")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    seconds = 60 * args.minutes if args.minutes else 3600 * args.hours
    shutil.rmtree(args.into, ignore_errors=True)
    args.into.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        clock = ClockWatch()
        clock.start()
        stack.callback(clock.close)
        sites = []
        for kind in args.stores.split(","):
            try:
                sites.append(Site(stack, kind, args.into, clock.offsets))
            except servers.Missing as missing:
                print(f"soak: {kind} is left out: {missing}")
        soak = Soak(sites, seconds, args.load)
        soak.run()
        soak.finish()
        (args.into / "samples.json").write_text(json.dumps(soak.series))
        (args.into / "soak.svg").write_text(picture_of(soak), "utf-8")
        print(f"soak: {seconds / 60:g} minutes")
        for site in sites:
            counts = site.judge.counts
            print(f"  {site.kind}: {counts['acknowledged']} jobs, {counts['start']} starts, {site.reloads} reloads, "
                  f"{site.purged} purges, {sum(dashboard.events for dashboard in site.dashboards)} events on dashboards, "
                  f"held back {site.held} times, refused {site.refusals} requests")
        steps = clock.offsets.steps
        print(f"  the wall clock was set {len(steps)} times" + "".join(f", {by:+.4f} s at {at - soak.began:.1f} s" for at, by in steps[:20])
              + f"; {sum(site.judge.excused for site in sites)} jobs were excused by that")
        soak.judge_growth()
        print(f"  {args.into / 'soak.svg'}")
    (args.into / "complaints.txt").write_text("".join(line + "\n" for line in soak.errors + soak.stories), "utf-8")
    for error in soak.errors[:30]:
        print("  " + error)
    print(f"soak: {len(soak.errors)} complaints")
    sys.exit(1 if soak.errors else 0)


if __name__ == "__main__":
    main()
