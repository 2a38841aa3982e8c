"""`redrive serve`: real servers, real signals. Kills have a rig of their own: tests/torture."""

import contextlib
import http.client
import json
import os
import re
import resource
import select
import signal
import socket
import sqlite3
import ssl
import subprocess
import time

import pytest

from faktory_kit import Client as FaktoryClient, ServerError as FaktoryError
from serve_kit import LIMIT_S, Bench, make_certificate, token_hash, wait_for

GATED = """
tasks:
  gated:
    run: {exec: [sh, -c, 'echo start $REDRIVE_ATTEMPT >> DIR/effects; while [ ! -e DIR/gate ];
      do sleep 0.05; done; echo end $REDRIVE_ATTEMPT >> DIR/effects']}
"""


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    yield one
    one.close()


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
    wait_for(lambda: server.metric("redrive_workers") == 1, "the row is there")
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
        ("retry: {max_delay: soon}\ncron: {a: {task: x, schedule: never}}\n", "schedule"),
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
        bench.configure(f"cron: {{c{i}: {{task: x, schedule: '0 0 1 1 *'}}}}\nretry: {{max_attempts: {i + 1}}}\n")
        server.signal(signal.SIGHUP)
    server.reload()
    wait_for(lambda: server.logged(r"reloaded"), "a reload")
    assert server.get("/health")[0] == 200
    assert server.stop() == 0


# ---- Tokens that are taken away while their clients wait ----------------------------------------


def token_row(name, scopes, tenant="default"):
    return f"{{name: {name}, hash: '{token_hash(name)}', scopes: [{scopes}], tenant: {tenant}}}"


def test_streams_of_a_token_end_when_a_reload_takes_it_away(bench):
    kept, gone, narrowed, moved = "kept", "gone", "narrowed", "moved"
    bench.configure(f"tokens: [{', '.join(token_row(name, 'read, enqueue') for name in (kept, gone, narrowed, moved))}]\n")
    server = bench.serve().ready()
    ears = {name: Ear(server, token=name) for name in (kept, gone, narrowed, moved)}
    bench.configure(
        f"tokens: [{token_row(kept, 'read, enqueue, work')}, {token_row(narrowed, 'enqueue')}, "
        f"{token_row(moved, 'read, enqueue', 'elsewhere')}]\n"
    )
    server.reload()
    # The end comes at once, not with the next event.
    for name in (gone, narrowed, moved):
        assert b"event:" not in ears[name].rest(), name
    job = push(server, "mail", kept)
    assert ears[kept].next()[2]["job_id"] == job
    for ear in ears.values():
        ear.close()
    assert server.stop() == 0


def test_streams_without_a_token_end_when_tokens_come(bench):
    server = bench.serve().ready()
    ear = Ear(server)
    bench.configure(f"tokens: [{token_row('eye', 'read')}]\n")
    server.reload()
    assert b"event:" not in ear.rest()
    ear.close()


def test_waiting_claims_of_a_token_end_when_a_reload_takes_it_away(bench):
    bench.configure(f"tokens: [{token_row('ops', 'read, enqueue, work')}, {token_row('gone', 'work')}]\n")
    server = bench.serve().ready()
    claims = {}
    for name in ("gone", "ops"):
        claims[name] = server.connect()
        body = {"worker": f"worker-of-{name}", "wait": 50, "n": 1}
        claims[name].request("POST", "/claim", json.dumps(body), {"Content-Type": "application/json", **bearer(name)})
        wait_for(lambda n=name: f"worker-of-{n}" in server.get("/workers", "ops")[1], "the claim waits")
    bench.configure(f"tokens: [{token_row('ops', 'read, enqueue, work')}]\n")
    server.reload()
    answer = claims["gone"].getresponse()
    assert (answer.status, answer.getheader("WWW-Authenticate")) == (401, 'Bearer realm="redrive", error="invalid_token"')
    assert "not valid for this any more" in answer.read().decode()
    job = push(server, "mail", "ops")
    answer = claims["ops"].getresponse()
    assert [one["id"] for one in json.loads(answer.read())["jobs"]] == [job]
    for connection in claims.values():
        connection.close()


# ---- Who did what ------------------------------------------------------------------------------


def test_admin_actions_and_refusals_are_logged_with_the_token(bench):
    bench.configure(
        f"tokens: [{{name: ops, hash: '{token_hash('secret')}', scopes: [admin, read]}}, "
        f"{{name: eye, hash: '{token_hash('look')}', scopes: [read]}}]\n"
    )
    server = bench.serve().ready()

    def ask(method, path, token):
        connection = server.connect()
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
        status = connection.getresponse().status
        connection.close()
        return status

    assert ask("POST", "/queues/mail/pause", "secret") == 200
    assert ask("DELETE", "/v1/jobs/none", "secret") == 404
    assert ask("GET", "/jobs", "secret") == 200
    client = r"tenant=default client=127\.0\.0\.1"
    assert server.logged(rf'admin_action interface=http token=ops {client} action="POST /queues/{{queue}}/pause" target=mail result=done')
    assert server.logged(rf'admin_action interface=http token=ops {client} action="DELETE /jobs/{{id}}" target=none result=failed')
    assert len(re.findall("admin_action interface", server.log())) == 2

    assert ask("POST", "/queues/mail/resume", "look") == 403
    assert server.logged(r"access_refused interface=http token=eye client=127\.0\.0\.1 .*lacks the scope admin")
    for _ in range(200):
        assert ask("GET", "/jobs", "wrong-one") == 401
    assert len(re.findall("access_refused", server.log())) < 100
    more = r"token is not known.* more=[1-9]"
    wait_for(lambda: ask("GET", "/jobs", "wrong-one") == 401 and server.logged(more), "a line with a count")
    assert "wrong-one" not in server.log()


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


# ---- A Unix socket -----------------------------------------------------------------------------


def ask_socket(path, target, **headers):
    """The status that a server on a Unix socket answers with."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(LIMIT_S)
        client.connect(str(path))
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "Connection: close"]
        client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(client.makefile("rb").readline().split()[1])


@pytest.mark.parametrize("mode", ["0600", "0660"])
def test_unix_socket_is_served_with_its_permissions_and_removed(bench, mode):
    path = bench.dir / "s.sock"
    bench.configure(listen=f"{{http: 'unix:{path}', socket_mode: '{mode}', faktory: 'off'}}")
    server = bench.serve().ready()
    assert server.logged(rf"listening interface=http address=unix:{path}")
    assert path.stat().st_mode & 0o777 == int(mode, 8)
    assert ask_socket(path, "/jobs", Host="redrive") == 200
    # The permissions of the file let the proxy in, not the proxy's clients.
    assert ask_socket(path, "/jobs", Host="redrive", **{"X-Forwarded-For": "10.0.0.1"}) == 403
    server.kill()
    assert path.exists()
    server = bench.serve().ready()
    assert ask_socket(path, "/ready", Host="localhost") == 200
    assert server.stop() == 0
    assert not path.exists()


# ---- TLS ---------------------------------------------------------------------------------------


def use_certificate(directory, cert, key):
    (directory / "cert.pem").write_text((directory / f"{cert}.pem").read_text("ascii"), "ascii")
    (directory / "key.pem").write_text((directory / f"{key}.key").read_text("ascii"), "ascii")


TLS = "{http: '127.0.0.1:0', faktory: '127.0.0.1:0', tls: {cert: DIR/cert.pem, key: DIR/key.pem}}"


def get_over_tls(server, trusted, path="/ready"):
    context = ssl.create_default_context(cadata=trusted)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port(), timeout=60, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_certificate_is_replaced_by_a_reload_and_a_bad_one_is_refused(bench):
    first, second = make_certificate(bench.dir, "first"), make_certificate(bench.dir, "second")
    use_certificate(bench.dir, "first", "first")
    bench.configure(listen=TLS.replace("DIR", str(bench.dir)))
    server = bench.serve().ready()
    assert get_over_tls(server, first) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        get_over_tls(server, second)

    use_certificate(bench.dir, "second", "first")
    server.reload()
    assert server.logged(r"reload_refused .*listen.tls.key: is not the key of the certificate")
    assert get_over_tls(server, first) == 200

    use_certificate(bench.dir, "second", "second")
    server.reload()
    assert server.logged("certificate_replaced")
    assert get_over_tls(server, second) == 200
    context = ssl.create_default_context(cadata=second)
    assert FaktoryClient(server.port("faktory"), tls=context).info()
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("cert", "key", "why", "exit_of_check"),
    [
        ("none", "a", r"redrive.yaml:2: listen.tls.cert: .*", 0),
        ("a", "none", r"redrive.yaml:2: listen.tls.key: .*", 0),
        ("a", "b", r"redrive.yaml:2: listen.tls.key: is not the key of the certificate", 2),
        ("text", "a", r"redrive.yaml:2: listen.tls.cert: is not a certificate in PEM form", 2),
    ],
)
def test_certificate_that_cannot_be_used_is_an_error_with_its_line(bench, cert, key, why, exit_of_check):
    make_certificate(bench.dir, "a")
    make_certificate(bench.dir, "b")
    (bench.dir / "text.pem").write_text("hello", "ascii")
    listen = f"{{http: '127.0.0.1:0', faktory: 'off', tls: {{cert: {bench.dir}/{cert}.pem, key: {bench.dir}/{key}.key}}}}"
    bench.configure(listen=listen)
    server = bench.serve()
    assert server.wait() != 0
    assert server.logged(why)
    checked = bench.redrive("config", "check")
    assert checked.returncode == exit_of_check
    assert re.search(why, checked.stderr), checked.stderr
    assert not bench.database.exists()


def test_other_machines_are_not_served_without_tls_unless_that_is_said(bench):
    tokens = f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n"
    bench.configure(tokens, "{http: '0.0.0.0:0', faktory: 'off'}")
    server = bench.serve()
    assert server.wait() == 2
    assert "is open to other machines, but there is no TLS" in server.log()
    bench.configure(tokens, "{http: '0.0.0.0:0', faktory: 'off', insecure: true}")
    assert bench.serve().ready().stop() == 0


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


# ---- Events ------------------------------------------------------------------------------------


def bearer(token):
    return {"Authorization": f"Bearer {token}"} if token else {}


class Ear:
    """A listener; events are (id, type, data)."""

    def __init__(self, server, path="/events", last_id=None, token=None):
        self.connection = server.connect()
        headers = {"Last-Event-ID": last_id} if last_id else {}
        self.connection.request("GET", path, headers={**headers, **bearer(token)})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.getheader("Content-Type") == "text/event-stream"

    def next(self):
        fields = {}
        while True:
            line = self.answer.fp.readline() if not self.answer.chunked else self.answer.readline()
            assert line, "the stream has ended"
            line = line.decode().rstrip("\n")
            if line == "" and "event" in fields:
                return fields["id"], fields["event"], json.loads(fields["data"])
            if ": " in line and not line.startswith(":"):
                key, value = line.split(": ", 1)
                fields[key] = value

    def rest(self):
        """What comes until the server ends the stream."""
        until = time.monotonic() + LIMIT_S
        text = b""
        while True:
            block = self.answer.read1(65536)
            if not block:
                return text
            text += block
            assert time.monotonic() < until, "the stream goes on"

    def close(self):
        self.connection.close()


def push(server, task, token=None):
    """Submits through the server, whose own doings events tell of."""
    connection = server.connect()
    headers = {"Content-Type": "application/json", **bearer(token)}
    connection.request("POST", "/jobs", json.dumps({"task": task}), headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert answer.status == 201, body
    return body["id"]


def test_events_are_told_and_go_on_where_they_were(bench):
    server = bench.serve().ready()
    ear = Ear(server, "/events?type=submitted")
    first = push(server, "mail")
    number, kind, data = ear.next()
    assert (kind, data["job_id"], data["task"]) == ("submitted", first, "mail")
    ear.close()
    missed = push(server, "mail")
    ear = Ear(server, "/events", number)
    again, kind, data = ear.next()
    assert (kind, data["job_id"]) == ("submitted", missed)
    assert int(again) > int(number)
    ear.close()
    server.stop()
    ear = Ear(bench.serve().ready(), "/events", again)
    assert ear.next()[1] == "reset"
    ear.close()


def test_breakers_that_change_are_told(bench):
    server = bench.serve().ready()
    ear = Ear(server, "/events?type=breaker")
    connection = server.connect()
    connection.request("POST", "/retry/circuit-breakers/mail/trip")
    assert connection.getresponse().status == 200
    connection.close()
    _, kind, data = ear.next()
    assert (kind, data["key"], data["state"], data["previous_state"]) == ("breaker", "mail", "forced_open", "closed")
    ear.close()
    server.wait_log(r"WARN +breaker breaker=mail tenant=default state=forced_open previous_state=closed")


def test_each_tenant_hears_of_its_own(bench):
    token = "{{name: {0}, hash: '{1}', scopes: [read, enqueue], tenant: {0}}}"
    tokens = ", ".join(token.format(name, token_hash(name)) for name in ("red", "blue"))
    bench.configure(f"tokens: [{tokens}]\n")
    server = bench.serve().ready()
    assert server.get("/events")[0] == 401
    ears = {name: Ear(server, token=name) for name in ("red", "blue")}
    jobs = {name: push(server, "mail", name) for name in ("red", "blue")}
    for name, ear in ears.items():
        number, _, data = ear.next()
        assert data["job_id"] == jobs[name]
        ear.close()
    # Whoever asks for what was before gets of that its own, too.
    earliest = str(int(number) - 2)
    for name in ("red", "blue"):
        ear = Ear(server, last_id=earliest, token=name)
        later = push(server, "mail", name)
        assert [ear.next()[2].get("job_id") for _ in range(2)] == [jobs[name], later]
        ear.close()


def test_a_stream_ends_when_its_token_may_do_less(bench):
    """Less is shown to it from then on: the errors of jobs, where `redact` has rules."""
    def configure(scopes):
        token = "{{name: {0}, hash: '{1}', scopes: [{2}], tenant: default}}"
        bench.configure(f"redact: [password]\ntokens: [{token.format('ops', token_hash('ops'), scopes)}, {token.format('other', token_hash('other'), 'read, enqueue')}]\n")

    configure("read, enqueue, admin")
    server = bench.serve().ready()
    ear, other = Ear(server, token="ops"), Ear(server, token="other")
    configure("read, enqueue")
    server.reload()
    ear.rest()
    ear.close()
    again = Ear(server, token="ops")
    job_id = push(server, "mail", "ops")
    assert [listener.next()[2]["job_id"] for listener in (again, other)] == [job_id] * 2  # the other one has gone on
    again.close()
    other.close()


def test_unknown_type_of_event_is_refused(bench):
    status, text = bench.serve().ready().get("/events?type=complete")
    assert status == 400
    assert "completed" in text and json.loads(text)["field"] == "type"


@pytest.mark.parametrize("digest", ["soon", "1ms", "2m", ""])
def test_a_digest_that_is_no_span_is_refused(bench, digest):
    status, text = bench.serve().ready().get(f"/events?digest={digest}")
    assert (status, json.loads(text)["field"]) == (400, "digest")


def test_listener_does_not_hold_up_the_end(bench):
    server = bench.serve().ready()
    ear = Ear(server)
    assert server.stop() == 0
    ear.close()


# ---- Faktory -----------------------------------------------------------------------------------


def test_flush_takes_jobs_that_wait_for_others(bench):
    server = bench.serve("--faktory", "127.0.0.1:0").ready()
    jobs = [{"task": "mail", "id": "first"}, {"task": "mail", "id": "second", "after": "first"}]
    assert server.send("POST", "/v1/jobs", jobs)[0] == 201
    assert FaktoryClient(server.port("faktory")).ask("FLUSH") == "OK"
    assert server.get("/v1/jobs/first")[0] == server.get("/v1/jobs/second")[0] == 404


def test_faktory_stays_closed_when_there_are_tokens_and_no_passwords(bench):
    tokens = f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n"
    bench.configure(tokens, "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    server = bench.serve().ready()
    assert server.logged("faktory_closed")
    assert not server.logged("interface=faktory")
    server.stop()
    assert bench.serve("--faktory", "127.0.0.1:0").wait() == 2
    passwords = bench.dir / "passwords"
    passwords.write_text("# of the workers\nsesame\nzoo open-up\n")
    server = bench.serve("--faktory-passwords", str(passwords)).ready()
    assert server.port("faktory") > 0
    assert server.stop() == 0


def test_reload_closes_the_faktory_port_to_clients_without_a_password(bench):
    listen = "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}"
    tokens = f"tokens: [{{name: eye, hash: '{token_hash('secret')}', scopes: [read]}}]\n"
    bench.configure("", listen)
    server = bench.serve().ready()
    port = server.port("faktory")
    old = FaktoryClient(port)
    assert old.info()

    # Tokens alone would leave this port open to every client.
    bench.configure(tokens, listen)
    server.reload()
    assert not server.logged(r"\breloaded\b") and server.logged("although there are tokens")
    assert old.info() and server.get("/stats")[0] == 200

    secret = bench.dir / "secret"
    secret.write_text("sesame\n")
    passwords = f"faktory_passwords: [{{name: shop, password_file: '{secret}', scopes: [enqueue, read]}}]\n"
    bench.configure(tokens + passwords, listen)
    server.reload()
    assert old.is_closed()
    with pytest.raises(FaktoryError):
        FaktoryClient(port, password="wrong")
    shop = FaktoryClient(port, password="sesame")
    shop.push("job-00001")
    assert "scope" in shop.error("FETCH default")

    # The file is read again; a client that knows only the former password is out.
    secret.write_text("open-up\n")
    server.reload()
    assert shop.is_closed()
    shop = FaktoryClient(port, password="open-up")
    assert shop.info()["total_enqueued"] == 1

    bench.configure(tokens, "{http: '127.0.0.1:0', faktory: off}")
    server.reload()
    assert shop.is_closed()
    with pytest.raises(OSError):
        FaktoryClient(port)
    assert server.stop() == 0


def test_faktory_passwords_that_cannot_be_read_are_named(bench):
    listen = "{http: off, faktory: '127.0.0.1:0'}"
    bench.configure("faktory_passwords: [{name: shop, password_env: NOT_SET, scopes: [enqueue]}]\n", listen)
    server = bench.serve()
    assert server.wait() == 2
    assert server.logged("shop") and server.logged("NOT_SET")
    bench.configure("faktory_passwords: [{name: shop, scopes: [enqueue]}]\n", listen)
    server = bench.serve()
    assert server.wait() == 2
    assert server.logged("password_env")


def test_an_empty_file_of_faktory_passwords_opens_nothing(bench):
    """At start it is refused; a reload that meets one keeps the passwords there were."""
    bench.configure("", "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    passwords = bench.dir / "passwords"
    passwords.write_text("# none yet\n\n")
    server = bench.serve("--faktory-passwords", str(passwords))
    assert server.wait() == 2 and server.logged("has none")
    passwords.write_text("sesame\n")
    server = bench.serve("--faktory-passwords", str(passwords)).ready()
    port = server.port("faktory")
    passwords.write_text("")
    server.reload()
    assert server.logged("has none")
    with pytest.raises(FaktoryError):
        FaktoryClient(port)
    assert FaktoryClient(port, password="sesame").info()
    assert server.stop() == 0


def test_faktory_clients_settle_jobs_that_were_claimed_there_only(bench):
    bench.configure("tasks: {mail: {}, own: {run: {exec: [sleep, '60']}}}\n",
                    "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    server = bench.serve("--worker", "pool-1", "--grace", "0s").ready()

    def post(path, body):
        connection = server.connect()
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        text = json.loads(answer.read())
        connection.close()
        return answer.status, text

    ids = {}
    for task in ("mail", "own"):
        ids[task] = post("/jobs", {"task": task})[1]["id"]
    assert post("/claim", {"worker": "http-1", "tasks": ["mail"]})[1]["jobs"][0]["id"] == ids["mail"]
    wait_for(lambda: bench.state(ids["own"]) == "running", "the pool")
    for wid, job_id in (("http-1", ids["mail"]), ("pool-1", ids["own"])):
        client = FaktoryClient(server.port("faktory"), wid=wid, pid=1, labels=[], hostname="x")
        client.ack(job_id)
        assert "Job not found" in client.error("FAIL " + json.dumps({"jid": job_id}))
        assert bench.state(job_id) == "running"
    status, text = post("/claim", {"worker": "faktory:http-1"})
    assert status == 400 and "faktory:" in json.dumps(text)
    assert server.stop() == 0


# ---- Workers elsewhere -------------------------------------------------------------------------


def test_remote_workers_are_seen_like_others(bench):
    token = {name: f"tokens-{name}" for name in ("red", "blue")}
    tokens = "tokens:\n" + "".join(
        f"  - {{name: {name}, hash: '{token_hash(secret)}', scopes: [enqueue, work, read], tenant: {name}}}\n"
        for name, secret in token.items()
    )
    bench.configure("tasks: {mail: {}}\n" + tokens, listen="{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    passwords = bench.dir / "passwords"
    passwords.write_text("red open-sesame\n")
    server = bench.serve("--faktory-passwords", str(passwords), "--grace", "1s").ready()

    def post(path, body):
        connection = server.connect()
        connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {token['red']}"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def workers(name):
        items = json.loads(server.get("/workers", token[name])[1])["items"]
        return {item["name"]: item for item in items if item["tenant"] is not None}

    client = FaktoryClient(server.port("faktory"), wid="fak-1", pid=1, labels=[], hostname="x", password="open-sesame")
    post("/jobs", [{"task": "mail"}, {"task": "mail"}])
    assert len(post("/claim", {"worker": "http-1", "n": 2})["jobs"]) == 2
    wait_for(lambda: set(workers("red")) == {"faktory:fak-1", "http-1"}, "both in the list")
    wait_for(lambda: workers("red")["http-1"]["running"] == 2, "the jobs in hand")
    shown = workers("red")["http-1"]
    assert (shown["tenant"], shown["host"], shown["pid"]) == ("red", "", 0)
    assert "http-1" in bench.redrive("top", "--once").stdout
    assert workers("blue") == {}

    client.send("END")
    assert client.is_closed()
    wait_for(lambda: set(workers("red")) == {"http-1"}, "the one that has gone")
    assert server.stop() == 0
    with sqlite3.connect(bench.database, timeout=LIMIT_S) as db:
        assert db.execute("SELECT count(*) FROM shared WHERE value IS NOT NULL AND key IN ('http-1', 'faktory:fak-1')").fetchone() == (0,)
