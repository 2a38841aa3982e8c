import asyncio
import inspect

import pytest

import redrive
from redrive import Breaker, BreakerOpenError, InvalidArgumentError, RetryPolicy, retry
from redrive.breaker import RETURNED


class Flaky:
    """Fails so many times, then returns its argument."""

    def __init__(self, failures, exception=ConnectionError):
        self.failures = failures
        self.exception = exception
        self.calls = 0

    def __call__(self, value=None):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.exception("no")
        return value

    async def coroutine(self, value=None):
        return self(value)


def decorated(flaky, clock, **options):
    def function(value=None):
        return flaky(value)

    return retry(sleep=clock.sleep, clock=clock, **options)(function)


def test_a_function_is_retried_until_it_succeeds(clock):
    flaky = Flaky(3)
    assert decorated(flaky, clock, jitter=False)("value") == "value"
    assert flaky.calls == 4
    assert clock.slept == [1, 3, 9]


def test_without_arguments():
    @retry
    def function(a, *, b):
        """Adds."""
        return a + b

    assert function(1, b=2) == 3
    assert function.__name__ == "function"
    assert function.__doc__ == "Adds."
    assert str(inspect.signature(function)) == "(a, *, b)"


def test_what_is_permanent_is_not_retried(clock):
    flaky = Flaky(1, ValueError)
    with pytest.raises(ValueError, match="no"):
        decorated(flaky, clock)()
    assert flaky.calls == 1


def test_the_last_exception_is_raised_as_it_is(clock):
    flaky = Flaky(100)
    with pytest.raises(ConnectionError):
        decorated(flaky, clock, max_attempts=3, jitter=False)()
    assert flaky.calls == 3
    assert clock.slept == [1, 3]


def test_total_timeout_ends_the_retries(clock):
    flaky = Flaky(100)
    with pytest.raises(ConnectionError):
        decorated(flaky, clock, strategy="fixed", initial_delay=10, jitter=False, total_timeout=25)()
    assert clock.slept == [10, 10]


def test_a_policy_and_a_number_of_attempts(clock):
    flaky = Flaky(100)
    call = retry(RetryPolicy(max_attempts=2, strategy="immediate"), sleep=clock.sleep)(flaky.__call__)
    with pytest.raises(ConnectionError):
        call()
    assert flaky.calls == 2
    flaky = Flaky(100)
    with pytest.raises(ConnectionError):
        retry(4, sleep=clock.sleep)(flaky.__call__)()
    assert flaky.calls == 4
    with pytest.raises(InvalidArgumentError):
        retry(RetryPolicy(), max_attempts=3)


def test_retry_on_names_base_classes(clock):
    flaky = Flaky(1, ConnectionResetError)
    assert decorated(flaky, clock, retry_on=[OSError])("value") == "value"
    flaky = Flaky(1, ConnectionResetError)
    with pytest.raises(ConnectionResetError):
        decorated(flaky, clock, retry_on=[KeyError])()


def test_before_sleep_is_told(clock):
    told = []
    decorated(Flaky(2), clock, jitter=False, before_sleep=told.append)()
    assert [(state.attempt, state.delay, state.failure_class) for state in told] == [
        (1, 1, "network"),
        (2, 3, "network"),
    ]
    assert isinstance(told[0].exception, ConnectionError)


def test_interrupts_are_not_retried(clock):
    for exception in (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        flaky = Flaky(1, exception)
        with pytest.raises(exception):
            decorated(flaky, clock)()
        assert flaky.calls == 1


def test_coroutines(clock):
    flaky = Flaky(2)
    call = retry(sleep=clock.sleep_async, clock=clock, jitter=False)(flaky.coroutine)
    assert inspect.iscoroutinefunction(call)
    assert asyncio.run(call("value")) == "value"
    assert clock.slept == [1, 3]


def test_a_cancelled_coroutine_stops_at_once():
    flaky = Flaky(100)

    async def main():
        task = asyncio.create_task(retry(initial_delay=60, jitter=False)(flaky.coroutine)())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert flaky.calls == 1


def test_generators_are_refused():
    with pytest.raises(InvalidArgumentError, match="generator"):

        @retry
        def numbers():
            yield 1


def test_methods_and_nested_decorators(clock):
    class Service:
        calls = 0

        @retry(max_attempts=3, sleep=clock.sleep)
        def call(self):
            self.calls += 1
            if self.calls < 3:
                raise TimeoutError
            return self.calls

    assert Service().call() == 3


def test_a_breaker_rejects_while_it_is_open(clock):
    breaker = Breaker(failure_threshold=2, recovery_timeout=30, recovery_jitter=0, on_open="reject", clock=clock)
    flaky = Flaky(100)
    with pytest.raises(BreakerOpenError):
        decorated(flaky, clock, breaker=breaker, jitter=False)()
    assert flaky.calls == 2
    assert breaker.status.state == "open"
    with pytest.raises(BreakerOpenError):
        decorated(Flaky(0), clock, breaker=breaker)()
    clock.now += 30
    assert decorated(Flaky(0), clock, breaker=breaker)("value") == "value"
    assert breaker.status.state == "closed"


def test_a_breaker_parks_at_no_cost_of_an_attempt(clock):
    breaker = Breaker(failure_threshold=2, recovery_timeout=30, recovery_jitter=0, clock=clock)
    flaky = Flaky(3)
    call = decorated(flaky, clock, breaker=breaker, strategy="immediate", max_attempts=4)
    assert call("value") == "value"
    assert flaky.calls == 4
    assert sum(clock.slept) >= 60
    breaker.trip()
    assert breaker.status.state == "forced_open"
    breaker.reset()
    assert call("again") == "again"


def open_breaker(clock, **options):
    breaker = Breaker(failure_threshold=1, recovery_multiplier=1, recovery_jitter=0, clock=clock, **options)
    with pytest.raises(ConnectionError):
        decorated(Flaky(9), clock, breaker=breaker, max_attempts=1)()
    return breaker


def test_a_breaker_holds_a_call_within_its_total_timeout(clock):
    breaker = open_breaker(clock, recovery_timeout=60)
    told = []
    options = {"strategy": "fixed", "initial_delay": 10, "jitter": False, "max_attempts": 9}
    flaky = Flaky(9)
    began = clock.now
    with pytest.raises(ConnectionError):
        decorated(flaky, clock, breaker=breaker, before_sleep=told.append, total_timeout=125, **options)()
    # Held for 60 s before the first attempt and for 50 s before the second; then the next one would be too late.
    assert (flaky.calls, clock.now - began) == (2, 120)
    assert [state.elapsed for state in told] == [60]
    breaker = open_breaker(clock, recovery_timeout=60)
    began = clock.now
    flaky = Flaky(9)
    with pytest.raises(ConnectionError):  # of the first attempt: after 10 s it would be held for 50 s more
        decorated(flaky, clock, breaker=breaker, total_timeout=80, **options)()
    assert (flaky.calls, clock.now - began) == (1, 70)


def test_a_call_that_a_breaker_would_hold_for_too_long_ends_at_once(clock):
    breaker = open_breaker(clock, recovery_timeout=60)
    slept = len(clock.slept)
    flaky = Flaky(0)
    with pytest.raises(BreakerOpenError, match="longer than the call may take"):
        decorated(flaky, clock, breaker=breaker, total_timeout=25)()
    assert (flaky.calls, len(clock.slept)) == (0, slept)
    decorated(flaky, clock, breaker=breaker, total_timeout=0)()
    assert flaky.calls == 1


def test_a_call_that_ends_within_another_use_of_its_breaker(clock):
    """As the garbage collector does, if it closes a coroutine at that moment."""
    ended = []

    def ending_clock():
        if permits:
            breaker.record(permits.pop(), RETURNED)
            ended.append(True)
        return clock()

    permits = []
    breaker = Breaker(clock=ending_clock)
    for use in (breaker.allow, breaker.wait_time, lambda: breaker.status, breaker.trip):
        permits.append(breaker.allow())
        use()
    assert len(ended) == 4


def test_a_breaker_around_coroutines(clock):
    breaker = Breaker(failure_threshold=1, recovery_timeout=5, recovery_jitter=0, clock=clock)
    call = retry(sleep=clock.sleep_async, clock=clock, breaker=breaker, strategy="immediate")(Flaky(1).coroutine)
    assert asyncio.run(call("value")) == "value"
    assert clock.slept == [5]


def test_an_interrupted_probe_gives_its_place_back(clock):
    breaker = Breaker(failure_threshold=1, recovery_timeout=5, recovery_jitter=0, on_open="reject", clock=clock)
    with pytest.raises(BreakerOpenError):
        decorated(Flaky(9), clock, breaker=breaker, strategy="immediate")()
    clock.now += 5
    with pytest.raises(KeyboardInterrupt):
        decorated(Flaky(1, KeyboardInterrupt), clock, breaker=breaker)()
    assert decorated(Flaky(0), clock, breaker=breaker)("value") == "value"


def test_classify_may_be_a_function(clock):
    flaky = Flaky(1, ValueError)
    assert decorated(flaky, clock, classify=lambda exc: "transient")("value") == "value"
    assert redrive.classify(ValueError()).failure_class == "validation"


def test_what_a_callback_raises_passes_through_and_gives_the_permit_back(clock):
    breaker = Breaker(failure_threshold=1, recovery_timeout=5, recovery_jitter=0, on_open="reject", clock=clock)
    with pytest.raises(BreakerOpenError):
        decorated(Flaky(9), clock, breaker=breaker, strategy="immediate")()
    clock.now += 5
    with pytest.raises(ZeroDivisionError):
        decorated(Flaky(1), clock, breaker=breaker, classify=lambda exc: 1 / 0)()
    assert decorated(Flaky(0), clock, breaker=breaker)("value") == "value"
