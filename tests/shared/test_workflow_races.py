"""Jobs that wait for others, in several processes on one store: children are submitted at the very time at which
workers end their parents, or an operator cancels, redrives or removes these; workers and servers are killed at any
moment. What the handlers have written down says whether a job ran before its parents, or was released twice; the database
is asked only for what has become of the jobs."""
import collections
import contextlib
import datetime
import http.client
import json
import random
import sys
import threading
import time

from tests.kit.program import HANDLERS
from tests.kit.waiting import wait_for
from tests.shared.fleet import Client, Fleet

SECONDS = 12
SUBMITTERS = 3
SERVERS = 2
WORKERS = 2
KILL_EVERY_S = 0.8
DEAD_AFTER = 3  # leases in a row that were lost with their worker

CONFIG = """
defaults:
  retry: {{strategy: fixed, initial_delay: 50ms, min_delay: 50ms, jitter: none, max_attempts: 20, total_timeout: 0}}
  breaker: {{failure_threshold: 0, failure_rate: 0}}
tasks:
  step: {{lease: 1s, heartbeat: 300ms, run: {{stream: [{python}, {handler}, DIR/logs/flow.log, DIR/mended], processes: 4}}}}
"""

LIVE = ("scheduled", "retrying", "queued", "running", "parked", "waiting")


class Person(threading.Thread):
    """What speaks to any of the servers, as long as the kills go on."""

    def __init__(self, name, fleet, seed):
        super().__init__(name=name, daemon=True)
        self.fleet, self.random = fleet, random.Random(seed)
        self.until = time.monotonic() + SECONDS
        self.client = None

    def connect(self):
        """To a server that listens."""
        up = [server for server in self.fleet.front if server.logged("listening interface=http")]
        return Client(self.random.choice(up)) if up else None

    def ask(self, *words):
        """Status and body; 503 when there is no answer."""
        self.client = self.client or self.connect()
        try:
            return self.client.ask(*words)[:2] if self.client else (503, None)
        except (OSError, http.client.HTTPException, ValueError):
            self.client = None
            return 503, None


class Operator(Person):
    """Cancels jobs, and redrives and removes dead letters, while others are added to them."""

    def __init__(self, fleet, clients):
        super().__init__("operator", fleet, seed=99)
        self.clients = clients
        self.cancelled, self.removed = {}, {}  # id -> since when that may have been done
        self.redriven = set()

    def run(self):
        while time.monotonic() < self.until:
            time.sleep(self.random.choice((0.01, 0.05, 0.1)))
            recent = list(self.random.choice(self.clients).recent)
            if recent and self.random.random() < 0.4:
                job_id = self.random.choice(recent)
                self.cancelled.setdefault(job_id, time.monotonic())
                self.ask("DELETE", f"/jobs/{job_id}")
                continue
            _, body = self.ask("GET", "/jobs?state=dead_letter&limit=20")
            dead = [job["id"] for job in body["items"]] if body and "items" in body else []
            if not dead:
                continue
            job_id = self.random.choice(dead)
            if self.random.random() < 0.5:
                self.redriven.add(job_id)
                self.ask("POST", f"/jobs/{job_id}/retry")
            else:
                self.removed.setdefault(job_id, time.monotonic())
                self.ask("DELETE", f"/retry/dead-letters/by-id/{job_id}")


class Submitter(Person):
    """A client: parents, and soon after, while they run or have ended, jobs that wait for them."""

    def __init__(self, name, fleet, seed):
        super().__init__(name, fleet, seed)
        self.rules = {}  # child -> {parent: on}
        self.recent = collections.deque(maxlen=12)
        self.refused = set()  # a parent was removed before they came
        self.ids = 0
        self.wrong = []

    def send(self, jobs):
        """Until a server has answered: a job of the same id is not taken in twice."""
        while True:
            status, body = self.ask("POST", "/jobs", jobs)
            if status in (200, 201):
                return
            if status < 500:
                self.refused |= {job["id"] for job in (jobs if isinstance(jobs, list) else [jobs])}
                self.wrong += [] if "is not there" in str(body) else [(status, body)]
                return
            time.sleep(0.02)

    def new(self):
        self.ids += 1
        job = {"task": "step", "id": f"{self.name}-{self.ids}", "payload": {"sleep": self.random.choice((0, 0, 0.005, 0.02))}}
        if self.random.random() < 0.08:
            job["payload"]["fails"] = True
        return job

    def wait_for(self, job, parents):
        rules = {parent: self.random.choice(("success", "success", "success", "end", "failure")) for parent in parents}
        self.rules[job["id"]] = rules
        job["after"] = [{"id": parent, "on": on} for parent, on in rules.items()]
        return job

    def run(self):
        while time.monotonic() < self.until:
            group = [self.new() for _ in range(self.random.randint(1, 4))]
            self.send(group)
            self.recent.extend(job["id"] for job in group)
            time.sleep(self.random.choice((0, 0, 0.005, 0.02, 0.05)))
            some = self.random.sample(list(self.recent), min(len(self.recent), self.random.randint(1, 4)))
            callback = self.wait_for(self.new(), some)
            chain = self.wait_for(self.new(), [callback["id"]])
            if self.random.random() < 0.5:
                self.send([callback, chain])
            else:
                self.send(callback)
                self.send(chain)
            self.recent.append(callback["id"])


def start_fleet(fleet):
    fleet.configure(CONFIG.format(python=sys.executable, handler=HANDLERS / "flow_handler.py"))
    fleet.front = [fleet.serve().ready() for _ in range(SERVERS)]
    fleet.back = [fleet.work() for _ in range(WORKERS)]


def kill_some(fleet, clients, luck):
    """As long as clients submit. How many died."""
    kills = 0
    while any(client.is_alive() for client in clients):
        time.sleep(KILL_EVERY_S)
        row = luck.choice((fleet.front, fleet.back))
        at = luck.randrange(len(row))
        row[at].kill()
        row[at] = fleet.serve() if row is fleet.front else fleet.work()
        kills += 1
    return kills


def redrive_the_dead(fleet):
    """Until nothing lives: what failed is mended now, and each generation of jobs that wait may bring further dead.
    Which these were."""
    (fleet.dir / "mended").touch()
    redriven = set()

    def all_ended():
        redriven.update(job["id"] for job in fleet.jobs("dead_letter"))
        done = fleet.redrive("dlq", "retry", "--all")
        assert done.returncode == 0, done.stderr
        return not fleet.jobs(*LIVE)

    wait_for(all_ended, lambda: "all jobs end; there are " + str([(job["id"], job["state"]) for job in fleet.jobs(*LIVE)][:20]))
    return redriven


class HandlerLog:
    """What the handlers saw of each job."""

    def __init__(self, fleet, operator):
        self.fleet, self.operator = fleet, operator
        self.starts, self.ends = collections.defaultdict(list), collections.defaultdict(list)
        for event, told in (("start", self.starts), ("end:SUCCESS", self.ends), ("end:PERMANENT_FAIL", self.ends)):
            for entry in fleet.seen(event):
                told[entry["id"]].append(entry)

    def was_lost(self, parent, start):
        """Whether it had died with its workers by then, as the store tells it: one that was killed between a claim and the
        handler's first line has lost a lease of which no handler knows."""
        shown = self.fleet.redrive("jobs", "show", parent, "--json")
        history = json.loads(shown.stdout)["history"] if shown.returncode == 0 else []
        return any(attempt["outcome"] == "dead_letter" and attempt["error"]["type"] == "LeaseExpired" and
                   datetime.datetime.fromisoformat(attempt["ended_at"]).timestamp() <= start["at"] for attempt in history)

    def has_ended(self, parent, on, before):
        """Whether a parent can have ended as it must before that time, by what handlers and operator know."""
        ends = {entry["event"].removeprefix("end:") for entry in self.ends[parent] if entry["mono"] < before}
        lost = sum(entry["mono"] < before for entry in self.starts[parent]) >= DEAD_AFTER
        if on == "success":
            return "SUCCESS" in ends
        if min(at.get(parent, before) for at in (self.operator.cancelled, self.operator.removed)) < before:
            return True
        return bool(ends) or lost if on == "end" else "PERMANENT_FAIL" in ends or lost


def complaints(log, rules, states, redriven):
    """All that is wrong."""
    found = []
    for child, parents in rules.items():
        starts = log.starts[child]
        for parent, on in parents.items():
            if starts and not log.has_ended(parent, on, starts[0]["mono"]):
                skipped = on != "success" and states.get(parent) == "cancelled"
                if not skipped and (on == "success" or not log.was_lost(parent, starts[0])):
                    found.append(f"{child} ran before {parent} had ended (on {on})")
        if set(parents.values()) == {"success"} and all(states.get(parent) == "completed" for parent in parents) \
                and states.get(child) != "completed" and child not in log.operator.cancelled \
                and child not in log.operator.removed:
            found.append(f"{child} is {states.get(child)}, all of its parents have completed")
    for job_id, starts in log.starts.items():
        numbers = [entry["attempt"] for entry in starts]
        if len(numbers) != len(set(numbers)) and job_id not in redriven:
            found.append(f"{job_id} ran twice as the same attempt: {numbers}")
    return found


def check_complaints(log, rules, states, redriven):
    """A judge that finds nothing has to be shown to look: a start too early, one too many, and a job that was forgotten."""
    child = next(child for child, parents in rules.items() if log.starts[child] and "success" in parents.values())
    first = log.starts[child][0]
    log.starts[child][0] = first | {"mono": 0.0}
    assert f"{child} ran before" in str(complaints(log, rules, states, redriven))
    log.starts[child] = [first, first]
    assert child in redriven or f"{child} ran twice" in str(complaints(log, rules, states, redriven))
    log.starts[child] = [first]
    by_hand = set(log.operator.cancelled) | set(log.operator.removed)
    child = next(child for child, parents in rules.items() if child not in by_hand and set(parents.values()) == {"success"}
                 and all(states.get(parent) == "completed" for parent in parents))
    assert f"{child} is waiting" in str(complaints(log, rules, states | {child: "waiting"}, redriven))


def test_children_that_are_added_while_their_parents_end_run_once_and_after_them(fleet):
    start_fleet(fleet)
    clients = [Submitter(f"c{i}", fleet, seed=i) for i in range(SUBMITTERS)]
    operator = Operator(fleet, clients)
    for person in (*clients, operator):
        person.start()
    kills = kill_some(fleet, clients, random.Random(7))
    assert kills > SECONDS / KILL_EVERY_S / 4
    redriven = redrive_the_dead(fleet) | operator.redriven
    jobs = {job["id"]: job for job in fleet.jobs()}
    states = {job_id: job["state"] for job_id, job in jobs.items()}
    rules = {child: parents for client in clients for child, parents in client.rules.items()}
    log = HandlerLog(fleet, operator)
    assert [wrong for client in clients for wrong in client.wrong] == []
    assert complaints(log, rules, states, redriven) == []
    sent = {f"{client.name}-{i}" for client in clients for i in range(1, client.ids + 1)}
    refused = set().union(*(client.refused for client in clients))
    assert set(states) <= sent and sent - set(states) <= refused | set(operator.removed)
    skipped = [job for job in jobs.values() if job["state"] == "cancelled" and job["id"] not in operator.cancelled]
    assert all(job["reason"] == "skipped" and "ParentEnded" in str(job) for job in skipped), skipped[:3]
    print(f"{kills} kills; {len(jobs)} jobs, {len(rules)} of them wait for {sum(map(len, rules.values()))} parents; "
          f"{len(skipped)} skipped, {sum(map(len, log.starts.values()))} starts; "
          f"{len(operator.cancelled)} cancelled and {len(operator.removed)} removed by hand, {len(refused)} refused")
    assert len(rules) > 50 and skipped
    check_complaints(log, rules, states, redriven)


# ---- Many parents of one job ---------------------------------------------------------------------


GROUP = 999  # an array has a thousand jobs at the most
MANY_WORKERS = 6


def test_workers_that_end_parents_of_one_job_do_not_fail_each_other(fleet):
    """All of them write the row of the child: none gives up, so that no parent is run twice."""
    config = CONFIG.format(python=sys.executable, handler=HANDLERS / "flow_handler.py")
    fleet.configure(config.replace("lease: 1s, heartbeat: 300ms, ", ""))  # no lease ends on a loaded machine
    group = [{"task": "step", "id": f"p{i}", "payload": {}} for i in range(GROUP)]
    callback = {"task": "step", "id": "all", "payload": {}, "after": [job["id"] for job in group]}
    assert Client(fleet.serve("--no-work").ready()).ask("POST", "/jobs", group + [callback])[0] == 201
    for _ in range(MANY_WORKERS):
        fleet.work()
    wait_for(lambda: [entry for entry in fleet.seen("end:SUCCESS") if entry["id"] == "all"], "the callback has run")
    ids = [entry["id"] for entry in fleet.seen("start")]
    assert len(ids) == len(set(ids)) == GROUP + 1, [worker.log()[-500:] for worker in fleet.servers]
    start, = [entry["mono"] for entry in fleet.seen("start") if entry["id"] == "all"]
    assert all(entry["mono"] < start for entry in fleet.seen("end:SUCCESS") if entry["id"] != "all")


# ---- Purge in SQL --------------------------------------------------------------------------------


DEAD = 10000
WAIT_FOR_THE_GONE = """SELECT count(*) FROM redrive.edges e WHERE e.outcome = 0
                       AND NOT EXISTS (SELECT FROM redrive.job_states j WHERE j.seq = e.parent)"""


def test_children_that_are_added_during_a_purge_in_sql_do_not_wait_for_what_is_gone(make_server, tmp_path):
    server = make_server("postgres")
    with contextlib.closing(Fleet(tmp_path, server.url)) as fleet:
        fleet.configure()
        add_during_a_purge(server, fleet)


def add_during_a_purge(server, fleet):
    client = Client(fleet.serve().ready())
    for i in range(0, DEAD, 1000):
        jobs = [{"task": "step", "id": f"p{k}", "payload": {}} for k in range(i, i + 1000)]
        assert client.ask("POST", "/jobs", jobs)[0] == 201
    # As if they had all died: nothing of the counts is looked at here.
    server.sql("UPDATE redrive.job_states SET state = 7, finished_ms = updated_ms WHERE state = 2")
    purge = threading.Thread(target=lambda: server.sql("SELECT redrive.purge('0 days')"))
    purge.start()
    answers = []
    while purge.is_alive():
        parent = f"p{DEAD - 1 - len(answers)}"
        answers.append(client.ask("POST", "/jobs", {"task": "step", "id": f"of-{parent}", "after": parent, "payload": {}}))
    purge.join()
    assert len(answers) >= 2 and {status for status, _, _ in answers} <= {201, 400}, answers[-1]
    assert server.sql(WAIT_FOR_THE_GONE) == "0", [status for status, _, _ in answers]
