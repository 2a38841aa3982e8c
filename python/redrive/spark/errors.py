"""What can go wrong in a batch. After each of these no record is lost: run the batch again."""

from __future__ import annotations

import json
import re
from typing import Any, Optional

from redrive.errors import ConflictError, RedriveError

_MARK = "redrive-fault:"


class HandlerError(RedriveError):
    """``process_record`` or ``setup`` cannot run. It is a fault of the program: no record is charged with it."""

    code = "INVALID"


class ExecutorError(RedriveError):
    """An executor died, or Spark ended the job. Nothing of the batch was written."""

    code = "IO"


class TableError(RedriveError):
    """A Delta table does not have the columns that the queue needs."""

    code = "STATE"


class StoreError(RedriveError):
    """Jobs could not be submitted to a Redrive server, or not be read from it. Submitting them again is safe."""

    code = "IO"


class BatchConflictError(ConflictError):
    """Another driver ran a batch of this queue at the same time, and was first. Nothing of this one was written."""


class HandlerFault(Exception):
    """Carries a HandlerError, or another one of this module, from an executor to the driver, as text."""

    def __init__(self, message: str, hint: str, kind: str = "HandlerError") -> None:
        super().__init__(f"{_MARK}{json.dumps({'message': message, 'hint': hint, 'kind': kind})}")


_KINDS: dict[str, type[RedriveError]] = {kind.__name__: kind for kind in (HandlerError, ExecutorError, StoreError)}


def _text_of(exc: BaseException) -> str:
    """What an exception says, and its causes in the JVM, which Spark's own text may leave out."""
    texts = [str(exc)]
    cause: Any = getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
    while cause is not None and len(texts) < 12:
        texts.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n".join(texts)


def from_spark(exc: BaseException) -> Optional[RedriveError]:
    """The error that an exception of a Spark job stands for, or None: then it is Spark's own."""
    text = _text_of(exc)
    mark = text.find(_MARK)
    if mark >= 0:
        fault, _end = json.JSONDecoder().raw_decode(text[mark + len(_MARK) :])
        return _KINDS[fault["kind"]](fault["message"], hint=fault["hint"])
    if "PicklingError" in text or "Could not serialize" in text or "cannot pickle" in text:
        return not_picklable(exc)
    missing = re.search(r"ModuleNotFoundError: (No module named '(\w+)[^\n]*)", text)
    if missing:
        module = missing.group(2)
        wheel = "install the wheel on every node" if module == "redrive" else "give it with --py-files or addPyFile"
        return HandlerError(f"an executor cannot import {module}", detail=missing.group(1), hint=wheel)
    if re.search(r"Python worker exited|ExecutorLostFailure|worker process .*died|EOFException", text):
        return ExecutorError(
            "an executor died while it processed records",
            detail=text.strip().splitlines()[0][:300],
            hint="no record was charged; run the batch again. If it dies again, look for a record that kills the "
            "process (native code, memory): spark.executor.memoryOverhead, or fewer rows at a time with "
            "spark.sql.execution.arrow.maxRecordsPerBatch",
        )
    return None


def not_picklable(exc: BaseException) -> HandlerError:
    return HandlerError(
        "process_record cannot be sent to the executors",
        detail=str(exc).strip().splitlines()[0][:300] if str(exc) else type(exc).__name__,
        hint="it refers to something that cannot be pickled (a connection, a lock, the SparkSession): open it in "
        "setup=, which runs once in each partition, and take it as the second argument",
    )


def is_conflict(exc: BaseException) -> bool:
    """Whether Delta refused a commit because another one was first."""
    text = f"{type(exc).__name__} {_text_of(exc)}"
    return bool(re.search(r"Concurrent\w*Exception|DELTA_CONCURRENT|DELTA_PROTOCOL_CHANGED|MetadataChanged", text))
