"""A retry queue for records on Spark, kept in Delta tables.

:class:`RetryQueue` runs a function over new records and over those whose wait is over. Results, waiting
records and dead letters are three Delta tables. The class of a failure, and whether and when it is tried
again, are decided by the C library, on the executors. :func:`submit_jobs` and :func:`read_jobs` are for work that a
Redrive server hands out.
"""

try:
    import delta as _delta  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as missing:
    raise ImportError(f"redrive.spark: {missing}; hint: pip install 'redrive[spark]'") from missing

from redrive.spark.config import RetryQueueConfig
from redrive.spark.errors import BatchConflictError, ExecutorError, HandlerError, StoreError, TableError
from redrive.spark.queue import RetryQueue
from redrive.spark.results import BatchResult, Status
from redrive.spark.store import Submitted, read_jobs, submit_jobs

__all__ = [
    "BatchConflictError",
    "BatchResult",
    "ExecutorError",
    "HandlerError",
    "RetryQueue",
    "RetryQueueConfig",
    "Status",
    "StoreError",
    "Submitted",
    "TableError",
    "read_jobs",
    "submit_jobs",
]
