"""The first batch of a queue makes its tables, and knows that they are empty."""

import pytest
from conftest import START
from handlers import flaky
from test_pipeline import everything

from redrive.spark import BatchConflictError, RetryQueue, tables

GIVEN = [("a", "ok"), ("a", "ok"), ("b", "flaky:1"), ("c", "bad")]
SETTING = "spark.databricks.delta.snapshotPartitions"


@pytest.fixture
def session(spark):
    """As a user's: without the setting that the others of these tests have."""
    before = spark.conf.get(SETTING)
    spark.conf.unset(SETTING)
    yield spark
    spark.conf.set(SETTING, before)


def tasks_by_job(spark):
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return {jobs.apply(i).jobId(): jobs.apply(i).numTasks() for i in range(jobs.size())}


def test_a_small_batch_has_few_tasks(session, queue, frame):
    for given in (GIVEN, [("d", "ok")]):
        before = tasks_by_job(session).keys()
        assert queue.process_batch(frame(given), flaky, now=START).succeeded == 1
        took = {job: n for job, n in tasks_by_job(session).items() if job not in before}
        assert 0 < sum(took.values()) < 200, took  # more than a thousand with Delta's 50 for each look at a table
        assert session.conf.get(SETTING, None) is None


def test_a_setting_of_the_session_is_kept(session):
    with tables.few_log_tasks(session):
        assert session.conf.get(SETTING) == str(session.sparkContext.defaultParallelism)
        with tables.few_log_tasks(session, session):
            pass
        assert session.conf.get(SETTING) == str(session.sparkContext.defaultParallelism)
    session.conf.set(SETTING, "7")
    with tables.few_log_tasks(session):
        assert session.conf.get(SETTING) == "7"
    assert session.conf.get(SETTING) == "7"


def test_a_driver_that_another_overtakes_after_it_has_made_the_tables_is_refused(spark, config, frame):
    slow, fast = RetryQueue(spark, config), RetryQueue(spark, config)
    make = slow._make_tables

    def make_and_be_overtaken():
        made = make()
        assert fast.process_batch(frame(GIVEN), flaky, now=START).new_records == 3
        return made

    slow._make_tables = make_and_be_overtaken
    with pytest.raises(BatchConflictError):
        slow.process_batch(frame(GIVEN), flaky, now=START)
    assert [sorted(rows) for rows in everything(spark, config)] == [["a"], ["b"], ["c"]]
    assert slow.process_batch(frame(GIVEN), flaky, now=START).new_records == 0
