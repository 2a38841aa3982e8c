"""Whether the ids of new records are all new, found without moving the records.

Known and repeated ids are left out by a join, for which every record with its payload is sent between executors and
sorted. Nearly always there are none. So the ids alone are read first, as hashes of eight bytes: if none of them occurs
twice or is known, the join is left out. A hash that two ids share costs a join, and nothing else.

The records are then read a second time. A source may have changed meanwhile: a Delta table is always read in its last
version. Therefore the number of records and the sum of the hashes go with the batch, and the executors form them again
over what they were given. A batch for which they differ does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: Below this size of a source two more reads cost more than the join.
BYTES_MIN = 8 << 20
#: Above this many ids the join is the better way: they pass through the memory of the driver.
IDS_MAX = 8_000_000
#: Plans that read some columns of columnar files, and do nothing else: to read them twice costs little.
_CHEAP_PLAN = re.compile(r"(?:[ :+|-]*(?:Project|Filter) .*\n)*[ :+|-]*Relation .*\] (?:parquet|orc)\s*")
_SUMMARY = "records bigint, has_null boolean, lowest string, highest string, hashes binary"
_ARROW_SUMMARY = pa.schema(
    [
        ("records", pa.int64()),
        ("has_null", pa.bool_()),
        ("lowest", pa.string()),
        ("highest", pa.string()),
        ("hashes", pa.binary()),
    ]
)


class Fingerprint(NamedTuple):
    """Of a set of ids. That of two sets is the sum of theirs."""

    records: int = 0
    #: Of the hashes, modulo 2**64.
    total: int = 0

    def plus(self, hashes: npt.NDArray[np.int64]) -> Fingerprint:
        total = int(np.add.reduce(hashes.view(np.uint64), dtype=np.uint64)) if len(hashes) else 0
        return self.joined(Fingerprint(len(hashes), total))

    def joined(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.records + other.records, (self.total + other.total) % 2**64)


NO_IDS = Fingerprint()


def look(new: DataFrame, known: DataFrame, partitions: int) -> Optional[Fingerprint]:
    """The fingerprint of ids of which each occurs once and none is known; None: a join must find out.

    It is for columnar files of some size, of which only the ids have to be read.

    :param known: has the column sample_id.
    :param partitions: how many tasks are wanted. If the source gives fewer the records have to be moved anyway.
    """
    execution = new._jdf.queryExecution()
    plan = execution.optimizedPlan()
    if not _CHEAP_PLAN.fullmatch(plan.toString()) or int(str(plan.stats().sizeInBytes())) < BYTES_MIN:
        return None
    tasks = execution.toRdd().getNumPartitions()
    if not partitions <= tasks <= IDS_MAX // 1000:
        return None
    hashed = new.select("sample_id", F.xxhash64("sample_id").alias("hash"))
    found = hashed.mapInArrow(_Summary(IDS_MAX // tasks).run, _SUMMARY).collect()
    if sum(row["records"] for row in found) == 0 or any(row["has_null"] or row["hashes"] is None for row in found):
        return None
    if not _is_balanced([row["records"] for row in found], partitions):
        return None
    hashes = np.sort(np.concatenate([np.frombuffer(row["hashes"], np.int64) for row in found]))
    if (hashes[1:] == hashes[:-1]).any():
        return None
    lowest = min(row["lowest"].encode() for row in found).decode()
    highest = max(row["highest"].encode() for row in found).decode()
    near = known.where(F.col("sample_id").between(lowest, highest)).select(F.xxhash64("sample_id").alias("hash"))
    if near.mapInArrow(_Search(hashes).run, "hash bigint").collect():
        return None
    return NO_IDS.plus(hashes)


def _is_balanced(records: list[int], partitions: int) -> bool:
    """Whether no task has more than twice its share of the work."""
    return max(records) <= 2 * -(-sum(records) // partitions)


class _Summary:
    """One row for a partition: how many records, the range of their ids, and the hashes unless there are too many."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records, has_null = 0, False
        hashes: list[npt.NDArray[np.int64]] = []
        edges: list[str] = []
        for batch in batches:
            if batch.num_rows == 0:
                continue
            ids = batch.column(0)
            records += batch.num_rows
            has_null = has_null or ids.null_count > 0
            if records > self.limit or has_null:
                hashes, edges = [], [""]
                continue
            ends = pc.min_max(ids).as_py()
            edges = [min([*edges, ends["min"]], key=str.encode), max([*edges, ends["max"]], key=str.encode)]
            hashes.append(batch.column(1).to_numpy())
        if records == 0:
            return
        is_whole = records <= self.limit and not has_null
        data = np.concatenate(hashes).tobytes() if is_whole else None
        values = [records, has_null, edges[0], edges[-1], data]
        arrays = [pa.array([value], field.type) for value, field in zip(values, _ARROW_SUMMARY)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SUMMARY)


class _Search:
    """At most one row for a partition: a hash that is among the given ones."""

    def __init__(self, hashes: npt.NDArray[np.int64]) -> None:
        self.hashes = hashes

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        is_found = False
        for batch in batches:
            if is_found:
                continue
            hashes = batch.column(0).to_numpy()
            places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            found = hashes[self.hashes[places] == hashes]
            if len(found):
                is_found = True
                yield pa.RecordBatch.from_arrays([pa.array(found[:1])], names=["hash"])
