"""power.py - the power fails under a server that works: what was acknowledged must be there afterwards.

    python3 -m tests.torture.power [--cuts N] [--store sqlite|postgres|redis] [--seed N] [--no-sync]

The store is on an ext4 file system of its own, in an image on a loop device. Clients (client.py) submit, claim and settle over HTTP, and
write down what they ask and are answered. Then the file system is shut down
(EXT4_IOC_SHUTDOWN without a flush of its log): from that moment on nothing reaches the image, and what was
written but not synced is gone, as after a power cut. All processes are killed, the image is checked and mounted
again, the servers are started, and each job of that time is looked for and judged.

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
import time

from tests.judge.events import Follower
from tests.judge.promises import Contract
from tests.judge.verdict import complaints
from tests.kit import servers
from tests.kit.ports import free_port
from tests.kit.program import BINARY, BUILD, ROOT
from tests.kit.waiting import LIMIT_S

NO_SYNC = BUILD / "tests" / "faults" / "nosync.so"
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2
IMAGE_MIB = 256
SKIPPED = 77
CLIENTS = 3
BACKOFF_S = 0.1
ANSWERS = ("acknowledged", "start", "extended", "settled", "refused")

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


class Rig:
    def __init__(self, disk, place, store, seed, no_sync):
        self.random = random.Random(seed)
        self.disk = disk
        self.config = place / "redrive.yaml"
        self.env = {**os.environ, **({"LD_PRELOAD": str(NO_SYNC)} if no_sync else {})}
        self.server = self.redrive = None
        self.cuts = 0
        self.clients = []
        self.logs = place / "logs"
        self.logs.mkdir()
        self.follower = Follower(self.logs)
        self.history = []  # of all cuts
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
        end_s = time.monotonic() + LIMIT_S
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
        for process in (*self.clients, *([self.redrive] if self.redrive else [])):
            process.kill()
            process.wait()
        self.clients, self.redrive = [], None
        if self.server:
            self.server.kill()

    def start_clients(self):
        """Until each has begun."""
        logs = [self.logs / f"client-{self.cuts}-{i}.log" for i in range(CLIENTS)]
        self.clients = [subprocess.Popen([sys.executable, "-m", "tests.torture.client", "http", log.stem, log,
                                          self.logs / "hold", str(self.port)], stdout=subprocess.DEVNULL, cwd=ROOT) for log in logs]
        end_s = time.monotonic() + 30
        while time.monotonic() < end_s and not all(log.exists() and log.stat().st_size > 0 for log in logs):
            time.sleep(0.02)
        assert all(log.exists() and log.stat().st_size > 0 for log in logs), "the clients do not begin"

    def cut(self):
        """Work for a moment; then the power fails. Gives the ids of the jobs that were in it."""
        self.start_clients()
        time.sleep(0.2 + self.random.random())
        assert all(client.poll() is None for client in self.clients), "a client had an answer that it must not have"
        cut_s = self.disk.cut()
        self.kill()
        self.disk.unplug()
        self.disk.check()
        self.disk.plug_in()
        self.cuts += 1
        written = [event for event in self.follower.read() if event["mono"] < cut_s or event["event"] not in ANSWERS]
        self.history += written
        return {event["id"] for event in written}

    def judge(self, ids):
        """Of these jobs, all that was ever written down, and what the store says."""
        history = [event for event in self.history if event["id"] in ids]
        for job_id in ids:
            status, job = self.get(f"/jobs/{job_id}")
            self.checked += 1
            if status == 200:
                history.append({"event": "final", "id": job_id, "mono": time.monotonic(),
                                **{name: job[name] for name in ("state", "attempts", "max_attempts")}})
        return complaints(history, Contract(backoff_s=BACKOFF_S, finished=False))

def run(options, disk, place):
    rig = Rig(disk, place, options.store, options.seed, options.no_sync)
    found = []
    try:
        rig.start()
        while rig.cuts < options.cuts and not found:
            ids = rig.cut()
            try:
                rig.start()
            except RuntimeError as error:
                found = [str(error)]
                break
            found = rig.judge(ids)
            doctor = subprocess.run([BINARY, "doctor", "--config", rig.config], capture_output=True, text=True)
            if doctor.returncode not in (0, 2):
                found.append(f"redrive doctor: {doctor.stdout}{doctor.stderr}")
    finally:
        rig.kill()
    for complaint in found[:20]:
        print(complaint)
    print(f"{options.store}: {rig.cuts} power cuts, {rig.checked} jobs looked for, {len(found)} complaints")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--store", choices=("sqlite", "postgres", "redis"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-sync", action="store_true", help="fsync does nothing: jobs must be lost")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="redrive-power-") as place:
        try:
            with contextlib.closing(Disk(pathlib.Path(place))) as disk:
                found = run(options, disk, pathlib.Path(place))
        except (CannotCut, servers.Missing) as error:
            print(f"skipped: {error}")
            return SKIPPED
    return 1 if bool(found) != options.no_sync else 0


if __name__ == "__main__":
    sys.exit(main())
