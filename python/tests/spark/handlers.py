"""Functions that run on executors. They are sent by value, so that executors need not find this file."""

import os
import sys
import uuid

from pyspark import cloudpickle

import redrive

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def parity(record):
    """Numbers: even ones succeed, odd ones fail for good; what is not a number is a ValueError."""
    if int(record["payload"]) % 2:
        return "PERMANENT_FAIL", "odd"
    return "SUCCESS", f"{record['payload']} is even"


def flaky(record):
    """`ok` succeeds, `flaky:N` after N retries, `down` never, `bad` is refused for good."""
    payload = record["payload"]
    if payload == "ok":
        return "SUCCESS", "done"
    if payload == "bad":
        raise ValueError("bad record")
    if payload == "down":
        raise ConnectionError("service is down")
    if record["retry_count"] < int(payload.split(":")[1]):
        raise redrive.TransientFailure("not yet")
    return "SUCCESS", f"after {record['retry_count']}"


class Noted:
    """`flaky`, with an empty file for each call, named after the record and its retry."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, record):
        name = f"{record['sample_id']}.{record['retry_count']}.{uuid.uuid4().hex}"
        (self.folder / name).touch()
        return flaky(record)


def returns_a_number(record):
    return 5


def returns_an_object(record):
    return "SUCCESS", {"a": 1}


def imports_what_is_not_there(record):
    import no_such_module_here  # noqa: F401


def dies(record):
    os._exit(9)


def fails():
    raise ConnectionError("database is down")


def broken(record):
    return undefined_name  # noqa: F821


def with_resource(record, resource):
    return "SUCCESS"


class Service:
    """A service that is down while FOLDER/down is there; a file for each call."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, record):
        (self.folder / "calls" / f"{record['sample_id']}.{uuid.uuid4().hex}").touch()
        if (self.folder / "down").exists():
            raise ConnectionError("service is down")
        return "SUCCESS", "done"
