"""`redrive move` between stores on a server: the same one is found out under whatever name, another is not."""
import json
import subprocess

import pytest

from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S


def redrive(*words):
    return subprocess.run([str(BINARY), *words], stdin=subprocess.DEVNULL, text=True, capture_output=True,
                          env=environment(), timeout=LIMIT_S, check=False)


def counts(url):
    stats = json.loads(redrive("stats", "--json", "--store", url).stdout)
    return [stats[key] for key in ("counters", "sizes", "workers")]


def spellings(server):
    """Of one place on the server; the first is the one that is used."""
    if server.name == "redis":
        place = f"127.0.0.1:{server.port}"
        return [f"redis://{place}?prefix=here", f"redis://{place}/?prefix=here", f"redis://{place}/0?prefix=here",
                f"redis://localhost:{server.port}?prefix=here"]
    login = f"{server.superuser}@127.0.0.1:{server.port}"
    return [f"postgres://{login}/here", f"postgresql://{login}/here", f"postgres://{login}/here?application_name=x",
            f"postgres://{login.replace('127.0.0.1', 'localhost')}/here",
            f"postgres:///here?host=127.0.0.1&port={server.port}&user={server.superuser}"]


@pytest.fixture(scope="module")
def places(durable):
    """What a place may be called, and another place on the same server."""
    if durable.name == "postgres":
        durable.sql("CREATE DATABASE here")
        durable.sql("CREATE DATABASE there")
    named = spellings(durable)
    done = redrive("enqueue", "mail", "{}", "--store", named[0])
    assert done.returncode == 0, done.stderr
    return named, named[0].replace("here", "there")


def test_the_same_store_is_refused_under_whatever_name(places):
    named, _ = places
    before = counts(named[0])
    for one, other in [*((named[0], name) for name in named), *((name, named[0]) for name in named)]:
        for words in ([], ["--force"], ["--into-existing"]):
            done = redrive("move", "--from", one, "--to", other, "--json", *words)
            assert done.returncode == 2, (one, other, done.stdout, done.stderr)
            assert "both ends are the same store" in json.loads(done.stderr.splitlines()[-1])["error"]["message"]
    assert counts(named[0]) == before


def test_two_stores_of_a_server_are_two(places):
    named, there = places
    for copied in (1, 0):
        done = redrive("move", "--from", named[0], "--to", there, "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["copied"], answer["difference"]) == (copied, None)
        assert answer["from"] != answer["to"]


def test_a_server_without_a_disk_is_no_memory_of_this_process(fleet, tmp_path):
    assert redrive("enqueue", "mail", "{}", "--store", fleet.url).returncode == 0
    done = redrive("move", "--from", fleet.url, "--to", f"sqlite:{tmp_path}/jobs.db", "--json")
    assert done.returncode == 0, done.stderr


# What must be the same at every step of a chain.
COUNTED = ["jobs", "attempts", "dead_letters", "by_state", "breakers", "limits", "pauses", "tasks", "cron", "alerts",
           "counters", "remembered_keys", "hash_from", "hash_to"]


def test_a_chain_through_every_kind_of_store_tells_the_same_at_each_step(make_server, tmp_path):
    first = f"sqlite:{tmp_path}/first.db"
    subprocess.run([BINARY.parent / "tests" / "cli" / "seed_store", first, "700"], check=True, timeout=LIMIT_S,
                   stdin=subprocess.DEVNULL)
    postgres, redis = make_server("postgres"), make_server("redis")
    chain = [first, postgres.url, redis.url, f"sqlite:{tmp_path}/last.db", f"{redis.url}?prefix=again"]
    told = []
    for here, there in zip(chain, chain[1:]):
        done = redrive("move", "--from", here, "--to", there, "--json", "--force")
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
    assert told[0]["attempts"] > 0 and told[0]["counters"] > 0
    for answer in told:
        assert [answer[key] for key in COUNTED] == [told[0][key] for key in COUNTED]


def test_adding_to_a_store_finds_every_job_again(fleet, tmp_path):
    first = f"sqlite:{tmp_path}/first.db"
    subprocess.run([BINARY.parent / "tests" / "cli" / "seed_store", first, "2000"], check=True, timeout=LIMIT_S,
                   stdin=subprocess.DEVNULL)
    assert redrive("enqueue", "mail", "{}", "--store", fleet.url).returncode == 0
    for copied in (2016, 0):
        done = redrive("move", "--from", first, "--to", fleet.url, "--json", "--force", "--into-existing")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["copied"], answer["difference"]) == (copied, None)


def test_a_destination_that_is_full_keeps_what_it_has_and_gets_the_rest_later(make_server, tmp_path):
    first = f"sqlite:{tmp_path}/first.db"
    subprocess.run([BINARY.parent / "tests" / "cli" / "seed_store", first, "5000"], check=True, timeout=LIMIT_S,
                   stdin=subprocess.DEVNULL)
    redis = make_server("redis", settings={"maxmemory": "2mb"}.items())
    words = ["move", "--from", first, "--to", redis.url, "--force", "--json"]
    done = redrive(*words)
    assert (done.returncode, done.stdout) == (1, "")
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert "memory" in error["message"] + error["detail"], error
    assert "goes on with the rest" in error["hint"]
    assert redis.call("CONFIG", "SET", "maxmemory", "0") == "OK"
    answer = json.loads(redrive(*words).stdout)
    assert 0 < answer["copied"] < 5016
    assert (answer["jobs"], answer["difference"]) == (5016, None)
