"""`redrive serve`: real servers, real signals. Kills have a rig of their own: tests/torture."""

import contextlib
import json
import os
import re
import resource
import select
import signal
import socket
import time

import pytest

from tests.kit.tokens import token_hash
from tests.kit.waiting import LIMIT_S, wait_for

GATED = """
tasks:
  gated:
    run: {exec: [sh, -c, 'echo start $REDRIVE_ATTEMPT >> DIR/effects; while [ ! -e DIR/gate ];
      do sleep 0.05; done; echo end $REDRIVE_ATTEMPT >> DIR/effects']}
"""

# ---- Starting and stopping ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_answers_until_a_signal_comes(bench, number):
    server = bench.serve().ready()
    status, text = server.get("/health")
    assert (status, json.loads(text)["status"]) == (200, "healthy")
    server.signal(number)
    assert server.wait() == 0
    assert server.logged(r"\bstopped\b")


def test_store_that_cannot_be_opened_is_an_error(bench):
    bench.config.write_text("store: sqlite:/nowhere/at/all.db\n")
    server = bench.serve()
    assert server.wait() == 1
    assert "/nowhere/at/all.db" in server.log()


def test_all_parts_of_a_server_see_the_same_store_in_memory(bench):
    """Its readers and its committer have handles of their own."""
    server = bench.serve("--store", "memory:").ready()
    assert server.send("POST", "/v1/jobs", {"id": "a", "task": "t"})[0] == 201
    status, text = server.get("/v1/jobs/a")
    assert (status, json.loads(text).get("state")) == (200, "queued")
    assert [job["id"] for job in json.loads(server.get("/v1/jobs")[1])["items"]] == ["a"]


def test_port_that_is_taken_is_an_error_with_the_address(bench):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = bench.serve("--listen", address)
        assert server.wait() == 1
    assert address in server.log()


def test_program_that_is_missing_is_an_error_before_the_store_is_touched(bench):
    bench.configure("tasks: {a: {run: {exec: [no-such-program]}}}\n")
    server = bench.serve()
    assert server.wait() == 2
    assert "no-such-program" in server.log()
    assert not bench.database.exists()


def test_without_tokens_only_loopback_is_served(bench):
    server = bench.serve("--listen", "0.0.0.0:0")
    assert server.wait() == 2
    assert "without tokens only loopback addresses are served" in server.log()


def test_both_interfaces_can_be_closed(bench):
    server = bench.serve("--listen", "off", "--faktory", "off").ready()
    assert not server.logged("listening")
    assert server.stop() == 0


def test_each_listener_is_announced_once(bench):
    server = bench.serve("--faktory", "127.0.0.1:0").ready()
    for interface in ("http", "faktory"):
        lines = [line for line in server.log().splitlines() if re.search(rf"\b{server.port(interface)}\b", line)]
        assert len(lines) == 1 and f" listening interface={interface} " in lines[0]


# ---- One server for one file -------------------------------------------------------------------


def test_second_server_is_refused_and_told_of_the_first(bench):
    first = bench.serve().ready()
    second = bench.serve()
    assert second.wait() == 1
    assert f"process {first.pid} serves this store already" in second.log()
    assert first.get("/health")[0] == 200


def test_lock_is_gone_with_its_process(bench):
    bench.serve().ready().kill()
    assert bench.serve().ready().stop() == 0
    assert bench.serve().ready().stop() == 0


def test_commands_and_workers_share_the_file(bench):
    bench.configure("tasks: {quick: {run: {exec: [sh, -c, 'echo $REDRIVE_JOB_ID >> DIR/effects']}}}\n")
    bench.serve("--no-work").ready()
    job = bench.enqueue("quick")
    assert bench.redrive("work", "--until-idle").returncode == 0
    assert bench.effects() == [job]


# ---- Work --------------------------------------------------------------------------------------


def test_jobs_are_run_and_counted(bench):
    bench.configure("tasks: {quick: {run: {exec: [sh, -c, 'echo $REDRIVE_JOB_ID >> DIR/effects']}}}\n")
    server = bench.serve().ready()
    job = bench.enqueue("quick")
    wait_for(lambda: bench.state(job) == "completed", "the job ends")
    assert bench.effects() == [job]
    assert server.metric('redrive_jobs_finished_total{queue="default",task="quick",outcome="completed"}') == 1
    assert server.metric('redrive_attempt_duration_seconds_count{queue="default",task="quick",outcome="completed"}') == 1
    assert server.metric("redrive_workers") == 1


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_cancel_by_the_server_that_runs_the_job_ends_it_without_a_heartbeat(bench):
    bench.configure(
        "tasks: {slow: {lease: 2h, heartbeat: 1h,"
        " run: {exec: [sh, -c, 'echo $$ >> DIR/effects; exec sleep 600']}}}\n"
    )
    server = bench.serve().ready()
    job = bench.enqueue("slow")
    pid = int(wait_for(bench.effects, "the job starts")[0])
    connection = server.connect()
    connection.request("DELETE", f"/jobs/{job}")
    assert connection.getresponse().status == 200
    connection.close()
    wait_for(lambda: not is_alive(pid), "its run ends")
    server.wait_log(r"\bcancelled\b")
    assert "lease_lost" not in server.log()
    assert bench.state(job) == "cancelled"


def test_server_without_work_tells_of_itself_too(bench):
    server = bench.serve().ready()
    items = wait_for(lambda: json.loads(server.get("/v1/workers")[1])["items"], "the row is there")
    assert [item["slots"] for item in items] == [0]
    assert server.metric("redrive_workers") == 1
    assert bench.enqueue("mail")
    assert "but no workers: 1 ready job waits" in bench.redrive("stats").stdout
    assert server.stop() == 0
    workers = json.loads(bench.redrive("stats", "--json").stdout)["workers"]
    assert workers == []


def is_open(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_first_signal_lets_jobs_end(bench):
    bench.configure(GATED)
    server = bench.serve().ready()
    job = bench.enqueue("gated")
    wait_for(lambda: bench.effects() == ["start 1"], "the job starts")
    server.signal(signal.SIGTERM)
    server.wait_log(r"\bstopping\b")
    wait_for(lambda: not is_open(server.port()), "nobody more is let in")
    (bench.dir / "gate").touch()
    assert server.wait() == 0
    assert bench.effects() == ["start 1", "end 1"]
    assert bench.state(job) == "completed"


def test_second_signal_releases_jobs_at_once(bench):
    bench.configure(GATED)
    server = bench.serve().ready()
    job = bench.enqueue("gated")
    wait_for(lambda: bench.effects() == ["start 1"], "the job starts")
    server.signal(signal.SIGTERM)
    server.wait_log(r"\bstopping\b")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert bench.state(job) == "queued"
    assert bench.job(job)["attempts"] in (0, [])


def test_grace_has_an_end(bench):
    bench.configure(GATED)
    server = bench.serve("--grace", "100ms").ready()
    job = bench.enqueue("gated")
    wait_for(lambda: bench.effects() == ["start 1"], "the job starts")
    assert server.stop() == 0
    assert bench.state(job) == "queued"


# ---- Reload ------------------------------------------------------------------------------------


def test_reload_puts_new_tasks_to_work(bench):
    server = bench.serve().ready()
    job = bench.enqueue("quick")
    bench.configure("tasks: {quick: {run: {exec: [sh, -c, 'echo $REDRIVE_JOB_ID >> DIR/effects']}}}\n")
    server.reload()
    wait_for(lambda: bench.effects() == [job], "the job is run")
    bench.configure()
    server.reload()
    other = bench.enqueue("quick")
    assert server.get("/health")[0] == 200
    assert bench.state(other) == "queued"
    assert server.stop() == 0


def test_reload_loses_neither_connection_nor_job(bench):
    bench.configure(GATED)
    server = bench.serve().ready()
    job = bench.enqueue("gated")
    wait_for(lambda: bench.effects() == ["start 1"], "the job starts")
    connection = server.connect()
    connection.request("GET", "/health")
    connection.getresponse().read()
    local_port = connection.sock.getsockname()[1]
    for concurrency in (2, 3, 4):
        bench.configure(GATED.replace("run: {", f"run: {{concurrency: {concurrency}, "))
        server.reload()
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    assert connection.sock.getsockname()[1] == local_port
    connection.close()
    (bench.dir / "gate").touch()
    wait_for(lambda: bench.state(job) == "completed", "the job ends")
    assert bench.effects() == ["start 1", "end 1"]
    assert server.stop() == 0


def test_reload_changes_policy_for_jobs_that_wait(bench):
    task = "tasks: {{flaky: {{run: {{exec: [sh, -c, 'exit 75']}}, retry: {{strategy: fixed, initial_delay: {}, max_attempts: {}, jitter: none}}}}}}\n"
    bench.configure(task.format("1s", 1))
    server = bench.serve("--no-work").ready()
    job = bench.enqueue("flaky")
    bench.configure(task.format("50s", 5))
    server.reload()
    assert bench.redrive("work", "--until-idle").returncode == 0
    assert bench.state(job) == "retrying"


def test_bad_file_is_refused_and_the_old_one_stays(bench):
    bench.configure("tasks: {quick: {run: {exec: [sh, -c, 'echo $REDRIVE_JOB_ID >> DIR/effects']}}}\n")
    server = bench.serve().ready()
    for bad, why in [
        ("tasks: {quick: {rnu: {}}}\n", "rnu"),
        ("tasks: [\n", "redrive.yaml"),
        ("tasks: {quick: {run: {exec: [no-such-program]}}}\n", "no-such-program"),
        ("defaults: {retry: {max_delay: soon}}\ncron: {a: {task: x, schedule: never}}\n", "schedule"),
    ]:
        bench.configure(bad)
        server.reload()
        assert not server.logged(r"\breloaded\b")
        assert why in server.log().split("reload_refused", 1)[1]
    bench.configure()
    job = bench.enqueue("quick")
    wait_for(lambda: bench.effects() == [job], "the job is run")


def test_reload_changes_tokens(bench):
    server = bench.serve().ready()
    assert server.get("/metrics")[0] == 200
    bench.configure(f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n")
    server.reload()
    assert server.get("/metrics")[0] == 401
    assert server.get("/metrics", "wrong")[0] == 401
    assert server.get("/metrics", "secret")[0] == 200


def test_reload_does_not_open_a_public_port_to_strangers(bench):
    public = "{http: '0.0.0.0:0', faktory: 'off', insecure: true}"
    bench.configure(f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n", public)
    server = bench.serve().ready()
    bench.configure()
    server.reload()
    assert "there are no tokens any more" in server.log()
    assert server.get("/metrics")[0] == 401
    assert server.get("/metrics", "secret")[0] == 200


def test_what_needs_a_restart_is_said(bench):
    server = bench.serve().ready()
    bench.config.write_text(f"store: sqlite:{bench.dir}/other.db\nlisten: {{http: '127.0.0.1:0', faktory: 'off'}}\n")
    server.reload()
    server.wait_log(r"needs_a_restart key=store")
    assert server.get("/health")[0] == 200
    assert not (bench.dir / "other.db").exists()


def test_many_reloads_leave_everything_in_order(bench):
    server = bench.serve().ready()
    for i in range(100):
        bench.configure(f"cron: {{c{i}: {{task: x, schedule: '0 0 1 1 *'}}}}\ndefaults: {{retry: {{max_attempts: {i + 1}}}}}\n")
        server.signal(signal.SIGHUP)
    server.reload()
    wait_for(lambda: server.logged(r"reloaded"), "a reload")
    assert server.get("/health")[0] == 200
    assert server.stop() == 0


# ---- Draining ----------------------------------------------------------------------------------


def post(server, path, body):
    connection = server.connect()
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_remote_workers_can_settle_while_the_server_stops(bench):
    server = bench.serve().ready()
    bench.enqueue("mail")
    bench.enqueue("mail")
    (job,) = post(server, "/claim", {"queues": ["default"], "n": 1, "worker": "w"})[1]["jobs"]
    server.signal(signal.SIGTERM)
    wait_for(lambda: server.get("/ready")[0] == 503, "it is not ready")
    assert post(server, "/claim", {"queues": ["default"], "n": 1, "worker": "w"})[0] == 503
    mine = {"id": job["id"], "token": job["token"]}
    assert post(server, "/extend", {"items": [{**mine, "lease": "30s"}]})[1]["items"][0]["status"] == 200
    assert post(server, "/settle", {"items": [{**mine, "status": "SUCCESS"}]})[1]["items"][0]["status"] == 200
    assert server.wait() == 0
    assert bench.state(job["id"]) == "completed"


def test_a_stop_waits_for_a_lease_that_was_extended_as_the_task_says(bench):
    """It was claimed for five seconds, and an extension without `lease` is one of 30."""
    server = bench.serve().ready()
    bench.enqueue("mail")
    (job,) = post(server, "/claim", {"queues": ["default"], "n": 1, "worker": "w", "lease": "5s"})[1]["jobs"]
    mine = {"id": job["id"], "token": job["token"]}
    assert post(server, "/extend", {"items": [mine]})[1]["items"][0]["status"] == 200
    time.sleep(5.5)
    server.signal(signal.SIGTERM)
    wait_for(lambda: server.get("/ready")[0] == 503, "it is not ready")
    time.sleep(0.2)  # it looks every 20 ms
    assert post(server, "/settle", {"items": [{**mine, "status": "SUCCESS"}]})[1]["items"][0]["status"] == 200
    assert server.wait() == 0
    assert bench.state(job["id"]) == "completed"


def test_ready_is_503_for_a_while_before_the_end(bench):
    bench.configure(listen="{http: '127.0.0.1:0', faktory: 'off', drain: 1h}")
    server = bench.serve().ready()
    server.signal(signal.SIGTERM)
    wait_for(lambda: server.get("/ready")[0] == 503, "it is not ready")
    for _ in range(20):
        assert server.get("/ready")[0] == 503
        assert server.get("/jobs")[0] == 200
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_stop_does_not_wait_for_a_lease_that_has_ended(bench):
    server = bench.serve("--grace", "1h").ready()
    bench.enqueue("mail")
    assert len(post(server, "/claim", {"queues": ["default"], "n": 1, "worker": "w", "lease": "1s"})[1]["jobs"]) == 1
    assert server.stop() == 0


def test_draining_ends_with_the_grace(bench):
    server = bench.serve("--grace", "300ms").ready()
    bench.enqueue("mail")
    assert len(post(server, "/claim", {"queues": ["default"], "n": 1, "worker": "w"})[1]["jobs"]) == 1
    assert server.stop() == 0


# ---- Many connections --------------------------------------------------------------------------


def limited(soft, hard):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return limit


def test_soft_limit_of_open_files_is_raised(bench):
    server = bench.serve(preexec_fn=limited(300, 2000)).ready()
    limits = open(f"/proc/{server.pid}/limits", encoding="ascii").read()
    assert re.search(r"Max open files\s+2000\s+2000\s", limits)
    assert server.stop() == 0


def test_handlers_have_the_limit_that_the_server_was_started_with(bench):
    bench.configure("tasks: {mail: {run: {exec: [sh, -c, 'ulimit -Sn']}}}\n")
    server = bench.serve(preexec_fn=limited(300, 2000)).ready()
    assert bench.redrive("enqueue", "mail", "--id", "a").returncode == 0
    wait_for(lambda: json.loads(server.get("/jobs/a")[1])["state"] == "completed", "the job is done")
    assert json.loads(server.get("/jobs/a")[1])["result"] == 300
    assert server.stop() == 0


def test_idle_connections_lock_no_other_client_out(bench):
    server = bench.serve(preexec_fn=limited(500, 500)).ready()
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port()), timeout=LIMIT_S))
        for _ in range(20):
            assert server.get("/health")[0] == 200
            assert server.get("/jobs")[0] == 200
    assert server.stop() == 0


def test_health_is_told_when_all_connections_are_at_work(bench):
    bench.configure(listen="{http: '127.0.0.1:0', faktory: 'off', max_connections: 4, max_per_address: 100}")
    server = bench.serve().ready()
    body = json.dumps({"queues": ["default"], "worker": "w", "wait": 60})
    claims = []

    def all_are_at_work():
        """Whether four claims wait. One whose request had not been read could be cut for a new connection."""
        for claim in [claim for claim in claims if select.select([claim.sock], [], [], 0)[0]]:
            claims.remove(claim)
            claim.close()
        while len(claims) < 4:
            claims.append(server.connect())
            claims[-1].request("POST", "/claim", body)
        return server.get("/jobs")[0] == 503

    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [claim.close() for claim in claims])
        wait_for(all_are_at_work, "all connections are at work")
        assert server.get("/health")[0] == 200
        assert server.get("/ready")[0] == 200
    assert server.stop() == 0


# ---- Alerts ------------------------------------------------------------------------------------


def test_alerts_are_told_from_the_first_moment_and_after_a_reload(bench):
    never = "tasks: {never: {run: {exec: [sh, -c, 'exit 65']}}}\n"
    rule = "alerts: [{{when: 'dead_letters {} 1', command: [sh, -c, 'cat >> DIR/{}']}}]\n"
    bench.configure(never)
    bench.enqueue("never")
    assert bench.redrive("work", "--until-idle").returncode == 3

    def told(name):
        path = bench.dir / name
        return path.exists() and "firing" in path.read_text("utf-8")

    bench.configure(never + rule.format(">=", "first"))
    server = bench.serve("--no-work").ready()
    wait_for(lambda: told("first"), "the alert arrives")
    bench.configure(never + rule.format("<=", "second"))
    server.reload()
    wait_for(lambda: told("second"), "the other alert arrives")
    assert server.stop() == 0


# ---- The supervisor ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_supervisor_is_told(bench, kind):
    name = str(bench.dir / "notify") if kind == "path" else f"@redrive-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(name.replace("@", "\0", 1))
        ear.settimeout(LIMIT_S)

        def hear(word):
            while True:
                text = ear.recv(4096).decode()
                if word in text.splitlines():
                    return text

        server = bench.serve(env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "100000"})
        hear("READY=1")
        assert server.get("/health")[0] == 200
        hear("WATCHDOG=1")
        server.signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in hear("RELOADING=1")
        hear("READY=1")
        server.signal(signal.SIGTERM)
        hear("STOPPING=1")
        assert server.wait() == 0


def test_nobody_to_tell_is_no_trouble(bench):
    server = bench.serve(env={"NOTIFY_SOCKET": str(bench.dir / "gone"), "WATCHDOG_USEC": "x"})
    assert server.ready().stop() == 0


# ---- Breakers ----------------------------------------------------------------------------------


def test_short_states_of_a_breaker_are_in_its_history(bench):
    """Neither a disabled breaker that is reset nor a half-open one lasts until the next look."""
    bench.configure("""
defaults: {breaker: {failure_threshold: 1, recovery_timeout: 50ms, success_threshold: 1}}
tasks: {flaky: {retry: {initial_delay: 10ms, jitter: none}, run: {exec: [sh, -c, 'test -e DIR/mended || exit 75']}}}
""")
    server = bench.serve().ready()

    def history(key):
        items = json.loads(server.get("/v1/retry/circuit-breakers/history")[1])["items"]
        return [(item["previous_state"], item["state"]) for item in items if item["key"] == key]

    for verb in ("disable", "reset"):
        assert server.send("POST", f"/v1/retry/circuit-breakers/mail/{verb}", None)[0] == 200
    assert history("mail") == [("closed", "disabled"), ("disabled", "closed")]
    server.send("POST", "/v1/tasks/flaky", {})
    wait_for(lambda: ("closed", "open") in history("flaky"), "it opens")
    (bench.dir / "mended").touch()
    found = wait_for(lambda: (all_ := history("flaky"))[-1][1] == "closed" and all_, "it closes")
    assert found[0] == ("closed", "open") and found[-1] == ("half_open", "closed")
    assert all(before[1] == after[0] for before, after in zip(found, found[1:]))
