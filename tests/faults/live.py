"""Servers whose calls fail: at their start, while they read their configuration again, and while clients submit, claim,
settle and redrive over HTTP and Faktory. One server lives through many faults; at the end of its life every job that was
acknowledged must be there, and come to its end."""
import contextlib
import http.client
import json
import re
import signal
import subprocess
import time

from tests.faults import places
from tests.faults.paths import Outcome, judge_death, judge_message
from tests.kit.failing import Failing
from tests.kit.faktory import FaktoryClient, FaktoryError
from tests.kit.ports import free_ports
from tests.kit.waiting import wait_for

#: What a client waits for an answer of a server in trouble.
PATIENCE_S = 1.5
#: What a server in trouble has to start, or to end.
START_S = 3
TROUBLE = (OSError, EOFError, http.client.HTTPException, ValueError, AssertionError, FaktoryError)


class FailingServer:
    """`redrive serve` in a folder of its own; its ports are known before it runs."""

    def __init__(self, spots, failing=None):
        self.folder = spots.copy(places.make_busy)
        self.http, self.faktory = free_ports(2)
        self.failing = failing or Failing(self.folder / "faults")
        self.trace_path = self.folder / "trace"
        self.configure()
        self.process = None

    def configure(self, more=""):
        text = places.configuration()
        for port in (self.http, self.faktory):
            text = text.replace("127.0.0.1:0", f"127.0.0.1:{port}", 1)
        (self.folder / "redrive.yaml").write_text(text + more)

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([places.BINARY, "serve"], cwd=self.folder, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log,
                                            env=places.environment(**self.failing.env(self.trace_path)))
        return self

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def trace(self):
        return self.trace_path.read_text(errors="replace") if self.trace_path.exists() else ""

    def is_ready(self):
        with contextlib.suppress(*TROUBLE):
            return self.ask("GET", "/ready")[0] == 200
        return False

    def ready(self):
        return wait_for(lambda: self.process.poll() is not None or self.is_ready(), self.log, 60)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=PATIENCE_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def client(self):
        return FaktoryClient(self.faktory, limit_s=PATIENCE_S, wid="w1", hostname="test", pid=1, labels=[])

    def stop(self):
        """Its exit status; None: it did not end."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(places.LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


# ---- A start ---------------------------------------------------------------------------------------


class StartPath:
    name = "serve-start"

    def begin(self, root):
        return StartSession(places.Places(root))


class StartSession:
    def __init__(self, spots):
        self.spots = spots

    def counts(self):
        server = FailingServer(self.spots).start()
        server.ready()
        counts = server.failing.counts()
        server.stop()
        return counts

    def attempt(self, case):
        server = FailingServer(self.spots)
        server.failing.set(kind=case.kind, at=case.at, lasting=case.lasting)
        server.start()
        outcome = Outcome(case)
        until_s = time.monotonic() + START_S
        while server.process.poll() is None and not server.is_ready() and time.monotonic() < until_s:
            time.sleep(0.01)
        outcome.hit = server.failing.clear() > 0
        outcome.trace = server.trace()
        if server.process.poll() is None:
            self.judge_running(outcome, server)
        else:
            outcome.refused = True
            if not judge_death(outcome, server.process.returncode, server.log()):
                if server.process.returncode != 1:
                    outcome.complaints.append(f"exit status {server.process.returncode}: {server.log()[-500:]}")
                judge_message(outcome, server.log())
        self.judge_store(outcome, server)
        server.failing.close()
        self.spots.drop(server.folder)
        return outcome, 0, lambda: None

    @staticmethod
    def judge_running(outcome, server):
        """One that has started, whatever failed, serves now."""
        def submit():
            with contextlib.suppress(*TROUBLE):
                return server.ask("POST", "/v1/jobs", {"task": "good", "id": "new-1"})[0] in (200, 201)
            return server.process.poll() is not None

        try:
            wait_for(submit, "a submit", 10)
        except AssertionError:
            if server.process.poll() is None:
                outcome.complaints.append(f"started, and takes no job: {server.log()[-800:]}")
        code = server.stop() if server.process.poll() is None else server.process.returncode
        if code is None:
            outcome.complaints.append("did not stop")
        elif not judge_death(outcome, code, server.log()) and code != 0:
            outcome.complaints.append(f"exit status {code} at the end: {server.log()[-500:]}")
        if code == 0 and "new-1" not in places.states(server.folder):
            outcome.complaints.append("an acknowledged job is not there")

    @staticmethod
    def judge_store(outcome, server):
        damage = places.damage(server.folder)
        if damage:
            outcome.complaints.append(f"the store is damaged: {damage}")
        elif len(set(places.states(server.folder)) - {"new-1"}) != 7:
            outcome.complaints.append(f"jobs are missing: {places.states(server.folder)}")

    def end(self):
        return []


# ---- A server that lives through faults ---------------------------------------------------------------


class LivePath:
    """`act(server, number, acknowledged)` is what clients do; it notes in a dict what was answered, by job. `after(server)`
    must succeed once nothing fails any more."""

    def __init__(self, name, act, after=None):
        self.name, self.act, self.after = name, act, after

    def begin(self, root):
        return LiveSession(self, places.Places(root))


class LiveSession:
    def __init__(self, path, spots):
        self.path, self.spots = path, spots
        self.number, self.acknowledged = 0, {}
        self.server, self.outcomes = None, []
        self.start()

    def start(self):
        self.server = FailingServer(self.spots).start()
        self.server.ready()
        self.acknowledged = {}

    def counts(self):
        """Of the third time: the first ones fill caches."""
        for _ in range(3):
            self.act()
        return self.server.failing.counts()

    def act(self, case=None):
        self.number += 1
        if case:
            self.server.failing.set(kind=case.kind, at=case.at, lasting=case.lasting)
        else:
            self.server.failing.set()
        with contextlib.suppress(*TROUBLE):
            self.path.act(self.server, self.number, self.acknowledged)

    def attempt(self, case):
        self.server.trace_path.unlink(missing_ok=True)
        self.act(case)
        outcome = Outcome(case, hit=self.server.failing.clear() > 0)
        try:
            self.server.ready()
            if self.path.after:
                self.path.after(self.server)
        except AssertionError:
            outcome.complaints.append(f"does not serve any more: {self.server.log()[-800:]}")
        outcome.trace = self.server.trace()
        if outcome.complaints or self.server.process.poll() is not None:
            self.replace(outcome)
        return outcome, 0, lambda: None

    def replace(self, outcome):
        """A server that has ended, or must: its jobs are looked for, and a new one takes its place."""
        code = self.server.process.poll()
        if code is None:
            self.server.process.kill()
            self.server.process.wait()
        elif not judge_death(outcome, code, self.server.log()):
            outcome.complaints.append(f"ended by itself with {code}: {self.server.log()[-800:]}")
        self.look_for_jobs(outcome)
        self.start()

    def look_for_jobs(self, outcome):
        damage = places.damage(self.server.folder)
        if damage:
            outcome.complaints.append(f"the store is damaged: {damage}")
            return
        found = places.states(self.server.folder)
        for job, least in self.acknowledged.items():
            if found.get(job) not in AT_LEAST[least]:
                outcome.complaints.append(f"{job} was {least}, and is {found.get(job)}")

    def end(self):
        outcome = Outcome(f"{self.path.name}: at the end of {self.number} faults")
        self.server.failing.set()
        if self.server.process.poll() is None:
            self.drain(outcome)
            code = self.server.stop()
            if code is None:
                outcome.complaints.append("did not stop")
            elif not judge_death(outcome, code, self.server.log()) and code != 0:
                outcome.complaints.append(f"exit status {code} at the end: {self.server.log()[-800:]}")
        self.look_for_jobs(outcome)
        return [outcome] if outcome.complaints else []

    def drain(self, outcome):
        """Every job that is left is worked off, but for those that a Faktory client has been given and not heard of: it
        has them for half an hour."""
        def left():
            return {job: state for job, state in places.states(self.server.folder).items()
                    if state not in ENDED and job != "later-1" and not (job.startswith("faktory-") and state == "running")}

        def is_over():
            with contextlib.suppress(*TROUBLE):
                claimed = self.server.ask("POST", "/v1/claim", {"queues": ["remote"], "n": 100, "worker": "last"})[1]["jobs"]
                items = [{"id": job["id"], "token": job["token"], "status": "SUCCESS"} for job in claimed]
                if items:
                    self.server.ask("POST", "/v1/settle", {"items": items})
            return not left()

        try:
            wait_for(is_over, "all jobs to end", 30)
        except AssertionError:
            outcome.complaints.append(f"jobs do not end: {left()} {self.server.log()[-500:]}")


ENDED = ("completed", "dead_letter", "failed")  # failed: a job of Faktory without retries
#: Where a job may be once this was acknowledged.
ANYWHERE = ("queued", "running", "retrying", *ENDED)
AT_LEAST = {"submitted": ANYWHERE, "dead": ANYWHERE, "redriven": ANYWHERE, "completed": ("completed",)}


def live_by_rest(server, number, acknowledged):
    """Submit, claim, fail for good, redrive, claim, succeed."""
    job = f"rest-{number}"

    def step(path, body, note=None):
        status, said = server.ask("POST", path, body)
        if status not in (200, 201, 202):
            raise ValueError(said)
        if note:
            acknowledged[job] = note
        return said

    def claim():
        while True:
            claimed = step("/v1/claim", {"queues": ["remote"], "n": 1, "worker": "w1"})["jobs"][0]
            if claimed["id"] == job:
                return claimed["token"]
            step("/v1/settle", {"items": [{"id": claimed["id"], "token": claimed["token"], "status": "SUCCESS"}]})

    def settle(token, status, note):
        said = step("/v1/settle", {"items": [{"id": job, "token": token, "status": status}]})
        if said["items"][0]["status"] == 200:
            acknowledged[job] = note

    step("/v1/jobs", {"task": "remote", "id": job}, "submitted")
    settle(claim(), "PERMANENT_FAIL", "dead")
    step(f"/v1/retry/dead-letters/by-id/{job}/retry", {}, "redriven")
    settle(claim(), "SUCCESS", "completed")


def live_by_faktory(server, number, acknowledged):
    """Push, fetch, fail, and push, fetch and acknowledge another."""
    job, other = f"faktory-{number}", f"faktory-{number}-b"
    client = server.client()
    try:
        client.push(job, "remote", queue="remote", retry=0)
        acknowledged[job] = "submitted"
        while (fetched := client.fetch("remote"))["jid"] != job:
            client.ack(fetched["jid"])
        client.fail(job)
        client.push(other, "remote", queue="remote")
        acknowledged[other] = "submitted"
        while (fetched := client.fetch("remote"))["jid"] != other:
            client.ack(fetched["jid"])
        client.ack(other)
        acknowledged[other] = "completed"
    finally:
        client.socket.close()


def answers(server):
    return len(re.findall(r"\b(?:reloaded|reload_refused)\b", server.log()))


def reload(server, number, acknowledged):
    """The configuration is read anew, or refused."""
    del acknowledged
    before = answers(server)
    server.configure(f"\nretention: {{completed: {number}h}}\n")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: answers(server) > before or server.process.poll() is not None, "an answer", PATIENCE_S)


def reload_again(server):
    """Taken for sure: the file is good."""
    before = len(re.findall(r"\breloaded\b", server.log()))
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: len(re.findall(r"\breloaded\b", server.log())) > before or server.process.poll() is not None,
             "it reloads again", 10)


SERVERS = (StartPath(), LivePath("serve-rest", live_by_rest), LivePath("serve-faktory", live_by_faktory),
           LivePath("serve-reload", reload, reload_again))
