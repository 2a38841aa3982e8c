"""The installed service, started by the lines of its unit, without systemd."""

import http.client
import json
import re
import shlex
import signal
import socket

from tests.kit.ports import free_port
from tests.kit.waiting import LIMIT_S, wait_for

# The dashboard is served compressed only.
HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}

UNIT = "/lib/systemd/system/redrive.service"


class Service:
    """Starts ExecStart as the unit's user in the unit's folder; listens on a free loopback port. What the server
    tells systemd is in `notices`."""

    def __init__(self, root):
        self.unit = dict(re.findall(r"^(\w+)=(.*)$", root.run("cat", UNIT), re.M))
        self.user = f"{self.unit['User']}:{self.unit['Group']}"
        self.port = free_port()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind("")  # an abstract name: the same in every root
        name = "@" + self.socket.getsockname()[1:].decode()
        self.notices = ""
        root.run(*shlex.split(self.unit["ExecStartPre"]), user=self.user)
        self.process = root.start(
            "env", f"--chdir={self.unit['WorkingDirectory']}", *shlex.split(self.unit["ExecStart"]), user=self.user,
            umask=int(self.unit["UMask"], 8),
            env={"NOTIFY_SOCKET": name, "REDRIVE_LISTEN_HTTP": f"127.0.0.1:{self.port}", "REDRIVE_LISTEN_FAKTORY": "off"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)
        self.socket.close()

    def told(self, text):
        """Waits until the server has told systemd so."""

        def heard():
            try:
                self.notices += self.socket.recv(4096).decode() + "\n"
            except BlockingIOError:
                if self.process.poll() is not None and text not in self.notices:
                    raise AssertionError(self.process.stderr.read().decode()) from None
            return text in self.notices

        return wait_for(heard, text)

    def ask(self, method, path, body=None):
        """The status of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request(method, path, json.dumps(body) if body else None, HEADERS)
            return connection.getresponse().status
        finally:
            connection.close()

    def reload(self):
        assert shlex.split(self.unit["ExecReload"]) == ["/bin/kill", "-HUP", "$MAINPID"]
        self.process.send_signal(signal.SIGHUP)

    def stop(self):
        """As systemd stops it; the exit code."""
        self.process.terminate()
        return self.process.wait(LIMIT_S)
