import io
import urllib.error

import pytest

import redrive
from redrive import Classifier, Row, classify, describe


class Broken(ConnectionError):
    pass


class Response:
    def __init__(self, status_code, headers=None):
        self.status_code = status_code
        self.headers = headers or {}


class HTTPStatusError(Exception):
    def __init__(self, response):
        super().__init__(f"status {response.status_code}")
        self.response = response


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        (ValueError("no"), "validation"),
        (Broken("no"), "network"),
        (TimeoutError("no"), "transient"),
        (PermissionError(13, "no"), "authentication"),
        (HTTPStatusError(Response(429)), "rate_limited"),
        (HTTPStatusError(Response(404)), "permanent"),
        (HTTPStatusError(Response(503, {"Retry-After": "7"})), "rate_limited"),
        (urllib.error.HTTPError("http://x", 502, "bad", {}, io.BytesIO()), "transient"),
        (redrive.PermanentFailure("no"), "permanent"),
        (redrive.RateLimited("no", retry_after=3), "rate_limited"),
        (Exception("no"), "transient"),
    ],
)
def test_class_of_an_exception(exception, expected):
    assert classify(exception).failure_class == expected


def test_the_whole_hierarchy_is_named():
    facts = describe(Broken("no"))
    assert facts.error_type == "test_failure.Broken"
    assert facts.error_types == [
        "test_failure.Broken",
        "builtins.ConnectionError",
        "builtins.OSError",
        "builtins.Exception",
        "builtins.BaseException",
    ]
    assert describe(ValueError()).error_type == "ValueError"


def test_sqlstate_is_found_where_libraries_keep_it():
    class DatabaseError(Exception):
        sqlstate = "40001"

    class Wrapped(Exception):
        orig = DatabaseError()

    assert classify(DatabaseError()).failure_class == "database"
    assert classify(Wrapped()).failure_class == "database"


def test_rows_and_functions_come_first():
    rows = Classifier([Row("error_type", "Brok*", "permanent"), Row("message", "no .* today", "rate_limited")])
    assert classify(Broken(), rows).failure_class == "permanent"
    assert classify(Exception("no more today"), rows).failure_class == "rate_limited"
    function = Classifier(function=lambda exc: "system" if isinstance(exc, KeyError) else None)
    assert classify(KeyError("x"), function).failure_class == "system"
    assert classify(ValueError("x"), function).failure_class == "validation"
    with pytest.raises(redrive.InvalidArgumentError):
        Classifier([Row("http_status", "many", "permanent")])
    with pytest.raises(redrive.InvalidArgumentError, match="class of a failure"):
        classify(KeyError("x"), Classifier(function=lambda exc: "bad"))


def test_odd_exceptions_are_described():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert describe(Mute()).message == "(its text cannot be made)"
    assert classify(Exception("with \0 and \ud800")).failure_class == "transient"


def test_retry_after_is_a_floor():
    policy = redrive.RetryPolicy(initial_delay=1, jitter=False)
    assert redrive.decide(policy, 1, redrive.RateLimited(retry_after=20)).delay >= 20
