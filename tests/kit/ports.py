"""TCP ports of loopback that nobody listens on."""
import contextlib
import random
import socket
import time


def free_ports(n):
    """Different ones, that the system chooses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def free_port():
    return free_ports(1)[0]


def lasting_port():
    """A port that the system does not give to connections by itself: a server that was killed comes back to it."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def wait_until_free(port, limit_s=10):
    """A process that was killed while it forked leaves its port to the child, until that has begun its program."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return
            except OSError:
                time.sleep(0.005)
