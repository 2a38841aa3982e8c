"""The Faktory server from outside: PUSH, FETCH, ACK, FAIL and BEAT."""

import json
import socket
import time

import pytest

from tests.kit.faktory import job
from tests.kit.waiting import LIMIT_S, wait_for

# ---- PUSH ---------------------------------------------------------------------------------------


def test_job_comes_back_as_it_was_sent(server):
    client = server.worker()
    sent = {"jid": "job-00001", "jobtype": "Mail", "args": [1, "ä", {"b": None}], "custom": {"x": [1]},
            "queue": "mail", "unheard": 1.5, "priority": 7, "backtrace": 20, "created_at": "yesterday"}
    assert client.ask("PUSH " + json.dumps(sent)) == "OK"
    got = client.fetch("mail")
    assert {**got, **sent} == got
    assert set(got) - set(sent) == {"retry", "enqueued_at"} and got["retry"] == 25


@pytest.mark.parametrize("text, error", [
    ('{"jid":"short","jobtype":"T","args":[]}', "ERR jobs must have a reasonable jid parameter"),
    ('{"jid":"job-00001","args":[]}', "ERR jobs must have a jobtype parameter"),
    ('{"jid":"job-00001","jobtype":"T"}', "ERR jobs must have an args parameter"),
    ('{"jid":"job-00001","jobtype":"T","args":[],"reserve_for":90000}',
     "ERR jobs cannot be reserved for more than one day"),
    ('{"jid":"job-00001","jobtype":"T","args":[],"at":"soon"}', "ERR invalid timestamp for 'at'"),
    ("{", "ERR invalid JSON"), ("", "ERR invalid JSON"), ("[]", "ERR invalid JSON"),
    ('{"jid":"job-00001","jid":"job-00002","jobtype":"T","args":[]}', "ERR invalid JSON"),
    ('{"jid":"job\\u0000\\u0001aaa","jobtype":"T","args":[]}', "ERR jid has a control character"),
    ('{"jid":"job-00001","jobtype":"T","args":[],"queue":"a\\nb"}', "ERR queue names must match"),
])
def test_wrong_push_is_refused(server, text, error):
    client = server.connect()
    assert client.error("PUSH " + text).startswith(error)
    assert client.info()["total_enqueued"] == 0


def test_jobtype_that_goes_on_behind_a_nul_is_refused(start_server):
    client = start_server(config="tasks: {mail: {}}\n").connect()
    # Each ends far behind the end of the declared name.
    for extra in (1, 70_000, 3_000_000):
        text = '{"jid":"12345678","jobtype":"mail\\u0000' + "x" * extra + '","args":[]}'
        assert "jobtype" in client.error(f"PUSH {text}")
        assert "jobtype" in json.loads(client.ask(f"PUSHB [{text}]"))["12345678"]
    assert client.info()["total_enqueued"] == 0


def test_second_push_of_a_jid_is_the_first_job(server):
    client = server.worker()
    client.push("job-00001", args=[1])
    client.push("job-00001", args=[2])
    assert client.fetch()["args"] == [1]
    assert client.fetch() is None


def test_bulk_push_tells_what_was_refused(server):
    client = server.worker()
    jobs = [job("job-00001"), '{"jid":"job-00002","args":[]}', job("job-00003"), "null"]
    answer = json.loads(client.ask("PUSHB [" + ",".join(jobs) + "]"))
    assert answer["job-00002"] == "jobs must have a jobtype parameter"
    assert answer[""].startswith("invalid JSON") and len(answer) == 2
    assert client.info()["queues"] == {"default": 2}
    assert client.ask("PUSHB []") == "{}"
    assert client.error("PUSHB {}").startswith("ERR invalid JSON")
    assert client.error("PUSHB [").startswith("ERR invalid JSON")
    assert json.loads(client.ask("PUSHB [" + ",".join(job(f"job-1{n:04}") for n in range(1500)) + "]")) == {}
    assert client.info()["total_enqueued"] == 1502


def test_bulk_push_names_jobs_that_were_refused_once(server):
    """Also those without a jid: a name that is twice in an object is refused by some readers."""
    client = server.worker()
    jobs = ['{"jobtype":"x","args":[]}'] * 3 + ['{"jid":"job-00001","args":[]}'] * 2 + [job("job-00002")]
    pairs = json.loads(client.ask("PUSHB [" + ",".join(jobs) + "]"), object_pairs_hook=list)
    assert [jid for jid, _ in pairs] == ["", "job-00001"]
    assert client.info()["total_enqueued"] == 1


@pytest.mark.parametrize("text", ["[1]", '["x"]', "[[]]", "[true]", "1", "{}"])
def test_bulk_push_of_what_is_no_job_is_an_error(server, text):
    client = server.connect()
    assert client.error("PUSHB " + text).startswith("ERR invalid JSON")
    assert client.info()["total_enqueued"] == 0


@pytest.mark.parametrize("queue", ["a b", "ä", "a/b", "*", "a:b", "x" * 256])
def test_queues_have_names_that_stand_in_commands_as_they_are(server, queue):
    client = server.connect()
    assert "queue" in client.error("PUSH " + job("job-00001", queue=queue))
    client.push("job-00002", queue="A-z_0.9")
    assert client.fetch("A-z_0.9")["jid"] == "job-00002"
    if " " not in queue:
        assert "queue" in client.error(f"FETCH {queue}")


def test_bulk_push_is_bounded(server):
    client = server.connect()
    assert "at most 20000 jobs" in client.error("PUSHB [" + "{}," * 20000 + "{}]")
    assert client.error("QUEUE PAUSE " + "q " * 101) == "ERR too many queues"


def test_time_of_a_job_is_kept(server):
    client = server.worker()
    client.push("job-00001", at="2100-01-01T00:00:00.5Z")
    client.push("job-00002", at="2001-01-01T00:00:00+01:00")
    assert client.info()["sets"]["scheduled"] == 1
    assert client.fetch()["jid"] == "job-00002"
    server.tell(f"pass {100 * 366 * 86400 * 1000}")
    assert client.fetch()["jid"] == "job-00001"


def test_megabyte_goes_there_and_back_and_more_is_refused(server):
    client = server.worker()
    big = "x" * (1000 * 1000)
    client.push("job-00001", args=[big])
    assert client.fetch()["args"] == [big]
    assert client.error("PUSH " + job("job-00002", args=[big * 2])).startswith("ERR the payload is over")
    client.push("job-00003")


# ---- FETCH --------------------------------------------------------------------------------------


def test_queues_come_in_the_order_named_and_priorities_within(server):
    client = server.worker()
    client.push("job-low-1", queue="low", priority=9)
    client.push("job-high-1", queue="high", priority=1)
    client.push("job-high-2", queue="high")
    client.push("job-high-3", queue="high", priority=9)
    order = [client.fetch("high", "low")["jid"] for _ in range(4)]
    assert order == ["job-high-3", "job-high-2", "job-high-1", "job-low-1"]


def test_fetch_needs_queues_with_names(server):
    client = server.worker()
    assert client.error("FETCH") == "ERR must call fetch with at least one queue"
    assert client.error("FETCH  ") == "ERR must call fetch with at least one queue"
    assert client.error("FETCH a\x01b") == "ERR queue names must match [a-zA-Z0-9._-]+"
    assert client.error("FETCH " + "q" * 256) == "ERR queue names must match [a-zA-Z0-9._-]+"
    assert client.error("FETCH " + "q " * 101) == "ERR too many queues"


def test_fetch_waits_two_seconds_for_nothing(server):
    """On a busy machine some may take longer."""
    client = server.worker()
    took = []
    while not took or (took[-1] >= 10 and len(took) < 5):
        start = time.monotonic()
        assert client.fetch() is None
        took.append(time.monotonic() - start)
    assert min(took) >= 1.9 and took[-1] < 10, took


def test_waiting_fetch_is_woken_by_a_push(server):
    """One that is not woken finds the job after two seconds; on a busy machine some may be late all the same."""
    producer, worker = server.connect(), server.worker()
    took = []
    for n in range(5):
        worker.send("FETCH other default")
        time.sleep(0.02)
        start = time.monotonic()
        producer.push(f"job-0000{n}")
        answer = worker.reply()
        took.append(time.monotonic() - start)
        assert (json.loads(answer) if answer else worker.fetch())["jid"] == f"job-0000{n}"
    assert min(took) < 1.5


def test_many_waiting_fetches_share_many_jobs(server):
    producer = server.connect()
    workers = [server.worker(f"w{n}") for n in range(40)]

    def is_shared(round_):
        """Whether one of them at least got its job by waiting: all were too early for a push of a machine that is busy."""
        for worker in workers:
            worker.send("FETCH default")
        time.sleep(0.1)
        pushed = ",".join(job(f"job-{round_}-{n:05}") for n in range(40))
        assert json.loads(producer.ask(f"PUSHB [{pushed}]")) == {}
        answers = [(worker, worker.reply()) for worker in workers]
        # One whose two seconds were over before the push asks again.
        got = {(json.loads(answer) if answer else worker.fetch())["jid"] for worker, answer in answers}
        assert len(got) == 40
        return any(answer is not None for _, answer in answers)

    assert any(is_shared(round_) for round_ in range(5))


def test_job_fetched_for_a_client_that_left_is_given_back(server):
    """The waiting FETCH of a connection that is gone must not swallow a job."""
    producer, worker = server.connect(), server.worker("w2")
    for n in range(20):
        gone = server.worker("w1")
        gone.send("FETCH default")
        gone.socket.shutdown(socket.SHUT_RDWR)
        gone.socket.close()
        producer.push(f"job-000{n:02}")
        got = worker.fetch()
        assert got["jid"] == f"job-000{n:02}" and "failure" not in got
        worker.ack(got["jid"])


def test_paused_queue_gives_nothing_until_it_is_resumed(server):
    client, worker = server.connect(), server.worker()
    client.push("job-00001")
    client.push("job-00002", queue="other")
    assert client.ask("QUEUE PAUSE default") == "OK"
    assert worker.fetch("default", "other")["jid"] == "job-00002"
    assert worker.fetch() is None
    worker.send("FETCH default")
    assert client.ask("QUEUE RESUME *") == "OK"
    assert json.loads(worker.reply())["jid"] == "job-00001"
    client.push("job-00003")
    assert client.ask("queue PAUSE *".upper()) == "OK"
    assert worker.fetch() is None


def test_producer_without_wid_may_fetch_too(server):
    client = server.connect()
    client.push("job-00001")
    assert client.fetch()["jid"] == "job-00001"
    client.ack("job-00001")
    assert client.info()["total_processed"] == 1


# ---- ACK and FAIL -------------------------------------------------------------------------------


def test_ack_completes_and_a_second_one_changes_nothing(server):
    client = server.worker()
    client.push("job-00001")
    client.fetch()
    assert client.info()["sets"]["working"] == 1
    client.ack("job-00001")
    client.ack("job-00001")
    client.ack("never-was")
    info = client.info()
    assert (info["sets"]["working"], info["total_processed"], info["total_failures"]) == (0, 1, 0)


def test_ack_of_another_worker_changes_nothing(server):
    one, two = server.worker("w1"), server.worker("w2")
    one.push("job-00001")
    one.fetch()
    two.ack("job-00001")
    assert two.error('FAIL {"jid":"job-00001"}') == "ERR Job not found job-00001"
    assert two.info()["sets"]["working"] == 1
    server.connect(wid="w1").ack("job-00001")
    assert two.info()["sets"]["working"] == 0


def test_job_of_a_connection_without_wid_is_its_own(server):
    client, other = server.connect(), server.connect()
    client.push("job-00001")
    assert client.fetch()["jid"] == "job-00001"
    other.ack("job-00001")
    assert "Job not found" in other.error('FAIL {"jid":"job-00001"}')
    assert client.info()["sets"]["working"] == 1
    client.ack("job-00001")
    assert client.info()["sets"]["working"] == 0


def test_stale_ack_does_not_touch_the_next_run(server):
    one, two = server.worker("w1"), server.worker("w2")
    one.push("job-00001", reserve_for=60)
    one.fetch()
    server.tell("pass 61000")
    wait_for(lambda: one.info()["sets"]["retries"] == 1)
    server.tell("pass 60000")
    assert two.fetch()["failure"]["errtype"] == "LeaseExpired"
    one.ack("job-00001")
    assert two.info()["sets"]["working"] == 1
    two.ack("job-00001")
    assert two.info()["total_processed"] == 2


def test_ack_is_understood_after_a_restart(start_server):
    first = start_server()
    worker = first.worker()
    worker.push("job-00001")
    worker.push("job-00002")
    worker.fetch()
    worker.fetch()
    first.close()
    again = start_server().worker()
    again.ack("job-00001")
    again.fail("job-00002")
    info = again.info()
    assert (info["total_processed"], info["sets"]["retries"]) == (2, 1)


@pytest.mark.parametrize("line, error", [
    ("ACK", "ERR invalid ACK "), ("ACK {}", "ERR invalid ACK {}"), ('ACK {"jid":5}', "ERR invalid ACK"),
    ("ACK job-00001", "ERR invalid ACK job-00001"),
    ("FAIL", "ERR invalid FAIL "), ("FAIL {}", "ERR missing JID"), ("FAIL []", "ERR invalid FAIL []"),
    ('FAIL {"jid":"never-was"}', "ERR Job not found never-was"),
])
def test_wrong_settlements_are_refused(server, line, error):
    client = server.worker()
    assert client.error(line).startswith(error)


def test_failed_job_is_retried_on_faktorys_schedule_with_its_failure(server):
    client = server.worker()
    client.push("job-00001", retry=2)
    client.fetch()
    client.fail("job-00001", "ValidationError", "bad input", ["one", "two"])
    assert client.info()["sets"]["retries"] == 1
    server.tell("pass 14000")
    assert client.fetch() is None
    server.tell("pass 60000")
    failure = client.fetch()["failure"]
    assert (failure["errtype"], failure["message"]) == ("ValidationError", "bad input")
    assert (failure["retry_count"], failure["remaining"]) == (0, 2)
    assert failure["backtrace"] == ["one", "two"]
    client.fail("job-00001")
    server.tell("pass 80000")
    failure = client.fetch()["failure"]
    assert (failure["errtype"], failure["retry_count"], failure["remaining"]) == ("IOError", 1, 1)
    client.fail("job-00001")
    sets = client.info()["sets"]
    assert (sets["retries"], sets["dead"], client.info()["total_failures"]) == (0, 1, 3)


def test_retry_zero_is_discarded_and_minus_one_is_dead(server):
    client = server.worker()
    client.push("job-00001", retry=0)
    client.push("job-00002", retry=-1)
    for _ in range(2):
        client.fail(client.fetch()["jid"])
    sets = client.info()["sets"]
    assert (sets["retries"], sets["dead"]) == (0, 1)


def test_declared_task_follows_its_own_policy(start_server):
    server = start_server(config="tasks:\n  Task:\n    retry: {strategy: fixed, initial_delay: 100ms, "
                            "max_attempts: 2, jitter: false}\n")
    client = server.worker()
    client.push("job-00001", retry=25)
    client.push("job-00002", jobtype="Other")
    client.fetch()
    client.fail("job-00001", "Timeout")
    assert client.fetch()["jid"] == "job-00002"
    assert client.fetch()["failure"]["errtype"] == "Timeout"
    client.fail("job-00001", "Timeout")
    assert client.info()["sets"]["dead"] == 1


def test_declared_task_honours_the_retries_of_the_client_unless_told_not_to(start_server):
    fast = "retry: {strategy: fixed, initial_delay: 100ms, max_retries: 5, jitter: false}"
    server = start_server(config=f"tasks:\n  Free: {{{fast}}}\n  Strict: {{{fast}, client_retries: false}}\n")
    client = server.worker()
    runs = {"Free": 0, "Strict": 0}
    for name in runs:
        client.push(f"job-{name}", jobtype=name, retry=1)
    while client.info()["sets"]["dead"] < 2:
        server.tell("pass 1000")
        job = client.fetch()
        if job:
            runs[job["jobtype"]] += 1
            client.fail(job["jid"])
    assert runs == {"Free": 2, "Strict": 6}


def test_strict_tasks_refuse_unknown_jobtypes(start_server):
    client = start_server(config="strict_tasks: true\ntasks: {Task: {}}\n").connect()
    client.push("job-00001")
    assert client.error("PUSH " + job("job-00002", "Tusk")).startswith("ERR there is no task 'Tusk'")


# ---- BEAT ---------------------------------------------------------------------------------------


def test_beat_answers_the_state_and_never_goes_back(server):
    client = server.worker("w1")
    client.push("job-00001")
    assert client.ask('BEAT {"wid":"w1","rss_kb":5}') == "OK"
    assert client.error('BEAT {"wid":"w9"}') == "ERR unknown worker w9"
    assert client.error("BEAT").startswith("ERR invalid BEAT")
    assert json.loads(client.ask('BEAT {"wid":"w1","current_state":"quiet"}')) == {"state": "quiet"}
    assert json.loads(client.ask('BEAT {"wid":"w1","current_state":""}')) == {"state": "quiet"}
    assert client.fetch() is None
    assert json.loads(client.ask('BEAT {"wid":"w1","current_state":"terminate"}')) == {"state": "terminate"}
    assert server.worker("w2").fetch()["jid"] == "job-00001"


def test_quiet_server_hands_out_nothing(server):
    client = server.worker("w1")
    client.push("job-00001")
    server.tell("quiet")
    assert json.loads(client.ask('BEAT {"wid":"w1"}')) == {"state": "quiet"}
    assert client.fetch() is None
    client.push("job-00002")
    server.tell("terminate")
    assert json.loads(client.ask('BEAT {"wid":"w1"}')) == {"state": "terminate"}


def test_draining_server_tells_workers_to_quiet_and_then_to_terminate(server):
    one, two, producer = server.worker("w1"), server.worker("w2"), server.connect()
    for n in range(2):
        one.push(f"job-0000{n}")
    assert one.fetch() and two.fetch()
    server.tell("drain 60000")
    assert json.loads(one.ask('BEAT {"wid":"w1"}')) == {"state": "quiet"}
    producer.push("job-00003")
    assert two.fetch() is None
    assert json.loads(one.ask('BEAT {"wid":"w1"}')) == {"state": "terminate"}
    assert json.loads(two.ask('BEAT {"wid":"w2"}')) == {"state": "quiet"}
    one.ack("job-00000")
    one.send("END")
    assert one.is_closed()
    # The other one still works, and is waited for.
    two.fail("job-00001")
    assert producer.info()["sets"] == {"scheduled": 0, "retries": 1, "dead": 0, "working": 0}
    two.send("END")
    assert two.is_closed() and producer.is_closed()
    assert server.process.wait(LIMIT_S) == 0


def test_drain_ends_with_its_grace(server):
    client = server.worker()
    server.tell("drain 300")
    assert client.is_closed()
    assert server.process.wait(LIMIT_S) == 0


def test_worker_without_beat_is_cut_off(start_server):
    server = start_server("--beat", "5000")
    worker, producer = server.worker(), server.connect()
    end = time.monotonic() + 7
    while time.monotonic() < end:
        assert worker.ask('BEAT {"wid":"w1"}') == "OK"
        time.sleep(0.1)
    assert worker.is_closed()
    assert producer.ask("INFO")


def test_idle_client_is_cut_off_where_that_is_asked_for(start_server):
    client = start_server("--idle", "1500").connect()
    assert client.is_closed()
