"""INFO, FLUSH, QUEUE and MUTATE of the Faktory server."""

import json
import time

import pytest

from tests.kit.faktory import FaktoryClient, FaktoryError, job
from tests.kit.waiting import wait_for


def test_requeued_job_brings_its_failure(server):
    client = server.worker()
    client.push("job-00001", retry=2)
    assert "failure" not in client.fetch()
    client.fail("job-00001", errtype="IOError", message="it broke")
    assert client.mutate(cmd="kill", target="retries", filter={"jids": ["job-00001"]}) == "OK"
    for _ in range(2):
        assert client.mutate(cmd="requeue", target="dead", filter={"jids": ["job-00001"]}) == "OK"
        failure = client.fetch()["failure"]
        assert (failure["retry_count"], failure["remaining"]) == (0, 2)
        assert (failure["errtype"], failure["message"]) == ("IOError", "it broke")
        assert failure["backtrace"] == ["a", "b"]
        client.fail("job-00001", errtype="IOError", message="it broke")
        assert client.mutate(cmd="kill", target="retries", filter={"jids": ["job-00001"]}) == "OK"


def test_an_emptied_queue_that_is_removed_is_listed_no_more(server):
    client = server.worker()

    def work(jid, queue):
        client.push(jid, queue=queue)
        assert client.fetch(queue)["jid"] == jid
        client.ack(jid)

    work("job-00001", "done"), work("job-00002", "kept")
    assert client.info()["queues"] == {"done": 0, "kept": 0}
    assert client.ask("QUEUE REMOVE done") == "OK"
    found = client.info()
    assert (found["queues"], found["total_queues"]) == ({"kept": 0}, 1)
    # A job brings it back, even one that has come and gone before INFO is asked again.
    work("job-00003", "done")
    assert client.info()["queues"] == {"done": 0, "kept": 0}
    assert client.ask("QUEUE REMOVE *") == "OK"
    assert client.info()["queues"] == {}
    client.push("job-00004", queue="kept")
    assert client.info()["queues"] == {"kept": 1}


def test_info_has_what_clients_look_for(server):
    client = server.connect()
    client.push("job-00001", queue="a")
    client.push("job-00002", queue="b", at="2100-01-01T00:00:00Z")
    info = json.loads(client.ask("INFO"))
    assert info["faktory"]["queues"] == {"a": 1, "b": 0}
    assert info["faktory"]["sets"] == {"scheduled": 1, "retries": 0, "dead": 0, "working": 0}
    assert info["faktory"]["tasks"]["Scheduled"] == {"size": 1}
    assert (info["faktory"]["total_queues"], info["faktory"]["total_enqueued"]) == (2, 1)
    assert info["server"]["connections"] == 1 and info["server"]["command_count"] == 3
    assert info["now"].endswith("Z") and info["server_utc_time"].endswith(" UTC")


def test_info_has_workers_and_memory(start_server):
    server = start_server("--beat", "5000")
    client, silent = server.connect(), server.worker("w1")
    state = json.loads(client.ask("INFO"))
    assert state["faktory"]["tasks"]["Workers"] == {"size": 1, "reaped": 0}
    assert 1 <= state["server"]["used_memory_mb"] < 1000
    assert silent.is_closed()
    wait_for(lambda: client.info()["tasks"]["Workers"] == {"size": 0, "reaped": 1})


def test_fetch_of_a_silent_worker_is_answered_before_the_end(start_server):
    """A connection that is cut off takes with it what was about to be sent, which may be a job."""
    server = start_server("--beat", "700")

    def is_answered(wid):
        """It was not if it was cut off before it asked, as on a busy machine."""
        silent = server.worker(wid)
        try:
            silent.send("FETCH default")
            assert silent.reply() is None
        except (EOFError, ConnectionError):
            return False
        return silent.is_closed()

    assert any(is_answered(f"w{n}") for n in range(5))


def test_silent_worker_that_comes_back_has_its_time_again(start_server):
    """Also while one of its former connections does not take what it is sent."""
    server = start_server("--beat", "10000")
    observer, stuck = server.connect(), server.worker()
    stuck.send(*["INFO"] * 20000)
    wait_for(lambda: observer.info()["tasks"]["Workers"]["reaped"] == 1)
    back = server.worker()
    time.sleep(1.5)  # there is a look every half second
    assert back.ask('BEAT {"wid":"w1"}') == "OK"
    assert observer.info()["tasks"]["Workers"] == {"size": 1, "reaped": 1}


def test_connections_of_one_address_are_limited(start_server):
    server = start_server("--max-per-address", "2")
    first, second = server.connect(), server.connect()
    with pytest.raises(FaktoryError, match="this address"):
        FaktoryClient(server.port, greet=False).reply()
    first.send("END")
    assert first.is_closed()
    wait_for(lambda: second.info_of("server")["connections"] == 1)
    server.connect().push("job-00001")


def test_flush_takes_everything_away(server):
    client = server.worker()
    jobs = ",".join(job(f"job-{n:05}", at="2100-01-01T00:00:00Z" if n % 2 else None) for n in range(1203))
    assert client.ask(f"PUSHB [{jobs}]") == "{}"
    client.fetch()
    assert client.ask("FLUSH") == "OK"
    info = client.info()
    assert (info["total_enqueued"], set(info["sets"].values())) == (0, {0})
    client.push("job-00000")
    assert client.fetch()["jid"] == "job-00000"


def test_queue_remove_and_latency(server):
    client = server.worker()
    for n in range(3):
        client.push(f"job-0000{n}", queue="old")
    client.push("job-00009", queue="new")
    latency = json.loads(client.ask("QUEUE LATENCY old none"))
    assert latency["old"] >= 0 and latency["none"] == 0
    assert client.ask("QUEUE PAUSE old") == "OK"
    assert client.ask("QUEUE REMOVE old none") == "OK"
    assert client.info()["queues"] == {"new": 1} and client.info()["total_queues"] == 1
    client.push("job-00005", queue="old")
    assert client.info()["queues"] == {"new": 1, "old": 1}
    assert client.fetch("old")["jid"] == "job-00005"
    assert client.ask("QUEUE REMOVE *") == "OK"
    assert client.info()["total_enqueued"] == 0
    assert client.error("QUEUE") == "ERR no such QUEUE subcommand: "
    assert client.error("QUEUE BURN x") == "ERR no such QUEUE subcommand: BURN"
    assert client.error("QUEUE PAUSE") == "ERR QUEUE needs the name of a queue"
    assert client.error("QUEUE LATENCY *") == "ERR QUEUE LATENCY does not support wildcards"


def test_mutate_moves_what_it_is_told_to(server):
    client = server.worker()
    later = {"at": "2100-01-01T00:00:00Z"}
    client.push("job-00001", "A", **later)
    client.push("job-00002", "A", args=["find me"], **later)
    client.push("job-00003", "B", **later)
    client.push("job-00004", "B", **later)
    client.push("job-00005", "C", **later)

    def sets():
        found = client.info()
        return found["sets"]["scheduled"], found["sets"]["dead"], found["total_enqueued"]

    assert client.mutate(cmd="kill", target="scheduled", filter={"jobtype": "A", "regexp": "*find me*"}) == "OK"
    assert sets() == (4, 1, 0)
    assert client.mutate(cmd="requeue", target="scheduled", filter={"jids": ["job-00003", "no-such-job"]}) == "OK"
    assert sets() == (3, 1, 1)
    assert client.mutate(cmd="discard", target="scheduled", filter={"jobtype": "B"}) == "OK"
    assert sets() == (2, 1, 1)
    assert client.mutate(cmd="requeue", target="dead", filter={"regexp": "*"}) == "OK"
    assert sets() == (2, 0, 2)
    assert client.mutate(cmd="clear", target="scheduled") == "OK"
    assert sets() == (0, 0, 2)
    assert client.mutate(cmd="kill", target="retries") == "OK"
    for line, error in (
            ('{"cmd":"eat","target":"dead"}', "ERR unknown mutate operation"),
            ('{"cmd":"kill","target":"working"}', "ERR invalid target for mutation command"),
            ("{", "ERR "), ("", "ERR ")):
        assert client.error("MUTATE " + line).startswith(error)


def test_long_pattern_is_refused_and_large_jobs_hold_up_nobody(server):
    client, other = server.worker(), server.connect()
    for i in range(6):
        client.push(f"job-0000{i}", args=["a" * 900_000], at="2100-01-01T00:00:00Z")
    long = {"regexp": "*" + "a" * 20_000 + "b*"}
    assert "regexp is over 255 bytes" in client.error(
        "MUTATE " + json.dumps({"cmd": "kill", "target": "scheduled", "filter": long})
    )
    client.send("MUTATE " + json.dumps({"cmd": "kill", "target": "scheduled", "filter": {"regexp": "*" + "a" * 252 + "b*"}}))
    other.push("job-00009")
    assert client.reply() == "OK"
    assert client.info()["sets"]["scheduled"] == 6


@pytest.mark.parametrize(("pattern", "fits"), [
    (r"*a\*b*", True),
    (r"*a\?b*", False),
    ("*a[*]b*", True),
    ("*a[^*]b*", False),
    (r'*"args":\["ä","a*b",{"k":1}\]*', True),
    ('*"jid":"job-00001","queue":"default","jobtype":"Task"*', True),
    ('*"errtype":"IOError"*', True),
    ("*it broke twice*", True),
    ("*it broke thrice*", False),
])
def test_pattern_goes_over_the_job_in_its_normal_form_with_its_failure(server, pattern, fits):
    client = server.worker()
    text = '{ "jobtype" : "Task", "args" : [ "\\u00e4", "a*b", { "k" : 1 } ],  "jid":"job-00001" }'
    assert client.ask("PUSH " + text) == "OK"
    client.fetch()
    client.fail("job-00001", message="it broke twice")
    client.mutate(cmd="kill", target="retries", filter={"regexp": pattern})
    sets = client.info()["sets"]
    assert (sets["retries"], sets["dead"]) == ((0, 1) if fits else (1, 0))


def test_dead_job_that_is_discarded_is_gone(server):
    client = server.worker()
    client.push("job-00001", retry=-1)
    client.fetch()
    client.fail("job-00001")
    assert client.mutate(cmd="discard", target="dead") == "OK"
    assert client.info()["sets"]["dead"] == 0
    client.push("job-00001")
    assert client.fetch()["jid"] == "job-00001"


def test_enterprise_verbs_answer_as_the_open_server_does(server):
    client = server.connect()
    assert client.error("TRACK GET job-00001") == "ERR tracking subsystem is only available in Faktory Enterprise"
    for words in ('NEW {"success": {"jobtype": "done", "args": []}}', "OPEN b-1", "COMMIT b-1", "STATUS b-1", ""):
        error = client.error(f"BATCH {words}".strip())
        assert error.startswith("ERR batch subsystem is only available in Faktory Enterprise; ") and "`after`" in error
