"""redrive top: rates between two looks, and a live screen for a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from tests.kit.program import TIMEOUT_S, environment

ENTER = b"\x1b[?1049h"
LEAVE = b"\x1b[?1049l"


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))


class Live:
    """redrive top on a terminal of its own."""

    def __init__(self, redrive, *words, rows=40, columns=100, **env):
        self.master, self.slave = pty.openpty()
        resize(self.slave, rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            [redrive.binary, "top", *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            env=environment(**env),
            preexec_fn=self.own_terminal,
        )

    def own_terminal(self):
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=TIMEOUT_S)
        self.process.stderr.close()
        os.close(self.slave)
        os.close(self.master)

    def read_until(self, condition):
        """Reads until what has been seen is as it should be."""
        limit = time.monotonic() + TIMEOUT_S
        while not condition(self.seen):
            left = limit - time.monotonic()
            assert left > 0, f"not seen in time: {self.seen[-2000:]!r}"
            if select.select([self.master], [], [], min(left, 0.5))[0]:
                self.seen += os.read(self.master, 65536)

    def end(self):
        """The exit code; everything that was written has been read then."""
        limit = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            assert time.monotonic() < limit, "it does not end"
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)
        assert self.process.stderr.read() == b""
        return self.process.returncode

    def is_restored(self):
        return (
            self.seen.rindex(LEAVE) > self.seen.rindex(ENTER)
            and b"\x1b[?25h" in self.seen
            and termios.tcgetattr(self.slave) == self.before
        )


def test_one_frame_has_real_rates_and_counts(redrive, store, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text(f"store: {store}\ntasks: {{quick: {{run: {{exec: ['true'], concurrency: 1}}}}}}\n", "utf-8")
    (tmp_path / "payloads").write_text("{}\n" * 3000, "utf-8")
    redrive.output("enqueue", "quick", "--lines", "--from", str(tmp_path / "payloads"), "-c", str(config))
    worker = subprocess.Popen([redrive.binary, "work", "-c", str(config), "--log-level", "off"], env=environment(),
                              stdin=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + TIMEOUT_S
        while True:
            text = redrive.output("top", "--once", "--interval", "500ms", "-c", str(config))
            rate = float(re.search(r"([\d.]+) completed/s", text).group(1))
            count = int(re.search(r"^in all: (\d+) completed, 0 retried, 0 dead$", text, re.M).group(1))
            if rate > 0 and count > 0:
                break
            assert time.monotonic() < limit, text
    finally:
        worker.kill()
        worker.wait(timeout=TIMEOUT_S)


def test_once_on_a_terminal_leaves_the_screen_alone(redrive, seeded):
    code, seen = redrive.on_terminal("top", "--once", "--store", seeded, columns=90)
    assert code == 0
    assert ENTER not in seen and b"post" in seen
    plain = re.sub(rb"\x1b\[[0-9]*m", b"", seen)
    assert b"\x1b" not in plain


def test_q_ends_it_and_the_terminal_is_as_it_was(redrive, seeded):
    with Live(redrive, "--store", seeded, "--interval", "200ms") as top:
        top.read_until(lambda seen: seen.count(b"\x1b[H") >= 3 and b"seed-worker" in seen)
        assert ENTER in top.seen and LEAVE not in top.seen
        os.write(top.master, b"xq")
        assert top.end() == 0
        assert top.is_restored()


@pytest.mark.parametrize(
    "number, code", [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -1)]
)
def test_signals_give_the_terminal_back(redrive, seeded, number, code):
    with Live(redrive, "--store", seeded) as top:
        top.read_until(lambda seen: b"seed-worker" in seen)
        top.process.send_signal(number)
        assert top.end() == code
        assert top.is_restored()


def test_ctrl_c_ends_it(redrive, seeded):
    with Live(redrive, "--store", seeded) as top:
        top.read_until(lambda seen: b"seed-worker" in seen)
        os.write(top.master, b"\x03")
        assert top.end() == 0
        assert top.is_restored()


def test_a_resize_draws_again_at_once(redrive, seeded):
    with Live(redrive, "--store", seeded, "--interval", "1h", rows=40) as top:
        top.read_until(lambda seen: b"seed-worker" in seen)
        frames = top.seen.count(b"\x1b[H")
        resize(top.slave, 4, 60)
        top.process.send_signal(signal.SIGWINCH)
        top.read_until(lambda seen: seen.count(b"\x1b[H") > frames and seen.endswith(b"\x1b[J"))
        last = top.seen[top.seen.rindex(b"\x1b[H") :]
        assert last.count(b"\r\n") == 3 and b"seed-worker" not in last
        os.write(top.master, b"q")
        assert top.end() == 0


def test_what_changes_is_seen(redrive, seeded):
    with Live(redrive, "--store", seeded, "--interval", "100ms") as top:
        top.read_until(lambda seen: b"mail" in seen)
        assert b"forced_open" not in top.seen
        redrive.output("breakers", "trip", "sms", "--store", seeded)
        top.read_until(lambda seen: b"forced_open" in seen)
        os.write(top.master, b"q")
        assert top.end() == 0


def test_no_color_is_respected(redrive, seeded):
    with Live(redrive, "--store", seeded, NO_COLOR="1") as top:
        top.read_until(lambda seen: b"seed-worker" in seen)
        os.write(top.master, b"q")
        assert top.end() == 0
        assert not re.search(rb"\x1b\[[0-9;]*m", top.seen)
