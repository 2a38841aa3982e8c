"""Figures for people who look: counts, rates, a summary, tasks with their schedules."""

import pytest

from tests.kit.tokens import token_line
from tests.kit.waiting import wait_for


def fill(api):
    """Three jobs of mail that wait, two of once, and a dead letter."""
    for task, n in (("mail", 3), ("once", 2)):
        for _ in range(n):
            api.submit(task, delay="1h")
    api.kill()


@pytest.mark.parametrize("path", [
    "/rates?minutes=999999999", "/rates?minutes=0", "/rates?minutes=x", "/summary?queues=1000000000", "/summary?queues=0",
    "/counts?state=nonsense", "/counts?user=ann", "/counts?task=", "/tasks/mail?class=nonsense", "/tasks/mail?class=success",
])
def test_what_is_asked_for_is_bounded(api, path):
    api.problem(400, "GET", path)


def test_counts_go_by_each_others_filters(api):
    fill(api)
    everything = api.ok("GET", "/counts")
    assert everything["total"] == 6
    assert (everything["by_state"]["scheduled"], everything["by_state"]["dead_letter"]) == (5, 1)
    assert everything["by_task"] == [{"task": "mail", "count": 3}, {"task": "once", "count": 3}]
    some = api.ok("GET", "/counts", task="once", state="scheduled")
    assert some["total"] == 2
    assert (some["by_state"]["scheduled"], some["by_state"]["dead_letter"]) == (2, 1)
    assert some["by_task"] == [{"task": "mail", "count": 3}, {"task": "once", "count": 2}]
    assert some["by_queue"] == [{"queue": "side", "count": 2}]
    assert api.ok("GET", "/counts", queue="nowhere")["total"] == 0


def test_the_summary_has_the_queues_with_most_to_do(api):
    fill(api)
    api.submit("mail")
    summary = api.ok("GET", "/summary", queues=1)
    assert summary["n_queues"] == 2 and [q["queue"] for q in summary["queues"]] == ["main"]
    assert summary["sizes"] == api.ok("GET", "/stats")["sizes"]
    assert summary["counters"]["jobs_received"] == 7 and "by_task" not in summary


def test_tasks_say_what_their_policy_will_do(api):
    fill(api)
    api.submit("unheard-of")
    by_name = {task["task"]: task for task in api.ok("GET", "/tasks")["items"]}
    assert list(by_name) == ["mail", "once", "picky", "unheard-of"]
    mail, once = by_name["mail"], by_name["once"]
    assert mail["declared"] and mail["queue"] == "main" and mail["sizes"]["scheduled"] == 3
    assert mail["schedule"]["retries"] == [{"n": 1, "delay_ms": 10, "total_ms": 10}]
    assert (mail["schedule"]["attempts"], mail["schedule"]["then"]) == (2, "dead_letter")
    assert once["schedule"]["retries"] == [] and once["counters"]["jobs_dlq"] == 1
    assert by_name["unheard-of"]["declared"] is False
    assert api.ok("GET", "/tasks/mail", **{"class": "validation"})["schedule"]["retries"] == []
    assert api.ok("GET", "/tasks/unheard-of")["declared"] is False


def test_a_long_schedule_is_cut(start):
    api = start("  endless: {retry: {max_attempts: 100000, total_timeout: 0s}}\n").api
    schedule = api.ok("GET", "/tasks/endless")["schedule"]
    assert len(schedule["retries"]) == 200 and schedule["more"] and schedule["attempts"] == 100000
    listed = [task for task in api.ok("GET", "/tasks")["items"] if task["task"] == "endless"][0]["schedule"]
    assert len(listed["retries"]) == 20


def test_tenants_see_their_own_figures_and_rates_are_what_counters_grew_by(start):
    everything = "enqueue, work, read, admin"
    api = start("tokens:\n" + token_line("red", everything, "red") + token_line("blue", everything, "blue")).api
    red, blue = api.of("red"), api.of("blue")
    fill(red)
    assert (red.ok("GET", "/counts")["total"], blue.ok("GET", "/counts")["total"]) == (6, 0)
    assert blue.ok("GET", "/summary")["n_queues"] == 0
    assert [task["counters"]["jobs_received"] for task in blue.ok("GET", "/tasks")["items"]] == [0, 0, 0]
    items = wait_for(lambda: red.ok("GET", "/rates")["items"], "a span of rates")
    assert sum(item["submitted"] for item in items) == 6
    assert sum(item["dead_letter"] for item in items) == 1
    assert all(item["seconds"] > 0 and item["at"] for item in items)
    assert blue.ok("GET", "/rates")["items"] == []
