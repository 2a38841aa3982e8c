"""A server or a worker under test: started as a user starts it, watched through its log and its interfaces."""

import contextlib
import http.client
import itertools
import json
import re
import signal
import subprocess

from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S, wait_for


class Server:
    """One process; `words` are its options. Its log is a file of the folder; its ports are read from there."""

    command = "serve"

    def __init__(self, folder, *words, env=None, stdout=subprocess.DEVNULL, stderr=None, preexec_fn=None):
        """`stderr` gets the log in place of the file."""
        self.log_path = next(path for n in itertools.count() if not (path := folder / f"{self.command}-{n}.log").exists())
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in (BINARY, self.command, *words)], stdin=subprocess.DEVNULL,
                                            stdout=stdout, stderr=stderr or log, text=True, env=environment(**(env or {})),
                                            preexec_fn=preexec_fn)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

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

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port()}"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT_S)

    def send(self, method, path, body=None, token=None):
        """Status and text."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def get(self, path, token=None):
        """Status and text."""
        return self.send("GET", path, token=token)

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

    def result(self):
        """Exit status and standard output of one whose standard output is a pipe."""
        said, _ = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, said

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        self.process.kill()
        return self.wait()

    def close(self):
        """It is gone, whatever it was doing."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Worker(Server):
    command = "work"

    def port(self, interface="metrics"):
        return super().port(interface)


class Bench:
    """A directory with a configuration, a store (in the directory unless it is given), and servers and workers that
    are gone at the end."""

    def __init__(self, directory, url=None):
        self.dir = directory
        self.config = directory / "redrive.yaml"
        self.database = directory / "jobs.db"
        self.url = url or f"sqlite:{self.database}"
        self.servers = []
        self.configure()

    def configure(self, text="", listen="{http: '127.0.0.1:0', faktory: 'off'}"):
        self.config.write_text(
            f"store: {self.url}\nlisten: {listen}\nlog: {{level: info}}\n" + text.replace("DIR", str(self.dir)),
            "utf-8",
        )

    def serve(self, *words, **options):
        self.servers.append(Server(self.dir, "-c", self.config, *words, **options))
        return self.servers[-1]

    def work(self, *words, **options):
        self.servers.append(Worker(self.dir, "-c", self.config, *words, **options))
        return self.servers[-1]

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
            server.close()
