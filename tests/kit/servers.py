"""Throw-away PostgreSQL and Redis servers, on loopback ports of their own; cluster.py has several Redis
servers that are one cluster.

    with Postgres() as pg:
        ... pg.url ...

A server lives in a temporary folder, is a direct child of this process, ends with it however that
ends, and leaves nothing behind. `durable` makes it write as a real one does; without it a test does
not wait for the disk.
"""
import ctypes
import functools
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from tests.kit.ports import free_port

START_S = 60
STOP_S = 20
NEW_POSTGRES = "REDRIVE_TEST_NEW_POSTGRES"  # names the folder of NewPostgres


class Missing(Exception):
    """The server's program is not installed."""


def _end_with_parent(sig):
    # Runs in the child: PR_SET_PDEATHSIG is 1. A new session keeps the terminal's Ctrl-C away, so
    # that whoever has started the server also stops it.
    def prepare():
        ctypes.CDLL(None).prctl(1, sig)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return prepare


class ThrowAway:
    """What servers of all kinds have in common: a folder, a port, a process, a log."""

    name = ""
    stop_signal = signal.SIGTERM
    death_signal = signal.SIGKILL

    def __init__(self, durable=False, settings=(), port=None):
        self.durable = durable
        self.settings = tuple(settings)
        self.port = port or free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"redrive-{self.name}-"))
        self.process = None
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def log(self):
        return self.folder / "log"

    def user(self):
        """Whom it runs as: Popen's arguments."""
        return {}

    def prepare(self):
        """Sets the folder up."""

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True, preexec_fn=_end_with_parent(self.death_signal), **self.user())
        end = time.monotonic() + START_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.02)

    def stop(self):
        """In order, as an operator would."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None

    def kill(self):
        """As a power cut would, as far as a process can tell."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def find_postgres(program):
    """An installation in the PATH goes first; Debian keeps the newest of its own elsewhere."""
    chosen = shutil.which("initdb")
    if chosen and pathlib.Path(chosen).with_name(program).exists():
        return str(pathlib.Path(chosen).with_name(program))
    for folder in sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / program).exists():
            return str(folder / program)
    found = shutil.which(program)
    if not found:
        raise Missing(f"{program} is not installed (Debian: postgresql)")
    return found


class Postgres(ThrowAway):
    name = "postgres"
    stop_signal = signal.SIGINT  # a fast shutdown
    death_signal = signal.SIGINT
    superuser = "redrive"

    @property
    def data(self):
        return self.folder / "data"

    @property
    def url(self):
        return f"postgres://{self.superuser}@127.0.0.1:{self.port}/postgres"

    def user(self):
        # PostgreSQL refuses to run as root.
        if os.geteuid() != 0:
            return {}
        entry = pwd.getpwnam("postgres")
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def prepare(self):
        new = os.environ.get(NEW_POSTGRES)
        if new and (pathlib.Path(new) / "made-by").read_text() == find_postgres("initdb"):
            subprocess.run(["cp", "-a", f"{new}/data", str(self.data)], check=True)
            self.own(self.folder)
        else:
            self.run("initdb", "-D", self.data, "-U", self.superuser, "-A", "trust", "-E", "UTF8",
                     "--locale=C", "--no-sync")

    def own(self, path):
        """Gives it to the user that the server runs as."""
        who = self.user()
        if who:
            os.chown(path, who["user"], who["group"])

    def run(self, program, *arguments):
        """One of PostgreSQL's programs, in the folder and as the user of the server."""
        self.own(self.folder)
        subprocess.run([find_postgres(program), *map(str, arguments)], check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL, **self.user())

    def command(self):
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "",
            "max_connections": 60, "shared_buffers": "64MB", "dynamic_shared_memory_type": "mmap",
            "log_checkpoints": "off", "autovacuum_naptime": "10s",
        }
        if not self.durable:
            settings |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
        settings |= dict(self.settings)
        return [find_postgres("postgres"), "-D", str(self.data),
                *(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))]

    def answers(self):
        return subprocess.run([find_postgres("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                              stdout=subprocess.DEVNULL).returncode == 0

    def sql(self, text, database="postgres"):
        """What psql prints for it, without headings."""
        return subprocess.run(
            [find_postgres("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1",
             "-p", str(self.port), "-U", self.superuser, "-d", database, "-c", text],
            check=True, text=True, capture_output=True).stdout.strip()


class NewPostgres(Postgres):
    """The folder of a server that has never been started, made once. While it is there, servers of this process
    and of its children begin with a copy of it, which takes a tenth of the time of initdb."""

    def start(self):
        (self.folder / "made-by").write_text(find_postgres("initdb"))
        self.folder.chmod(0o755)
        os.environ[NEW_POSTGRES] = str(self.folder)

    def close(self):
        os.environ.pop(NEW_POSTGRES, None)
        super().close()


def _read_reply(reply):
    line = reply.readline().decode(errors="surrogateescape")
    if line.startswith("$") and line[1] != "-":
        return reply.read(int(line[1:]) + 2)[:-2].decode(errors="surrogateescape")
    if line.startswith("*") and line[1] != "-":
        return [_read_reply(reply) for _ in range(int(line[1:]))]
    return line[1:].strip()


def redis_reply(connection, *words):
    """To a command: text, or a list of it. An error is its text."""
    parts = [str(word).encode(errors="surrogateescape") for word in words]
    request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
    connection.sendall(request)
    with connection.makefile("rb") as reply:
        return _read_reply(reply)


class Redis(ThrowAway):
    name = "redis"

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def command(self):
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if not program:
            raise Missing("redis-server is not installed (Debian: redis-server)")
        settings = {
            "bind": "127.0.0.1", "port": self.port, "dir": self.folder, "save": "", "daemonize": "no",
            "appendonly": "yes" if self.durable else "no", "appendfsync": "always",
            "maxmemory-policy": "noeviction",
        }
        settings |= dict(self.settings)
        return [program, *(word for key, value in settings.items() for word in (f"--{key}", str(value)))]

    def answers(self):
        return self.call("PING") == "PONG"

    def call(self, *words):
        """The reply to a command; None: no server."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                return redis_reply(s, *words)
        except OSError:
            return None


KINDS = {"postgres": Postgres, "redis": Redis}
NOWHERE = {"postgres": "postgres://nobody@127.0.0.1:1/none", "redis": "redis://127.0.0.1:1"}


@functools.cache
def knows(redrive, kind):
    """Whether this redrive was built with such a store: it looks for the server, in vain."""
    answer = subprocess.run([str(redrive), "doctor", "--store", NOWHERE[kind]], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=START_S)
    return "there is no store" not in answer.stdout + answer.stderr
