"""A server under test: started as a user starts it, watched through its log and its interfaces."""

import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess

from waiting import LIMIT_S, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("REDRIVE_BIN", ROOT / "build" / "redrive")).resolve()


def environment(**extra):
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    keep.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    return {**keep, **extra}


def token_hash(token):
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def make_certificate(directory, name, days=90):
    """A key and a certificate signed with itself; the certificate's text."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", str(days)]
        + ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        + ["-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.pem")],
        check=True,
        capture_output=True,
    )
    return (directory / f"{name}.pem").read_text("ascii")


def memory_mib(pid, name):
    """Of a process: VmRSS, what it has; VmHWM, the most that it has had (since 5 was written to its clear_refs)."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.split(f"{name}:")[1].split()[0]) // 1024


class Server:
    """One process. Its log is a file; its ports are read from there."""

    command = "serve"

    def __init__(self, bench, *words, env=None, preexec_fn=None):
        self.log_path = bench.dir / f"log-{len(bench.servers)}"
        self.process = subprocess.Popen(
            [str(BINARY), self.command, "-c", str(bench.config), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(self.log_path, "wb"),
            env=environment(**(env or {})),
            preexec_fn=preexec_fn,
        )

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text("utf-8")

    def logged(self, pattern):
        return re.search(pattern, self.log())

    def wait_log(self, pattern, times=1):
        def there():
            found = re.findall(pattern, self.log())
            assert len(found) >= times or self.process.poll() is None, self.log()
            return found if len(found) >= times else None

        return wait_for(there, lambda: f"{pattern} in\n{self.log()}")

    def ready(self):
        self.wait_log(r"\bserving\b")
        return self

    def port(self, interface="http"):
        return int(self.wait_log(rf"listening interface={interface} address=\S+:(\d+)")[0])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT_S)

    def get(self, path, token=None):
        """Status and text."""
        connection = self.connect()
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def send(self, method, path, body):
        """Status and text."""
        connection = self.connect()
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, series):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def metrics_sum(self, name, **labels):
        """Over all series of a name that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.get("/metrics")[1].splitlines()
                   if line.startswith(name + "{") and all(label in line for label in wanted))

    def signal(self, number):
        self.process.send_signal(number)

    def reload(self):
        """SIGHUP, and wait until it has been dealt with one way or the other."""
        before = len(re.findall(r"\b(reloaded|reload_refused)\b", self.log()))
        self.signal(signal.SIGHUP)
        self.wait_log(r"\b(?:reloaded|reload_refused)\b", before + 1)

    def wait(self):
        return self.process.wait(LIMIT_S)

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        self.process.kill()
        return self.wait()


class Bench:
    """A directory with a configuration, a store, and servers that are gone at the end."""

    def __init__(self, directory):
        self.dir = directory
        self.config = directory / "redrive.yaml"
        self.database = directory / "jobs.db"
        self.servers = []
        self.configure()

    def configure(self, text="", listen="{http: '127.0.0.1:0', faktory: 'off'}"):
        self.config.write_text(
            f"store: sqlite:{self.database}\nlisten: {listen}\nlog: {{level: info}}\n" + text.replace("DIR", str(self.dir)),
            "utf-8",
        )

    def serve(self, *words, **options):
        server = Server(self, *words, **options)
        self.servers.append(server)
        return server

    def redrive(self, *words):
        return subprocess.run(
            [str(BINARY), *words, "-c", str(self.config)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=LIMIT_S,
            check=False,
        )

    def enqueue(self, task, payload="{}"):
        result = self.redrive("enqueue", task, payload)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def job(self, job_id):
        return json.loads(self.redrive("jobs", "show", job_id, "--json").stdout)

    def state(self, job_id):
        return self.job(job_id)["state"]

    def effects(self):
        path = self.dir / "effects"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def close(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.kill()
