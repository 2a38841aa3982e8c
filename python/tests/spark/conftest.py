"""A Spark session with Delta for all tests, and a queue of its own for each."""

import datetime as dt
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
START = dt.datetime(2030, 1, 1, 12, tzinfo=dt.timezone.utc)


def at(minutes):
    return START + dt.timedelta(minutes=minutes)


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from spark_session import build

    session = build(os.environ.get("SPARK_TEST_MASTER", "local[2]"), tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def config(tmp_path):
    from redrive.spark import RetryQueueConfig

    return RetryQueueConfig(f"{tmp_path}/retry_queue", f"{tmp_path}/final_results", f"{tmp_path}/dead_letter_queue")


@pytest.fixture
def queue(spark, config):
    from redrive.spark import RetryQueue

    return RetryQueue(spark, config)


@pytest.fixture
def frame(spark):
    """Records of (sample_id, payload) as a DataFrame."""
    return lambda rows: spark.createDataFrame(rows, "sample_id string, payload string")
