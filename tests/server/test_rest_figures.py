"""Rates: what counters grew by as time passed. The other figures are in transcripts/http-figures.md."""

from tests.kit.tokens import token_line
from tests.kit.waiting import wait_for


def test_rates_are_what_the_counters_of_a_tenant_grew_by(start):
    everything = "enqueue, work, read, admin"
    api = start("tokens:\n" + token_line("red", everything, "red") + token_line("blue", everything, "blue")).api
    red, blue = api.of("red"), api.of("blue")
    for _ in range(5):
        red.submit(delay="1h")
    red.kill()
    items = wait_for(lambda: red.ok("GET", "/rates")["items"], "a span of rates")
    assert sum(item["submitted"] for item in items) == 6
    assert sum(item["dead_letter"] for item in items) == 1
    assert all(item["seconds"] > 0 and item["at"] for item in items)
    assert blue.ok("GET", "/rates")["items"] == []
