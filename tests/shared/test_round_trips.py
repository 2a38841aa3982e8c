"""How often a transaction waits for its server. Each time costs a round trip of the network, which loopback hides."""
import pytest

from delay import round_trips_of_transactions

MOST = {
    "postgres": {"settle_claim": 2, "settle": 1},
    "redis": {"settle_claim": 2, "settle": 1},
}


@pytest.mark.parametrize("kind", MOST)
def test_a_transaction_takes_few_round_trips(make_server, kind):
    server = make_server(kind)
    took = round_trips_of_transactions(server, server.url)
    assert took.keys() == MOST[kind].keys()
    assert all(took[step] <= most for step, most in MOST[kind].items()), took
