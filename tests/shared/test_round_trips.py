"""How often a transaction waits for its server. Each time costs a round trip of the network, which loopback hides."""
import pytest

from tests.kit.delay import round_trips_of_transactions

MOST = {
    "postgres": {"settle_claim": 2, "settle": 1},
    "redis": {"settle_claim": 2, "settle": 1},
}
DELAYS_MS = (20, 60, 180)  # on a busy machine a transaction may take more than 20 ms without any network


@pytest.mark.parametrize("kind", MOST)
def test_a_transaction_takes_few_round_trips(make_server, kind):
    server = make_server(kind)
    for delay_ms in DELAYS_MS:
        took = round_trips_of_transactions(server, server.url, step_ms=delay_ms)
        assert took.keys() == MOST[kind].keys()
        if all(took[step] <= most for step, most in MOST[kind].items()):
            return
    pytest.fail(f"with {delay_ms} ms: {took}")
