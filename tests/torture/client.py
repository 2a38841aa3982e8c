"""client.py http|faktory NAME LOG HOLD PORT…: a client of servers that may be gone at any moment.

One thread submits and another works, each over a connection of its own to one of the ports. When
the server goes, they come back to whichever is there, and repeat what was not answered: an end always,
a submit every other time, as people do. All of it is written down: what was asked before it is asked,
what was answered before anything else is done. Nothing is submitted while the file HOLD is there; the file
HOLD.pace may say how many seconds there are from one submit to the next, on average, by kind of client.

Jobs go to four queues: `remote`, which HTTP clients work, `ordered`, which they work too and where priorities differ,
`faktory`, which Faktory clients work, and `work`, which the program runs itself. Some jobs have a time lock, and some
handlers send a heartbeat before they go on.
"""
import datetime
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
import traceback

from tests.handlers.fate import fate, status
from tests.judge.events import Log, digest

# Nothing takes that long; what does, hangs.
LIMIT_S = 60

LEASE_S = 1
RESERVE_S = 60  # of a Faktory job
LOCK_S = 0.4
HELD_S = 0.2  # so often a client that is held back says so
BEAT_S = 15  # so often a Faktory worker says that it is there; one that has not for a minute is cut off


class Gone(Exception):
    """The server went away, or cannot do it now: nobody knows what has become of the question."""


class HttpLink:
    def __init__(self, ports):
        self.ports = ports
        self.connection = None

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def ask(self, path, body):
        """Status and body."""
        try:
            if not self.connection:
                self.connection = http.client.HTTPConnection("127.0.0.1", random.choice(self.ports), timeout=LIMIT_S)
            self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Gone from error
        if answer.status == 503:
            raise Gone(text)
        return answer.status, json.loads(text)


class FaktoryLink:
    def __init__(self, ports, wid=None):
        self.ports = ports
        self.hello = {"v": 2, **({"wid": wid, "pid": os.getpid(), "labels": [], "hostname": "rig"} if wid else {})}
        self.stream = None

    def close(self):
        if self.stream:
            self.stream.close()
        self.stream = None

    def _line(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError
        return line[:-2].decode()

    def _send(self, line):
        self.stream.write(line.encode() + b"\r\n")
        self.stream.flush()

    def _connect(self):
        connection = socket.create_connection(("127.0.0.1", random.choice(self.ports)), timeout=LIMIT_S)
        with connection:
            self.stream = connection.makefile("rwb")
        assert self._line().startswith("+HI")
        self._send("HELLO " + json.dumps(self.hello))
        assert self._line() == "+OK"

    def ask(self, verb, words):
        """The reply as it was written; of a bulk its contents, None for nil."""
        try:
            if not self.stream:
                self._connect()
            self._send(f"{verb} {words}")
            reply = self._line()
            if reply == "$-1":
                return None
            if reply.startswith("-") and "not found" not in reply:
                raise Gone(reply)  # the store cannot be reached now
            if not reply.startswith("$"):
                return reply
            text = self.stream.read(int(reply[1:]) + 2)
            if not text.endswith(b"\r\n"):
                raise ConnectionResetError
            return text[:-2].decode()
        except OSError as error:
            # What could not be sent would be tried again by a close.
            try:
                self.close()
            except OSError:
                self.stream = None
            raise Gone from error


class Client:
    """What the two have in common; `interface` is the word for it in the log."""

    interface = None

    def __init__(self, name, log):
        self.name = name
        self.log = Log(log)
        self.random = random.Random(name)
        self.n = 0

    def note(self, event, job_id, **facts):
        self.log.note(event, job_id, interface=self.interface, by=self.name, **facts)

    def new_job(self):
        """Id and payload of the next one."""
        self.n += 1
        job_id = f"{self.name}-{self.n:06}"
        payload = {"number": self.n, "text": "x" * self.random.randrange(200)}
        return job_id, payload

    def note_submit(self, job_id, payload, **facts):
        self.note("submit", job_id, payload=digest(payload), **facts)

    def lock(self):
        """Seconds that a new job has to wait: most of them none."""
        return LOCK_S if self.random.random() < 0.1 else 0

    def submit(self, ids, ask):
        """Until it is answered, or given up."""
        while True:
            try:
                ask()
                break
            except Gone:
                time.sleep(0.01)
                if self.random.random() < 0.5:
                    return
        for job_id in ids:
            self.note("acknowledged", job_id)

    @staticmethod
    def insist(ask):
        """Until it is answered."""
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                return ask()
            except Gone:
                assert time.monotonic() < end, "no server came back"
                time.sleep(0.01)


class HttpClient(Client):
    interface = "http"

    def __init__(self, name, log, ports):
        super().__init__(name, log)
        self.producer = HttpLink(ports)
        self.worker = HttpLink(ports)

    def submit_some(self):
        many = self.random.random() < 0.2
        jobs = [self.new_job() for _ in range(self.random.randrange(2, 10) if many else 1)]
        ids = [job_id for job_id, _ in jobs]
        body = []
        for job_id, payload in jobs:
            line = self.random.choice(("remote", "remote", "remote", "work", "work", "faktory", "ordered"))
            body.append({"id": job_id, "task": line, "queue": line, "payload": payload})
            facts = {}
            if line == "ordered":
                body[-1]["priority"] = self.random.randrange(-3, 4)
                facts = {"queue": line, "priority": body[-1]["priority"]}
            if lock := self.lock():
                body[-1]["delay"] = f"{lock * 1000:.0f}ms"
                facts["not_before"] = time.monotonic() + lock
            self.note_submit(job_id, payload, **facts)

        def ask():
            answered, said = self.producer.ask("/jobs", body if many else body[0])
            assert answered == 201, said
            assert [item["id"] for item in (said["items"] if many else [said])] == ids, said

        self.submit(ids, ask)

    def work_some(self):
        queues = ["remote", "ordered"] if self.random.random() < 0.5 else ["ordered", "remote"]
        self.work_one_claim(queues, self.random.randrange(1, 6), 0.3)

    def work_one_claim(self, queues, n, wait, lease=LEASE_S):
        asked = time.monotonic()
        try:
            answered, said = self.worker.ask("/claim", {"queues": queues, "n": n, "worker": self.name, "wait": wait, "lease": lease})
        except Gone:
            time.sleep(0.01)
            return 0
        assert answered == 200, said
        jobs = said["jobs"]
        for job in jobs:
            self.note("start", job["id"], attempt=job["attempt"], token=job["token"], payload=self.payload_of(job),
                      claimed=asked, lease=lease)
        self.work_jobs(jobs)
        return len(jobs)

    def work_jobs(self, jobs):
        items = []
        for job in jobs:
            number = fate(job["id"], job["attempt"])
            if number < 3:
                continue  # is forgotten, and comes back with the end of its lease
            if 45 <= number < 47:
                self.extend(job)
            items.append({"id": job["id"], "token": job["token"], "status": status(number)})
            self.note("end:" + items[-1]["status"], job["id"], attempt=job["attempt"])
        if items:
            attempts = {job["id"]: job["attempt"] for job in jobs}
            self.settle(items, attempts)

    def extend(self, job):
        """A heartbeat, and some work after it."""
        asked = time.monotonic()
        try:
            answered, said = self.worker.ask("/extend", {"items": [{"id": job["id"], "token": job["token"], "lease": LEASE_S}]})
        except Gone:
            return
        assert answered == 200, said
        if said["items"][0]["status"] == 200:
            self.note("extended", job["id"], attempt=job["attempt"], asked=asked, lease=LEASE_S)
            time.sleep(LEASE_S / 2)

    def settle(self, items, attempts):
        answered, said = self.insist(lambda: self.worker.ask("/settle", {"items": items}))
        assert answered == 200, said
        for item, answer in zip(items, said["items"], strict=True):
            assert answer["id"] == item["id"] and answer["status"] in (200, 404, 409), answer
            self.note("settled" if answer["status"] == 200 else "refused", item["id"], attempt=attempts[item["id"]],
                      status=item["status"], token=item["token"], state=answer.get("state"))

    @staticmethod
    def payload_of(job):
        """One that came in through the other interface has its payload in its arguments."""
        payload = job["payload"]
        return digest(payload["args"][0] if "jid" in payload else payload)


class SlowClient(HttpClient):
    """Works longer than its lease lasts, without a heartbeat: when it answers, another one of its kind has the job."""

    def submit_some(self):
        job_id, payload = self.new_job()
        self.note_submit(job_id, payload)

        def ask():
            answered, said = self.producer.ask("/jobs", {"id": job_id, "task": "ordered", "queue": "slow", "payload": payload})
            assert answered == 201, said

        self.submit([job_id], ask)
        time.sleep(2 * LEASE_S)

    def work_some(self):
        self.work_one_claim(["slow"], 1, 0.3)

    def work_jobs(self, jobs):
        if jobs:
            time.sleep(1.4 * LEASE_S)
        items = [{"id": job["id"], "token": job["token"], "status": "SUCCESS"} for job in jobs]
        for job in jobs:
            self.note("end:SUCCESS", job["id"], attempt=job["attempt"])
        if items:
            self.settle(items, {job["id"]: job["attempt"] for job in jobs})


class FaktoryClient(Client):
    interface = "faktory"

    def __init__(self, name, log, ports):
        super().__init__(name, log)
        self.producer = FaktoryLink(ports)
        self.worker = FaktoryLink(ports, wid=name)
        self.beat_due = time.monotonic() + BEAT_S

    def submit_some(self):
        job_id, payload = self.new_job()
        line = self.random.choice(("faktory", "faktory", "remote"))
        job = {"jid": job_id, "jobtype": line, "queue": line, "args": [payload], "reserve_for": RESERVE_S}
        facts = {}
        if lock := self.lock():
            due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=lock)
            facts["not_before"] = time.monotonic() + (due - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
            job["at"] = due.isoformat(timespec="microseconds")
        self.note_submit(job_id, payload, **facts)

        def ask():
            said = self.producer.ask("PUSH", json.dumps(job))
            assert said == "+OK", said

        self.submit([job_id], ask)

    def work_some(self):
        asked = time.monotonic()
        if asked >= self.beat_due:
            self.beat()
            return
        try:
            text = self.worker.ask("FETCH", "faktory")
        except Gone:
            time.sleep(0.01)
            return
        if text is None:
            self.beat()
            return
        assert text.startswith("{"), text
        job = json.loads(text)
        attempt = job["failure"]["retry_count"] + 2 if "failure" in job else 1
        self.note("start", job["jid"], attempt=attempt, payload=digest(job["args"][0]), claimed=asked, lease=RESERVE_S)
        self.end(job["jid"], attempt, status(fate(job["jid"], attempt)))

    def beat(self):
        """A server that stops waits for its workers to go, and tells them so in answer to a BEAT. The next
        connection may be to another server."""
        self.beat_due = time.monotonic() + BEAT_S
        try:
            if self.worker.ask("BEAT", json.dumps({"wid": self.name})) != "+OK":
                self.worker.close()
        except Gone:
            time.sleep(0.01)

    def ack(self, job_id):
        return self.insist(lambda: self.worker.ask("ACK", json.dumps({"jid": job_id})))

    def end(self, job_id, attempt, how):
        self.note("end:" + how, job_id, attempt=attempt)
        if how == "SUCCESS":
            said = self.ack(job_id)
        else:
            fail = json.dumps({"jid": job_id, "errtype": "Failed", "message": how, "backtrace": ["here"]})
            said = self.insist(lambda: self.worker.ask("FAIL", fail))
        # A FAIL that is repeated may find that the first one was heard.
        assert said == "+OK" or (how != "SUCCESS" and "not found" in said), said
        self.note("settled" if said == "+OK" else "refused", job_id, attempt=attempt, status=how)


def forever(act):
    try:
        while True:
            act()
    except BaseException:  # the other thread must not go on alone
        traceback.print_exc()
        os._exit(1)


def pace_of(kind, path):
    """Seconds; None: as fast as it goes."""
    try:
        with open(path, encoding="ascii") as pace:
            return json.load(pace)[kind]
    except (FileNotFoundError, ValueError):  # there is none, or it is being written
        return None


def main():
    kind, name, log, hold, *ports = sys.argv[1:]
    client = {"http": HttpClient, "slow": SlowClient, "faktory": FaktoryClient}[kind](name, log, [int(port) for port in ports])
    held_due = 0.0

    def submit():
        nonlocal held_due
        if os.path.exists(hold):
            if time.monotonic() >= held_due:
                client.note("held", None)
                held_due = time.monotonic() + HELD_S
            time.sleep(0.02)
        else:
            pace, began = pace_of(kind, hold + ".pace"), time.monotonic()
            client.submit_some()
            took = time.monotonic() - began if pace else 0
            time.sleep(max(0, client.random.uniform(0, 2 * (pace or 0.005)) - took))

    threading.Thread(target=forever, args=(submit,), daemon=True).start()
    forever(client.work_some)


if __name__ == "__main__":
    main()
