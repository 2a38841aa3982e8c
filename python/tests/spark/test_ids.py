"""Ids of new records are looked up without moving the records; a source that changes meanwhile is noticed."""

import pytest
from conftest import START, at
from handlers import parity
from test_pipeline import everything

from redrive.spark import RetryQueue, ids, records

COLUMNS = "sample_id string, payload string"


@pytest.fixture(autouse=True)
def no_source_is_too_small(monkeypatch):
    monkeypatch.setattr(ids, "BYTES_MIN", 0)


@pytest.fixture
def files(spark, tmp_path):
    """Records of (sample_id, payload) as a DataFrame of Parquet files, two tasks of them."""

    def write(name, rows, kind="parquet"):
        frame = spark.createDataFrame(rows, COLUMNS).repartition(2)
        frame.write.format(kind).mode("append").save(f"{tmp_path}/{name}")
        return spark.read.format(kind).load(f"{tmp_path}/{name}")

    return write


@pytest.fixture
def joins(monkeypatch):
    """For each batch whether new records were joined with the known ids."""
    seen = []
    of_batch = records.of_batch

    def noted(*arguments, is_joined, **more):
        seen.append(is_joined)
        return of_batch(*arguments, is_joined=is_joined, **more)

    monkeypatch.setattr(records, "of_batch", noted)
    return seen


def rows(first, last):
    return [(f"S-{i:04}", "2") for i in range(first, last)]


@pytest.mark.long
def test_records_are_joined_only_if_an_id_is_known_or_repeated(spark, queue, config, files, joins):
    assert queue.process_batch(files("a", rows(0, 100)), parity, now=START).succeeded == 100
    assert queue.process_batch(files("b", [*rows(100, 200), ("S-0050", "2")]), parity, now=START).succeeded == 100
    assert queue.process_batch(files("c", [*rows(200, 300), ("S-0250", "2")]), parity, now=START).succeeded == 100
    assert joins == [False, True, True]
    assert len(everything(spark, config)[0]) == 300


def test_sources_that_cost_much_to_read_twice_are_read_once(spark, files, frame, monkeypatch):
    known = spark.createDataFrame([], "sample_id string")
    whole = files("a", rows(0, 100))
    assert ids.look(whole, known, 2).records == 100
    assert ids.look(whole.where("payload > '1'").select("sample_id"), known, 2).records == 100
    for other in (frame(rows(0, 100)), whole.join(whole, ["sample_id", "payload"]), whole.distinct()):
        assert ids.look(other, known, 2) is None
    assert ids.look(whole, known, 64) is None, "too few tasks: the records are moved anyway"
    assert ids.look(files("b", [*rows(0, 9), (None, "2")]), known, 2) is None
    monkeypatch.setattr(ids, "BYTES_MIN", 1 << 20)
    assert ids.look(whole, known, 2) is None


def test_a_source_that_grows_while_its_ids_are_looked_up(spark, config, files, joins, monkeypatch):
    """A Delta table is read in its last version each time. The second read has a record that has succeeded."""
    queue = RetryQueue(spark, config)
    queue.process_batch(files("a", rows(0, 100)), parity, now=START)
    source = files("b", rows(100, 200), "delta")
    look = ids.look

    def look_and_grow(*arguments):
        found = look(*arguments)
        files("b", [("S-0042", "2"), ("S-0200", "2")], "delta")
        return found

    monkeypatch.setattr(ids, "look", look_and_grow)
    result = queue.process_batch(source, parity, now=at(1))
    assert joins == [False, False, True]
    assert (result.batch_id, result.new_records) == (3, 101)
    final = everything(spark, config)[0]
    assert len(final) == 201
    assert final["S-0042"]["batch_id"] == 1
