"""What crosses from one process to another, by pickle or by a fork, and what must not."""

import copy
import os
import pickle
import signal

import pytest

import redrive
from redrive import App, Breaker, RetryHandler, RetryPolicy, SerializationError

ERRORS = [
    redrive.InvalidArgumentError("no", code="RANGE", detail="d", hint="h"),
    redrive.ServerError("no", status=503, code="BUSY", detail="d", hint="h"),
    redrive.UnreachableError("no", detail="d", hint="h"),
    redrive.RateLimited("no", retry_after=5),
    redrive.Snooze(5),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_come_out_of_a_pool_as_they_were_raised(error):
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(made) is type(error)
        assert (str(made), vars(made)) == (str(error), vars(error))


def test_a_policy_is_pickled():
    policy = RetryPolicy(max_attempts=3, initial_delay=2, jitter=False, retry_on=[OSError])
    assert pickle.loads(pickle.dumps(policy)).delay(2) == policy.delay(2)


@pytest.mark.parametrize("make", [RetryHandler, Breaker, App])
def test_what_belongs_to_a_process_says_so(make):
    with pytest.raises(SerializationError, match=f"{make.__name__} objects cannot be pickled") as caught:
        pickle.dumps({"kept": make()})
    assert "in each process" in caught.value.hint
    assert isinstance(caught.value, TypeError)


def test_a_task_is_pickled_no_further_than_its_application():
    task = App().task(name="send")(copy.copy)  # print has no signature before Python 3.11
    with pytest.raises(SerializationError, match="App"):
        pickle.dumps(task)


def test_a_fork_while_another_thread_uses_a_breaker():
    breaker = Breaker(failure_threshold=1, on_open="reject")
    breaker.trip()

    @redrive.retry(breaker=breaker)
    def call():
        return 7

    breaker._lock.acquire()  # as a thread would that the child does not have
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(30)
            assert call() == 7
            code = 0
        finally:
            os._exit(code)
    breaker._lock.release()
    assert os.waitpid(pid, 0)[1] == 0
    with pytest.raises(redrive.BreakerOpenError):
        call()
