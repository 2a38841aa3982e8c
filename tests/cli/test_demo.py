"""`make demo`, as far as tools/demo goes: whole, without tools, interrupted."""
import gzip
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from tests.kit.program import BINARY, ROOT

LIMIT_S = 90
DEMO = str(ROOT / "tools" / "demo")
# What every machine has that could build the program; Python is not among it.
TOOLS = "sh awk sed grep cat cp rm mktemp sleep date dirname timeout touch tr".split()


class Stage:
    """A place for the demo's folder, and an environment with few tools."""

    def __init__(self, tmp_path, *more_tools, **env):
        self.tmp = tmp_path / "tmp"
        tools = tmp_path / "tools"
        for folder in (self.tmp, tools):
            folder.mkdir()
        for name in (*TOOLS, *more_tools):
            found = shutil.which(name)
            if not found:
                pytest.skip(f"{name} is not installed")
            (tools / name).symlink_to(os.path.realpath(found))
        sanitizers = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        self.env = {"PATH": str(tools), "HOME": str(tmp_path), "TMPDIR": str(self.tmp), **sanitizers, **env}

    def run(self):
        return subprocess.run([DEMO, str(BINARY.parent)], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)

    def is_clean(self, said):
        """Neither the folder nor the server is left."""
        port = int(re.search(r"HTTP on 127\.0\.0\.1:(\d+)", said).group(1))
        with socket.socket() as probe:
            return list(self.tmp.iterdir()) == [] and probe.connect_ex(("127.0.0.1", port)) != 0


class Terminal:
    """A terminal of its own, on which the demo runs; whatever it writes is collected."""

    def __init__(self, stage):
        self.said = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(DEMO, [DEMO, str(BINARY.parent)], stage.env)

    def read(self):
        if not select.select([self.fd], [], [], 0.2)[0]:
            return True
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            return False
        self.said += more
        return more != b""

    def read_until(self, text):
        end = time.monotonic() + LIMIT_S
        while text not in self.said:
            assert time.monotonic() < end and self.read(), self.said.decode()

    def end(self):
        """The exit status, once nothing holds the terminal any more."""
        end = time.monotonic() + LIMIT_S
        while self.read():
            assert time.monotonic() < end, self.said.decode()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def interrupt(self):
        os.write(self.fd, b"\x03")

    def close(self):
        os.close(self.fd)
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def check_story(done):
    said = done.stdout
    assert done.returncode == 0, done.stderr + said
    assert re.fullmatch(r"there are more: .*\n(10 of 10 redriven\n)?", done.stderr)
    assert re.search(r"\n(half.)?open .* sync\n", said), "the breaker opens"
    assert re.search(r"\nclosed .* sync\n", said), "and closes"
    assert re.search(r"\n[0-9a-f]{16} +10 .* parse .*not a date", said), "ten dead letters look alike"
    assert re.search(r"\nparse +30 +40 +30 +0 +10 ", said), "all of them work in the end"
    assert "418 completed, 3 dead letters left." in said or "417 completed, 3 dead letters left." in said
    assert "What to try next" in said
    assert re.search(r"\n   Its dashboard: http://127\.0\.0\.1:\d+/ui/\n", said)
    assert "\033" not in said


def test_demo_tells_its_story_over_http(tmp_path):
    stage = Stage(tmp_path, "curl")
    done = stage.run()
    check_story(done)
    assert '"matched":10' in done.stdout
    speaks_telnet = "telnet" in subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    assert ("telnet://" in done.stdout) == speaks_telnet
    if speaks_telnet:
        assert re.search(r"\nhello-faktory +greet +completed +1/4 ", done.stdout)
    assert stage.is_clean(done.stdout)


def test_demo_needs_no_curl_and_its_server_can_be_kept(tmp_path):
    stage = Stage(tmp_path, "setsid", KEEP="1")
    done = stage.run()
    url, pid = re.search(r"\n  (http://\S+/ui/)\n .* until: kill (\d+)\n", done.stdout).groups()
    try:
        request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request, timeout=LIMIT_S) as page:
            assert b"<title>" in gzip.decompress(page.read())
    finally:
        os.kill(int(pid), signal.SIGTERM)
    check_story(done)
    assert len(list(stage.tmp.glob("redrive-demo.*/demo.db"))) == 1


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_interrupt_leaves_nothing_behind(tmp_path, term):
    stage = Stage(tmp_path, "curl", TERM=term)
    terminal = Terminal(stage)
    try:
        terminal.read_until(b"\033[?1049h" if term == "xterm" else b"breakers list")
        terminal.interrupt()
        assert terminal.end() == 130
    finally:
        terminal.close()
    said = terminal.said.decode()
    assert stage.is_clean(said)
    if term == "xterm":
        assert said.rfind("\033[?1049l") > said.rfind("\033[?1049h") > 0
        assert "What to try next" not in said
    else:
        assert "\033" not in said
