"""rig.py - workers that are killed, stopped and started again, on one store.

Used by test_torture.py (a few kills) and by `make torture` (hundreds):

    tests/torture/rig.py [--kills 500] [--of work|batch] [--seed N] [--sabotage KIND]

Nothing but SIGKILL, SIGSTOP and SIGCONT is done to processes, and only to those that the rig itself
has started. With --sabotage somebody tampers with the store between two kills; the rig is worth
something only if it notices.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from evidence import Evidence, complaints  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = pathlib.Path(os.environ.get("REDRIVE_BIN", ROOT / "build" / "redrive")).resolve()

LIVE_STATES = "(SELECT state FROM states WHERE name IN ('scheduled','retrying','queued','running','parked'))"

CONFIG = """\
store: sqlite:{place}/jobs.db
log: {{level: "off"}}
tasks:
  work:
    run: {{stream: [{python}, {handler}, {place}/effects.log], processes: 3, timeout: 10s}}
    lease: 1s
    heartbeat: 300ms
    retry: {{strategy: fixed, initial_delay: 200ms, min_delay: 200ms, jitter: none, max_attempts: 5,
             total_timeout: 0}}
    breaker: {{failure_threshold: 8, recovery_timeout: 300ms}}
"""

SABOTAGE = {
    # A completed job disappears.
    "lose": "DELETE FROM jobs WHERE seq = (SELECT min(seq) FROM jobs WHERE state = 5)",
    # Completed jobs are run once more.
    "twice": """UPDATE jobs SET state = 2, attempts = 0, rank = line_id << 32 | 2147483647 -
                (SELECT priority FROM specs WHERE specs.seq = jobs.seq) WHERE state = 5""",
    # The time locks of all retries are opened.
    "early": "UPDATE jobs SET process_after_ms = 1, rank = 1 WHERE state = 1",
    # Every retry has its attempts back.
    "extra": "UPDATE jobs SET attempts = attempts - 1 WHERE state = 1 AND attempts > 1",
    # A job that has never run is called completed.
    "phantom": """UPDATE jobs SET state = 5, attempts = 1, started_ms = updated_ms, rank = updated_ms
                  WHERE seq = (SELECT max(seq) FROM jobs WHERE state = 2 AND attempts = 0)""",
}


class Rig:
    def __init__(self, seed, place=None, log=print):
        self.random = random.Random(seed)
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="redrive-torture-", dir=place))
        self.config = self.place / "redrive.yaml"
        self.store = self.place / "jobs.db"
        self.config.write_text(CONFIG.format(place=self.place, python=sys.executable, handler=HERE / "handler.py"))
        self.processes = []
        self.acknowledged = []
        self.payloads = {}
        self.kills = 0
        self.stops = 0
        self.say = log

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.place, ignore_errors=True)

    # ---- Processes ---------------------------------------------------------------------------

    # What the rig is told by the environment is not meant for the program.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REDRIVE_")}

    def command(self, *words):
        return [str(BINARY), "--config", str(self.config), *words]

    def start(self, *words):
        process = subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, env=self.environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def forget(self, process):
        process.stderr.close()
        self.processes.remove(process)

    def kill(self, process):
        """SIGKILL; one that has ended by itself is not counted, and must have ended well."""
        if process.poll() is None:
            process.kill()
            process.wait()
            self.kills += 1
        elif process.returncode not in (0, 3):
            raise AssertionError(f"ended by itself with {process.returncode}: {process.stderr.read().decode()}")
        self.forget(process)

    def stop_for_a_while(self, process):
        """Longer than its lease, so that somebody else has its jobs when it wakes up."""
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.3)
        os.kill(process.pid, signal.SIGCONT)
        self.stops += 1

    # ---- What there is to do -----------------------------------------------------------------

    def payload(self, number):
        payload = {"number": number, "text": "x" * self.random.randrange(200)}
        return payload, hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()

    def submit(self, n):
        """Through the command line, by ids of our own; what it acknowledges must never be lost."""
        for number in range(len(self.acknowledged), len(self.acknowledged) + n):
            job_id = f"job-{number}"
            payload, digest = self.payload(number)
            result = subprocess.run(self.command("enqueue", "work", json.dumps(payload), "--id", job_id),
                                    capture_output=True, text=True, check=False, timeout=60,
                                    env=self.environment)
            assert result.returncode == 0, result.stderr
            assert result.stdout.strip() == job_id
            self.acknowledged.append(job_id)
            self.payloads[job_id] = digest

    def submit_lines(self, n):
        """Many at once, killed in between: only what was printed counts."""
        lines = self.place / "payloads.jsonl"
        lines.write_text("".join(json.dumps({"number": i}) + "\n" for i in range(n)))
        out = subprocess.run(self.command("enqueue", "work", "--lines", "--from", str(lines)),
                             stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=self.environment, text=True, check=True, timeout=120)
        self.acknowledged += out.stdout.split()

    def live(self):
        if not self.store.exists():
            return -1
        db = sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=30)
        try:
            return db.execute(f"SELECT count(*) FROM jobs WHERE state IN {LIVE_STATES}").fetchone()[0]
        finally:
            db.close()

    def tamper(self, kind):
        """As soon as there is a job of the kind that is to be tampered with."""
        end = time.monotonic() + 30
        db = sqlite3.connect(self.store, timeout=30)
        try:
            while True:
                self.submit_lines(50)
                with db:
                    if db.execute(SABOTAGE[kind]).rowcount > 0:
                        return
                assert time.monotonic() < end, f"found nothing to sabotage: {kind}"
        finally:
            db.close()

    def judge(self):
        return complaints(Evidence(self.store, self.place / "effects.log"), self.acknowledged, self.payloads,
                          self.stops)

    # ---- The two ways to be killed -----------------------------------------------------------

    def wait_until_idle(self, limit_s=60):
        """With one worker that nobody harms."""
        worker = self.start("work")
        end = time.monotonic() + limit_s
        while self.live() > 0 and time.monotonic() < end:
            assert worker.poll() is None, worker.stderr.read().decode()
            time.sleep(0.05)
        worker.terminate()
        try:
            worker.wait(timeout=20)
        except subprocess.TimeoutExpired as late:
            worker.kill()
            raise AssertionError("does not stop on SIGTERM") from late
        # One that had nothing to do may have been told to stop before it listened.
        assert worker.returncode in (0, -signal.SIGTERM), worker.stderr.read().decode()
        self.forget(worker)

    def torture_work(self, kills, sabotage=None):
        """Two workers at a time; one of them is killed, or stopped for a while, and replaced."""
        workers = [self.start("work"), self.start("work")]
        while self.kills < kills:
            if self.live() < 40:
                self.submit_lines(200)
            time.sleep(self.random.uniform(0.02, 0.4))
            index = self.random.randrange(2)
            if self.random.random() < 0.05:
                self.stop_for_a_while(workers[index])
            else:
                self.kill(workers[index])
                workers[index] = self.start("work")
            if sabotage:
                self.tamper(sabotage)
                sabotage = None
        for worker in workers:
            self.kill(worker)
        self.wait_until_idle()

    def torture_batch(self, kills):
        """The same command again and again, killed at any moment, until it has been killed enough
        and then comes to its end."""
        records = self.place / "records.jsonl"
        wanted = self.add_records(records, 0)
        while self.kills < kills:
            process = self.start("batch", "work", str(records))
            time.sleep(self.random.uniform(0.02, 0.5))
            self.kill(process)
            if self.live() == 0:
                wanted = self.add_records(records, wanted)
        last = subprocess.run(self.command("batch", "work", str(records)), stdin=subprocess.DEVNULL, env=self.environment,
                              capture_output=True, text=True, check=False, timeout=300)
        assert last.returncode in (0, 3), last.stderr
        self.wait_until_idle()
        self.check_records(wanted)

    @staticmethod
    def add_records(records, before, n=200):
        with open(records, "a", encoding="utf-8") as out:
            for number in range(before, before + n):
                out.write(json.dumps({"id": f"record-{number}", "number": number}) + "\n")
        return before + n

    def check_records(self, wanted):
        """Each record is one job: its key is unique for ever."""
        db = sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=30)
        rows = db.execute("SELECT unique_key, count(*) FROM specs GROUP BY unique_key").fetchall()
        ids = [row[0] for row in db.execute("SELECT id FROM specs")]
        db.close()
        assert len(rows) == wanted, f"{len(rows)} of {wanted} records are in the store"
        assert all(count == 1 for _, count in rows), "a record was submitted twice"
        self.acknowledged += ids


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--of", choices=("work", "batch"), default="work")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sabotage", choices=sorted(SABOTAGE), help="with --of work")
    args = parser.parse_args()
    rig = Rig(args.seed)
    started = time.monotonic()
    try:
        if args.of == "work":
            rig.torture_work(args.kills, args.sabotage)
        else:
            rig.torture_batch(args.kills)
        found = rig.judge()
    finally:
        rig.close()
    print(f"{args.of}: {rig.kills} kills, {rig.stops} stops, {len(rig.acknowledged)} jobs, "
          f"{time.monotonic() - started:.0f} s, seed {args.seed}: {len(found)} complaints")
    for complaint in found[:20]:
        print("  " + complaint)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
