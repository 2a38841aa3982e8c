"""Jobs that wait for others, in several processes on one store: children are submitted at the very time at which
workers end their parents, and workers and servers are killed at any moment. What the handlers have written down says
whether a job ran before its parents, or was released twice; the database is asked only for what has become of the jobs."""
import collections
import http.client
import pathlib
import random
import sys
import threading
import time

from fleet import Client, Fleet
from serve_kit import wait_for

HERE = pathlib.Path(__file__).resolve().parent
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


class Submitter(threading.Thread):
    """A client: parents, and soon after, while they run or have ended, jobs that wait for them."""

    def __init__(self, name, fleet, seed):
        super().__init__(name=name, daemon=True)
        self.fleet, self.random = fleet, random.Random(seed)
        self.until = time.monotonic() + SECONDS
        self.rules = {}  # child -> {parent: on}
        self.fails = set()
        self.recent = collections.deque(maxlen=12)
        self.ids = 0
        self.client = None
        self.wrong = []

    def connect(self):
        """To a server that listens."""
        up = [server for server in self.fleet.front if server.logged("listening interface=http")]
        return Client(self.random.choice(up)) if up else None

    def send(self, jobs):
        """Until a server has answered: a job of the same id is not taken in twice."""
        while True:
            self.client = self.client or self.connect()
            try:
                status, body, _ = self.client.ask("POST", "/jobs", jobs) if self.client else (503, None, None)
            except (OSError, http.client.HTTPException, ValueError):
                status, self.client = 503, None
            if status in (200, 201):
                return
            if status < 500:
                self.wrong.append((status, body))
                return
            time.sleep(0.02)

    def new(self):
        self.ids += 1
        job = {"task": "step", "id": f"{self.name}-{self.ids}", "payload": {"sleep": self.random.choice((0, 0, 0.005, 0.02))}}
        if self.random.random() < 0.08:
            job["payload"]["fails"] = True
            self.fails.add(job["id"])
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
    fleet.configure(CONFIG.format(python=sys.executable, handler=HERE / "flow_handler.py"))
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
    """Until nothing lives: what failed is mended now, and each generation of jobs that wait may bring further dead."""
    (fleet.dir / "mended").touch()

    def all_ended():
        done = fleet.redrive("dlq", "retry", "--all")
        assert done.returncode == 0, done.stderr
        return not fleet.jobs(*LIVE)

    wait_for(all_ended, lambda: "all jobs end; there are " + str([(job["id"], job["state"]) for job in fleet.jobs(*LIVE)][:20]))


class Witness:
    """What the handlers saw of each job."""

    def __init__(self, fleet):
        self.starts, self.ends = collections.defaultdict(list), collections.defaultdict(list)
        for event, told in (("start", self.starts), ("end:SUCCESS", self.ends), ("end:PERMANENT_FAIL", self.ends)):
            for entry in fleet.seen(event):
                told[entry["id"]].append(entry)

    def has_ended(self, parent, on, before):
        """Whether a parent can have ended as it must before that time."""
        ends = {entry["event"].removeprefix("end:") for entry in self.ends[parent] if entry["mono"] < before}
        lost = sum(entry["mono"] < before for entry in self.starts[parent]) >= DEAD_AFTER
        if on == "success":
            return "SUCCESS" in ends
        return bool(ends) or lost if on == "end" else "PERMANENT_FAIL" in ends or lost


def complaints(witness, rules, states, fails):
    """All that is wrong."""
    found = []
    for child, parents in rules.items():
        starts = witness.starts[child]
        for parent, on in parents.items():
            if starts and not witness.has_ended(parent, on, starts[0]["mono"]):
                skipped = on != "success" and states.get(parent) == "cancelled"
                if not skipped:
                    found.append(f"{child} ran before {parent} had ended (on {on})")
        if set(parents.values()) == {"success"} and all(states.get(parent) == "completed" for parent in parents) \
                and states.get(child) != "completed":
            found.append(f"{child} is {states.get(child)}, all of its parents have completed")
    for job_id, starts in witness.starts.items():
        numbers = [entry["attempt"] for entry in starts]
        if len(numbers) != len(set(numbers)) and job_id not in fails and states.get(job_id) == "completed" \
                and not lost_and_redriven(numbers):
            found.append(f"{job_id} ran twice as the same attempt: {numbers}")
    return found


def check_witness(witness, rules, states, fails):
    """A judge that finds nothing has to be shown to look: a start too early, one too many, and a job that was forgotten."""
    child = next(child for child, parents in rules.items() if witness.starts[child] and "success" in parents.values())
    first = witness.starts[child][0]
    witness.starts[child][0] = first | {"mono": 0.0}
    assert f"{child} ran before" in str(complaints(witness, rules, states, fails))
    witness.starts[child] = [first, first]
    assert child in fails or f"{child} ran twice" in str(complaints(witness, rules, states, fails))
    witness.starts[child] = [first]
    child = next(child for child, parents in rules.items()
                 if set(parents.values()) == {"success"} and all(states[parent] == "completed" for parent in parents))
    assert f"{child} is waiting" in str(complaints(witness, rules, states | {child: "waiting"}, fails))


def lost_and_redriven(numbers):
    """A job whose workers died too often is a dead letter, and begins anew when it is redriven."""
    return 1 in numbers[DEAD_AFTER:] and numbers[:DEAD_AFTER] == list(range(1, DEAD_AFTER + 1))


def test_children_that_are_added_while_their_parents_end_run_once_and_after_them(fleet):
    start_fleet(fleet)
    clients = [Submitter(f"c{i}", fleet, seed=i) for i in range(SUBMITTERS)]
    for client in clients:
        client.start()
    kills = kill_some(fleet, clients, random.Random(7))
    assert kills > SECONDS / KILL_EVERY_S / 4
    redrive_the_dead(fleet)
    jobs = {job["id"]: job for job in fleet.jobs()}
    states = {job_id: job["state"] for job_id, job in jobs.items()}
    rules = {child: parents for client in clients for child, parents in client.rules.items()}
    fails = set().union(*(client.fails for client in clients))
    witness = Witness(fleet)
    assert [wrong for client in clients for wrong in client.wrong] == []
    assert complaints(witness, rules, states, fails) == []
    assert set(states) == {f"{client.name}-{i}" for client in clients for i in range(1, client.ids + 1)}
    skipped = [job for job in jobs.values() if job["state"] == "cancelled"]
    assert all(job["reason"] == "skipped" and "ParentEnded" in str(job) for job in skipped), skipped[:3]
    print(f"{kills} kills; {len(jobs)} jobs, {len(rules)} of them wait for {sum(map(len, rules.values()))} parents; "
          f"{len(skipped)} skipped, {sum(map(len, witness.starts.values()))} starts")
    assert len(rules) > 50 and skipped
    check_witness(witness, rules, states, fails)


# ---- Purge in SQL --------------------------------------------------------------------------------


DEAD = 10000
WAIT_FOR_THE_GONE = """SELECT count(*) FROM redrive.edges e WHERE e.outcome = 0
                       AND NOT EXISTS (SELECT FROM redrive.job_states j WHERE j.seq = e.parent)"""


def test_children_that_are_added_during_a_purge_in_sql_do_not_wait_for_what_is_gone(make_server, tmp_path):
    server = make_server("postgres")
    fleet = Fleet(tmp_path, server.url)
    fleet.configure()
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
    fleet.close()
