"""docs/comparison.md is made from a run of the benchmarks (bench/comparison.py)."""
import json
import subprocess
import sys

from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S

ABOUT = {"processors": 2, "architecture": "x86_64", "kernel": "6.1", "file_system": "ext4", "load": 0.5,
         "versions": {"beanstalkd": "1.12", "river": "0.50.0"}}


def row(name, value, durable, unit="1/s"):
    return {"name": name, "value": value, "unit": unit, "durable": durable}


def make(tmp_path, text):
    (tmp_path / "bench.json").write_text(text)
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "comparison.py"), str(tmp_path / "bench.json"), str(tmp_path / "page.md")],
                          capture_output=True, text=True, check=False, timeout=LIMIT_S)
    page = tmp_path / "page.md"
    return done, page.read_text() if page.exists() else None


def test_ours_stands_beside_each_peer_of_the_run(tmp_path):
    rows = [row("engine.lives", 60000, True), row("beanstalkd.fsync.lives", 8000, True), row("beanstalkd.memory.lives", 50000, False),
            row("core.breaker_guarded", 90, None, "ns"), row("gobreaker.closed", 180, None, "ns"), row("redis.lives", 9000, True)]
    _, page = make(tmp_path, json.dumps({"about": ABOUT, "rows": rows}))
    assert "| | beanstalkd with a binlog | 8,000 | survives power loss | 7.50 × |" in page.replace("|  |", "| |")
    assert "50,000 | lost with the power | 1.20 ×" in page
    assert "gobreaker | 180 ns |  | 2.00 ×" in page, "the smaller time is the better one"
    assert "on Redis" not in page.split("## Who")[0], "what has no peer in this run is left out"
    assert "| River | 0.50.0 |" in page


def test_without_a_run_it_says_what_to_do(tmp_path):
    done, page = make(tmp_path, '{"rows": []}')
    assert done.returncode == 1 and page is None
    assert "make bench" in done.stderr


def test_what_was_measured_over_a_network_is_one_table_for_a_store(tmp_path):
    rows = [row("net.redis.1000us.1p.jobs", 17168.2, True), row("net.bullmq.1000us.1p.jobs", 6469.4, True)]
    _, page = make(tmp_path, json.dumps({"about": ABOUT, "rows": rows}))
    network = page.split("## Over a network")[1].split("## Who")[0]
    assert "|  | 1 ms, 1 |" in network, "only what was measured is a column"
    assert "| Redrive | 17,168 |" in network and "| BullMQ | 6,469 |" in network and "| Asynq | – |" in network
    assert "| Redis, 1 ms, 1 process: Redrive to BullMQ | 1.5 | 3 | 2.65 | held |" in network
