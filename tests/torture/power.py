"""power.py - the power fails under a server that works: what was acknowledged must be there afterwards.

    python3 -m tests.torture.power [--cuts N] [--store sqlite|postgres|redis] [--seed N] [--no-sync]

The store is on an ext4 file system of its own, in an image on a loop device. Clients submit, claim and settle over HTTP, and
note each acknowledged request, in memory, with the time at which its answer came. Then the file system is shut down
(EXT4_IOC_SHUTDOWN without a flush of its log): from that moment on nothing reaches the image, and what was
written but not synced is gone, as after a power cut. All processes are killed, the image is checked and mounted
again, the servers are started, and each acknowledged request is looked for.

A sync that is under way at the cut may still return without an error, so that an answer counts only if it came
before the cut began.

--no-sync preloads a library in which fsync and fdatasync do nothing: the rig must then find that jobs are lost.
It needs root, a loop device and mkfs.ext4; without these it says so and exits with 77.
"""
import argparse
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

from tests.kit import servers
from tests.kit.ports import free_port
from tests.kit.program import BINARY, BUILD

NO_SYNC = BUILD / "tests" / "faults" / "nosync.so"
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2
IMAGE_MIB = 256
SKIPPED = 77
SUBMITTERS, WORKERS = 3, 2

CONFIG = """\
store: {url}
log: {{level: "off"}}
listen: {{http: "127.0.0.1:{port}", faktory: "off"}}
defaults: {{retry: {{strategy: fixed, initial_delay: 100ms, min_delay: 100ms, jitter: none, max_attempts: 20, total_timeout: 0}}}}
"""


class CannotCut(Exception):
    """This machine has no loop device, or no right to use it."""


class Disk:
    """An ext4 file system that can lose its power."""

    def __init__(self, place):
        self.image, self.mount = place / "image", place / "disk"
        place.chmod(0o755)  # PostgreSQL is another user
        self.mount.mkdir()
        if os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not shutil.which("e2fsck"):
            raise CannotCut("it needs root, mkfs.ext4 and e2fsck (Debian: e2fsprogs)")
        with open(self.image, "wb") as image:
            image.truncate(IMAGE_MIB * 1024 * 1024)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)
        self.plug_in()

    def plug_in(self):
        mounted = subprocess.run(["mount", "-o", "loop", self.image, self.mount], capture_output=True, text=True)
        if mounted.returncode != 0:
            raise CannotCut(mounted.stderr.strip())

    def cut(self):
        """When it began: answers that came later do not count."""
        folder = os.open(self.mount, os.O_RDONLY)
        began_s = time.monotonic()
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        except OSError as error:
            raise CannotCut(f"the file system cannot be shut down: {error.strerror}") from error
        finally:
            os.close(folder)
        return began_s

    def unplug(self):
        for _ in range(50):
            if subprocess.run(["umount", self.mount], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError("the file system is still in use")

    close = unplug

    def check(self):
        """Replays the log. Damage that this does not mend would be the file system's."""
        done = subprocess.run(["e2fsck", "-p", self.image], capture_output=True, text=True)
        if done.returncode > 1:
            raise RuntimeError(f"e2fsck: {done.stdout}{done.stderr}")


class Client(threading.Thread):
    """Asks until it is told to stop, or the server is gone."""

    def __init__(self, port, name, notes):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self.name, self.notes, self.stopped = name, notes, threading.Event()

    def ask(self, path, body):
        self.connection.request("POST", "/v1" + path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        return time.monotonic(), answer.status, json.loads(text)

    def run(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while not self.stopped.is_set():
                self.act()


class Submitter(Client):
    made = 0

    def act(self):
        ids = [f"{self.name}-{self.made + i}" for i in range(random.choice((1, 1, 1, 5)))]
        self.made += len(ids)
        came_s, status, said = self.ask("/jobs", [{"id": i, "task": "remote", "payload": {"for": i}} for i in ids])
        if status == 201 and len(said["items"]) == len(ids):
            self.notes += [(came_s, "submitted", i, None) for i in ids]


class Worker(Client):
    def act(self):
        came_s, status, said = self.ask("/claim", {"n": 3, "worker": self.name, "wait": 0.2, "lease": 2})
        if status != 200:
            return
        items = []
        for job in said["jobs"]:
            self.notes.append((came_s, "started", job["id"], job["attempt"]))
            verdict = random.choice(("SUCCESS", "SUCCESS", "SUCCESS", "TRANSIENT_FAIL"))
            items.append({"id": job["id"], "token": job["token"], "status": verdict})
        if not items:
            return
        came_s, status, said = self.ask("/settle", {"items": items})
        if status == 200:
            self.notes += [(came_s, "settled", answer["id"], answer["state"])
                           for answer in said["items"] if answer["status"] == 200]


class Rig:
    def __init__(self, disk, place, store, seed, no_sync):
        self.random = random.Random(seed)
        self.disk = disk
        self.config = place / "redrive.yaml"
        self.env = {**os.environ, **({"LD_PRELOAD": str(NO_SYNC)} if no_sync else {})}
        self.server = self.redrive = None
        self.cuts = 0
        self.clients = 0
        self.notes = []
        self.checked = 0
        if store != "sqlite":
            tempfile.tempdir = str(self.disk.mount)
            try:
                self.server = servers.KINDS[store](durable=True)
            finally:
                tempfile.tempdir = None
        subprocess.run(["sync", "-f", self.disk.mount], check=True)  # the empty server is not what is tested
        self.url = self.server.url if self.server else f"sqlite:{self.disk.mount}/jobs.db"

    def start(self):
        if self.server and not self.server.process:
            self.server.start()
        self.port = free_port()
        self.config.write_text(CONFIG.format(url=self.url, port=self.port))
        self.redrive = subprocess.Popen([BINARY, "serve", "--config", self.config], env=self.env,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end_s = time.monotonic() + 30
        while self.get("/health")[0] != 200:
            if time.monotonic() > end_s or self.redrive.poll() is not None:
                raise RuntimeError("the server did not start again")
            time.sleep(0.02)

    def get(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", "/v1" + path if not path == "/health" else path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None

    def kill(self):
        if self.redrive:
            self.redrive.kill()
            self.redrive.wait()
            self.redrive = None
        if self.server:
            self.server.kill()

    def cut(self):
        """Work for a moment; then the power fails. What was acknowledged before stays in self.notes."""
        self.clients += 1
        notes = []
        crew = [Submitter(self.port, f"s{self.clients}x{i}", notes) for i in range(SUBMITTERS)]
        crew += [Worker(self.port, f"w{self.clients}x{i}", notes) for i in range(WORKERS)]
        for client in crew:
            client.start()
        time.sleep(0.2 + self.random.random())
        cut_s = self.disk.cut()
        for client in crew:
            client.stopped.set()
        self.kill()
        for client in crew:
            client.join()
        self.disk.unplug()
        self.disk.check()
        self.disk.plug_in()
        self.cuts += 1
        return [note for note in notes if note[0] < cut_s]

    def judge(self, notes):
        """What is not as it was acknowledged."""
        complaints = []
        for _, what, job_id, value in notes:
            status, job = self.get(f"/jobs/{job_id}")
            self.checked += 1
            if status != 200:
                complaints.append(f"{job_id} was {what}, and is not there: {status}")
            elif what == "settled" and value == "completed" and job["state"] != "completed":
                complaints.append(f"{job_id} was completed, and is {job['state']}")
            elif what == "started" and job["attempts"] < value:
                complaints.append(f"{job_id} was started {value} times, and counts {job['attempts']}")
        return complaints


def run(options, disk, place):
    rig = Rig(disk, place, options.store, options.seed, options.no_sync)
    complaints = []
    try:
        rig.start()
        while rig.cuts < options.cuts and not complaints:
            notes = rig.cut()
            try:
                rig.start()
            except RuntimeError as error:
                complaints = [str(error)]
                break
            complaints = rig.judge(notes)
            doctor = subprocess.run([BINARY, "doctor", "--config", rig.config], capture_output=True, text=True)
            if doctor.returncode not in (0, 2):
                complaints.append(f"redrive doctor: {doctor.stdout}{doctor.stderr}")
    finally:
        rig.kill()
    for complaint in complaints[:20]:
        print(complaint)
    print(f"{options.store}: {rig.cuts} power cuts, {rig.checked} acknowledged requests looked for, {len(complaints)} complaints")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--store", choices=("sqlite", "postgres", "redis"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-sync", action="store_true", help="fsync does nothing: jobs must be lost")
    options = parser.parse_args()
    random.seed(options.seed)
    with tempfile.TemporaryDirectory(prefix="redrive-power-") as place:
        try:
            with contextlib.closing(Disk(pathlib.Path(place))) as disk:
                complaints = run(options, disk, pathlib.Path(place))
        except (CannotCut, servers.Missing) as error:
            print(f"skipped: {error}")
            return SKIPPED
    return 1 if bool(complaints) != options.no_sync else 0


if __name__ == "__main__":
    sys.exit(main())
