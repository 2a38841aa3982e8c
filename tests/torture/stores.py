"""stores.py - what a store says of its jobs, for the rig and for the history that is judged.

`AnyStore` asks through the program, and so works with every kind of store. `SqliteStore` and
`PostgresStore` read the tables themselves, so that the program does not speak for itself where that can be
avoided.
"""
import datetime
import http.client
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import time
import urllib.parse

from tests.kit.servers import find_postgres, redis_reply

LIVE = ("scheduled", "retrying", "queued", "running", "parked")
LIMIT_S = 120


def open_store(url, command):
    """`command` is the program with its configuration."""
    kinds = {"sqlite": SqliteStore, "postgres": PostgresStore, "redis": RedisStore}
    return kinds.get(url.split(":", maxsplit=1)[0], AnyStore)(url, command)


def history_of(store, written):
    """What was written down (tests/judge/events.py), and what the store says in the end."""
    jobs, now = store.jobs(), time.monotonic()
    said = [{"event": "final", "id": job["id"], "mono": now, **{name: job[name] for name in ("state", "attempts", "max_attempts")}}
            for job in jobs]
    said += [{"event": "record", "id": job_id, "mono": now, "attempt": row["number"], "outcome": row["outcome"], "error": row["error"],
              "ended": row["ended_ms"] / 1000, "next": row["next_ms"] / 1000}
             for job_id, rows in store.attempts([job["id"] for job in jobs]).items() for row in rows]
    figures, damage = store.figures(), store.health()
    said.append({"event": "figures", "id": None, "mono": now, "sizes": figures["sizes"], "counters": figures["counters"]})
    return written + said + ([{"event": "damaged", "id": None, "mono": now, "text": damage}] if damage else [])


def _ms(text):
    if text is None:
        return 0
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


class AnyStore:
    kind = None

    def __init__(self, url, command):
        self.url = url
        self.command = [*command, "--store", url]

    def _run(self, *words):
        return subprocess.run([*self.command, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=LIMIT_S)

    def _ask(self, *words):
        done = self._run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self, states=()):
        """A dict for each job; of all states unless some are named. None as long as the first process has
        not made the store."""
        named = ["--state", ",".join(states)] if states else []
        done = self._run("jobs", "export", *named)
        if done.returncode != 0 and "there is no store" in done.stderr:
            return []
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def live(self):
        return self.jobs(LIVE)

    def attempts(self, ids):
        """For each job what its history says of its attempts, oldest first; through the HTTP interface of
        a server that does nothing else, because there may be thousands."""
        server = subprocess.Popen([*self.command, "serve", "--no-work", "--listen", "127.0.0.1:0", "--faktory", "off",
                                   "--log-level", "info"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            port = None
            for line in server.stderr:
                found = re.search(r"listening interface=http address=\S+:(\d+)", line)
                port = int(found[1]) if found else port
                if port:
                    break
            assert port, "the server for reading has not started"
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
            return {job_id: self._history(connection, job_id) for job_id in ids}
        finally:
            server.terminate()
            server.communicate(timeout=LIMIT_S)

    @staticmethod
    def _history(connection, job_id):
        connection.request("GET", "/jobs/" + urllib.parse.quote(job_id, safe=""))
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status == 200, body
        return [{"number": row["number"] or 0, "outcome": row["outcome"], "next_ms": _ms(row["process_after"]),
                 "ended_ms": _ms(row["ended_at"]),
                 "error": (row["error"] or {}).get("type")}
                for row in body["history"]]

    def figures(self):
        """What everybody is told: sizes and counters."""
        return json.loads(self._ask("stats", "--json"))

    def health(self):
        """What is wrong with the store itself; None if nothing is."""
        done = subprocess.run([*self.command, "doctor", "--json"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=LIMIT_S)
        said = {item["check"]: item for item in json.loads(done.stdout)["items"]}
        return None if said["integrity"]["status"] == "ok" else said["integrity"]["text"]


class SqliteStore(AnyStore):
    kind = "sqlite"

    def __init__(self, url, command):
        super().__init__(url, command)
        self.path = url.removeprefix("sqlite:")

    def _rows(self, query):
        """None as long as the first process has not made the store."""
        if not os.path.exists(self.path):
            return []
        db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30)
        try:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(query)]
        except sqlite3.OperationalError:
            if db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'job_states'").fetchone()[0]:
                raise
            return []
        finally:
            db.close()

    def jobs(self, states=()):
        named = ",".join(f"'{state}'" for state in states)
        return self._rows("""SELECT s.id, l.task, l.queue, n.name AS state, j.attempts, s.max_attempts, j.worker,
                                    s.unique_key
                             FROM job_states j JOIN specs s ON s.seq = j.seq JOIN partitions l ON l.partition_id = j.partition_id
                             JOIN states n ON n.state = j.state""" + (f" WHERE n.name IN ({named})" if named else ""))

    def attempts(self, ids):
        by_job = {job_id: [] for job_id in ids}
        for row in self._rows("""SELECT s.id, h.number, n.name AS outcome, h.next_ms, h.ended_ms, h.error_type AS error
                                 FROM history h JOIN specs s ON s.seq = h.seq
                                 JOIN states n ON n.state = h.outcome ORDER BY h.history_id"""):
            by_job.setdefault(row.pop("id"), []).append(row)
        return by_job

    def health(self):
        said = self._rows("PRAGMA integrity_check")[0]["integrity_check"]
        return None if said == "ok" else said

    # ---- For those who tamper with it ------------------------------------------------------------

    def change(self, statement):
        """Gives how many rows it has changed."""
        db = sqlite3.connect(self.path, timeout=30)
        try:
            with db:
                return db.execute(statement).rowcount
        finally:
            db.close()

    def copy(self, path):
        """Of a store that nobody writes to."""
        for companion in ("", "-wal"):
            try:
                shutil.copyfile(self.path + companion, str(path) + companion)
            except FileNotFoundError:
                pass


class PostgresStore(AnyStore):
    kind = "postgres"

    def _sql(self, statement):
        """What psql prints, without headings."""
        done = subprocess.run([find_postgres("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", self.url],
                              input=statement, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _rows(self, query):
        """None as long as the first process has not made the store."""
        if self._sql("SELECT to_regclass('redrive.job_states') IS NULL").strip() == "t":
            return []
        return [json.loads(line) for line in self._sql(f"SELECT row_to_json(r) FROM ({query}) r").splitlines()]

    def jobs(self, states=()):
        named = ",".join(f"'{state}'" for state in states)
        return self._rows("""SELECT s.id, l.task, l.queue, n.name AS state, j.attempts, s.max_attempts, j.worker,
                                    s.unique_key
                             FROM redrive.job_states j JOIN redrive.specs s ON s.seq = j.seq
                             JOIN redrive.partitions l ON l.partition_id = j.partition_id
                             JOIN redrive.states n ON n.state = j.state""" + (f" WHERE n.name IN ({named})" if named else ""))

    def attempts(self, ids):
        by_job = {job_id: [] for job_id in ids}
        for row in self._rows("""SELECT s.id, h.number, n.name AS outcome, h.next_ms, h.ended_ms, h.error_type AS error
                                 FROM redrive.history h JOIN redrive.specs s ON s.seq = h.seq
                                 JOIN redrive.states n ON n.state = h.outcome ORDER BY h.seq, h.n"""):
            by_job.setdefault(row.pop("id"), []).append(row)
        return by_job

    # ---- For those who tamper with it ------------------------------------------------------------

    def change(self, statement):
        return int(self._sql(f"WITH changed AS ({statement} RETURNING 1) SELECT count(*) FROM changed"))


class RedisStore(AnyStore):
    kind = "redis"

    def __init__(self, url, command):
        super().__init__(url, command)
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.database = int(parts.path.lstrip("/") or 0)

    # ---- For those who tamper with it ------------------------------------------------------------

    def call(self, *words):
        with socket.create_connection(self.address, timeout=LIMIT_S) as s:
            redis_reply(s, "SELECT", self.database)
            return redis_reply(s, *words)

    def change(self, script):
        """A Lua script that gives how much it has changed."""
        return int(self.call("EVAL", script, 0))
