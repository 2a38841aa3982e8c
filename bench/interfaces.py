"""interfaces - what tools/bench measures over the network interfaces of a server: Faktory and HTTP.

Servers are started here, each with a folder of its own below the scratch folder, on free ports of the
loopback address, and are ended by the process that was started. `redrive serve` has an SQLite file
with synchronous=FULL, so that what it answers survives a power failure; it logs warnings only.
"""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "build-bench"

REST_ROUNDS = 3
REST_S = 3
POLLS, POLLS_S = 1000, 12
SLOW, SLOW_ROUNDS, SLOW_S = 10000, 5, 2
GOOD_RATE = 500  # requests a second of the client that must not suffer from slow ones


def tool(name):
    return str(BENCH / "bench" / name)


def run_rows(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout)["rows"]


def row(name, value, unit, durable=None):
    return {"name": name, "value": value, "unit": unit, "durable": durable}


# ---- Servers -------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(port, process, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError("a server does not start")


def end(process):
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Server:
    """`redrive serve`: pid, http and faktory are its process and its ports."""

    def __init__(self, process, http, faktory):
        self.pid, self.http, self.faktory = process.pid, http, faktory

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mib(self):
        pages = int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def serve(scratch, max_connections=10000, log_level="warning", has_faktory=True):
    """Without Faktory, HTTP has all the open files of the process for its connections, not half of them."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="serve-", dir=scratch))
    http, faktory = free_port(), free_port()
    faktory_address = f"127.0.0.1:{faktory}" if has_faktory else "off"
    config = folder / "redrive.yaml"
    config.write_text(f"store: sqlite:{folder}/jobs.db\nlog: {{level: {log_level}}}\n"
                      f"listen: {{http: '127.0.0.1:{http}', faktory: '{faktory_address}', "
                      f"max_connections: {max_connections}, max_per_address: {max_connections}}}\n")
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([str(BENCH / "redrive"), "serve", "-c", str(config)], stdout=log, stderr=log)
    try:
        wait_for_port(http, process)
        if has_faktory:
            wait_for_port(faktory, process)
        yield Server(process, http, faktory)
    except BaseException:
        print(f"bench: the server had said: {(folder / 'log').read_text(errors='replace')[-2000:]}")
        raise
    finally:
        end(process)
        shutil.rmtree(folder)


def allow_files():
    """As many open files as the system lets us have; servers and clients inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# ---- Lives through Faktory -----------------------------------------------------------------------


def faktory_lives(port, name, durable, jobs, seconds, shape, bulk=False):
    window, connections = shape
    return run_rows([tool("bench_faktory"), name, "durable" if durable else "volatile", "--port", str(port),
                     "--jobs", str(jobs), "--seconds", str(seconds), "--window", str(window),
                     "--connections", str(connections), "--bulk", "yes" if bulk else "no"])


def build_faktory():
    """Faktory's own server, or None with a word."""
    for program in ("go", "redis-server"):
        if not shutil.which(program):
            print(f"bench: {program} is not here; Faktory's server is left out")
            return None
    work = BENCH / "peers" / "faktory"
    shutil.copytree(ROOT / "bench" / "peers" / "faktory", work, dirs_exist_ok=True)
    command = ["go", "build", "-mod=mod", "-o", "faktory", "github.com/contribsys/faktory/cmd/faktory"]
    try:
        subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, timeout=300)
        return work / "faktory"
    except subprocess.CalledProcessError as e:
        print(f"bench: Faktory's server could not be built; it is left out: {e.stderr.strip()[-200:]}")
    except subprocess.TimeoutExpired:
        print("bench: Faktory's server could not be built in time; it is left out")
    return None


@contextlib.contextmanager
def faktory_server(scratch, program, fsync=False):
    """Its port. It starts a redis-server of its own, with a file of settings in /tmp that it makes if it is not there. With
    `fsync` that one has a log on the disk before it answers."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="faktory-", dir=scratch)).resolve()
    settings = pathlib.Path("/tmp/redis.conf")
    had_settings = settings.exists()
    port, web = free_port(), free_port()
    process = subprocess.Popen([str(program), "-b", f"127.0.0.1:{port}", "-w", f"127.0.0.1:{web}", "-l", "error", "-e",
                                "development", "-d", str(folder), "-c", str(folder)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        if fsync:
            for setting in (("appendfsync", "always"), ("appendonly", "yes")):
                subprocess.run(["redis-cli", "-s", str(folder / "redis.sock"), "CONFIG", "SET", *setting], check=True,
                               capture_output=True, timeout=20)
        yield port
    finally:
        end(process)
        shutil.rmtree(folder, ignore_errors=True)
        if not had_settings:
            settings.unlink(missing_ok=True)


# ---- Submits through HTTP ------------------------------------------------------------------------


def wrk(server, batch, connections):
    """Jobs a second, and the latencies of requests that follow each other as fast as they can."""
    said = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{REST_S}s", "-s", str(ROOT / "bench" / "submit.lua"),
                           f"http://127.0.0.1:{server.http}"], check=True, capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, REDRIVE_BATCH=str(batch))).stdout
    figures = json.loads(said.splitlines()[-1])
    if figures["errors"]:
        raise RuntimeError(f"{figures['errors']} submits have failed")
    return figures["requests"] * batch / figures["seconds"]


def paced(server, name, rate, seconds, connections):
    return run_rows([tool("bench_http"), "paced", name, "--port", str(server.http), "--rate", str(rate), "--seconds",
                     str(seconds), "--connections", str(connections)])


def rest_submits(scratch):
    """As fast as can be, in batches, and at half of the rate that has just been measured."""
    if not shutil.which("wrk"):
        print("bench: wrk is not here; submits over HTTP are left out")
        return []
    single, batch, half = [], [], []
    with serve(scratch) as server:
        for _ in range(REST_ROUNDS):
            single.append(wrk(server, 1, 64))
            half.append(paced(server, "serve.rest.half_load", single[-1] / 2, REST_S, 256))
            batch.append(wrk(server, 100, 16))
    rows = [row("serve.rest.submits", statistics.median(single), "1/s", True),
            row("serve.rest.batch_jobs", statistics.median(batch), "1/s", True)]
    p50s, p99s, unanswered = zip(*half)
    rows += [dict(of[0], value=statistics.median(r["value"] for r in of)) for of in (p50s, p99s)]
    return rows + [dict(unanswered[0], value=sum(r["value"] for r in unanswered))]


# ---- Many connections ----------------------------------------------------------------------------


@contextlib.contextmanager
def crowd(server, kind, n, *more):
    """Clients that do little; how many there are."""
    process = subprocess.Popen([tool("bench_http"), kind, "--port", str(server.http), "--connections", str(n), *more],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline().split()[0])
        process.stdin.close()
        left = process.stdout.readline().strip()
        print(f"bench: {kind} clients: {left}")
    finally:
        end(process)


def idle_polls(scratch):
    with serve(scratch) as server:
        with crowd(server, "polls", POLLS) as n:
            before, start = server.cpu_s(), time.monotonic()
            time.sleep(POLLS_S)
            share = (server.cpu_s() - before) / (time.monotonic() - start)
    return [row("serve.polls.connections", n, ""), row("serve.polls.core_percent", share * 100, "%")]


def good_p99_ms(server):
    rounds = [paced(server, "good", GOOD_RATE, SLOW_S, 16)[1]["value"] for _ in range(SLOW_ROUNDS)]
    return statistics.median(rounds)


def slow_that_fit():
    """So many slow clients leave open files for the good one; a full server refuses it until it has closed some."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return SLOW if files == resource.RLIM_INFINITY else min(SLOW, max(files - 1500, files // 4))


def slow_clients(scratch):
    """A good client alone and beside slow ones, on a server that lets all of them in; and who gets in by default."""
    with serve(scratch, max_connections=SLOW + 1000, has_faktory=False) as server:
        alone_ms, alone_mib = good_p99_ms(server), server.rss_mib()
        with crowd(server, "slow", slow_that_fit()) as n:
            beside_ms, beside_mib = good_p99_ms(server), server.rss_mib()
        time.sleep(1)
        after_mib = server.rss_mib()
    with serve(scratch) as server, crowd(server, "slow", SLOW + 500) as n_default:
        pass
    return [row("serve.good.p99_ms", alone_ms, "ms", True), row("serve.slow.connections", n, ""),
            row("serve.good.p99_ms.slow", beside_ms, "ms", True), row("serve.rss_mib", alone_mib, "MiB"),
            row("serve.rss_mib.slow", beside_mib, "MiB"), row("serve.rss_mib.after", after_mib, "MiB"),
            row("serve.slow.default_cap", n_default, "")]
