"""network.py - a process behind a cable that can be pulled: a network namespace and a pair of devices; and servers that
listen at the end of the cable."""
import os
import shutil
import subprocess

from tests.kit import servers


class Unavailable(Exception):
    """What is missing, in words."""


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Cable:
    """From this machine, `here`, to a namespace of its own; addresses that nobody routes."""

    def __init__(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise Unavailable("network namespaces need root and the program ip (Debian: iproute2)")
        number = os.getpid() % 60000
        self.namespace = f"redrive-{number}"
        self.device = f"rd{number}"
        net = f"198.18.{number // 250}.{number % 250}"  # of the range for benchmarks
        self.here = net
        there = f"198.19.{number // 250}.{number % 250}"
        try:
            _ip("netns", "add", self.namespace)
            _ip("link", "add", self.device, "type", "veth", "peer", "name", "cable", "netns", self.namespace)
            _ip("address", "add", self.here, "peer", there, "dev", self.device)
            _ip("-n", self.namespace, "address", "add", there, "peer", self.here, "dev", "cable")
            _ip("-n", self.namespace, "link", "set", "lo", "up")
            _ip("-n", self.namespace, "link", "set", "cable", "up")
            self.plug()
        except Unavailable:
            self.close()
            raise

    def pull(self):
        """Nothing gets through any more, and nobody is told."""
        _ip("link", "set", self.device, "down")

    def plug(self):
        _ip("link", "set", self.device, "up")

    def command(self, words):
        """The same, behind the cable."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def close(self):
        for words in (("link", "delete", self.device), ("netns", "delete", self.namespace)):
            subprocess.run(["ip", *words], capture_output=True, check=False)


class OpenPostgres(servers.Postgres):
    """One that also listens at the end of a cable."""

    def __init__(self, address, **options):
        self.address = address
        super().__init__(settings={"listen_addresses": f"127.0.0.1,{address}"}.items(), **options)

    def prepare(self):
        super().prepare()
        with open(self.data / "pg_hba.conf", "a", encoding="utf-8") as rules:
            rules.write("host all all 198.18.0.0/15 trust\n")

    def url_from(self, address):
        # A dead connection is noticed soon.
        return (self.url.replace("127.0.0.1", address) +
                "?tcp_user_timeout=2000&keepalives_idle=1&keepalives_interval=1&keepalives_count=2")


class OpenRedis(servers.Redis):
    def __init__(self, address, **options):
        super().__init__(settings={"bind": f"127.0.0.1 {address}", "protected-mode": "no"}.items(), **options)

    def url_from(self, address):
        return self.url.replace("127.0.0.1", address)
