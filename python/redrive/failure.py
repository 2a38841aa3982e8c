"""What an exception says about a failure, and the class that the C library makes of it.

An exception is described by facts: the names of its class and of all that it derives from, its
message, and what it carries of HTTP statuses, SQLSTATEs and errno. The classification table of the C
library turns them into a failure class.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from redrive._native import encode, ffi, lib, milliseconds, raise_error, seconds
from redrive.vocabulary import CLASSES, SOURCES, FailureClass, number, severity_name

#: Names the class of an exception, or None: then the table decides.
ClassifyFunction = Callable[[BaseException], Union[FailureClass, str, None]]

STACKTRACE_MAX = 65536
MESSAGE_MAX = 4096
_TYPES_MAX = 64
#: A wait of more than 30 years is not meant, and must still fit in milliseconds.
_RETRY_AFTER_MAX_S = 1e9


def type_name(type_: type) -> str:
    return f"{type_.__module__}.{type_.__qualname__}"


class _TypeNames:
    """The names of an exception class and of its bases, for Python and for C."""

    def __init__(self, type_: type[BaseException]) -> None:
        self.names = [type_name(base) for base in type_.__mro__[:_TYPES_MAX] if base is not object]
        self.shown = type_.__qualname__ if type_.__module__ == "builtins" else self.names[0]
        self.c_shown = ffi.new("char[]", encode(self.shown, "type"))
        self._c_names = [ffi.new("char[]", encode(name, "type")) for name in self.names]
        self.c_types = ffi.new("const char *[]", self._c_names)


_known: dict[type[BaseException], _TypeNames] = {}


def _names_of(type_: type[BaseException]) -> _TypeNames:
    names = _known.get(type_)
    if names is None:
        if len(_known) >= 4096:  # a program that makes classes as it goes
            _known.clear()
        names = _known[type_] = _TypeNames(type_)
    return names


@dataclass
class Facts:
    """What is known of a failure."""

    error_type: Optional[str] = None
    error_types: Optional[list[str]] = None
    message: Optional[str] = None
    stacktrace: Optional[str] = None
    #: The failure's own word: a class, "TRANSIENT_FAIL" or "PERMANENT_FAIL"; beats the rest.
    status: Optional[str] = None
    http_status: int = 0
    sqlstate: Optional[str] = None
    errno: int = 0
    curl_code: int = 0
    signal: int = 0
    exit_code: int = 0
    #: Seconds that the other side asked for.
    retry_after: float = 0.0


def _http_status(exc: BaseException, response: Any) -> int:
    for holder in (exc,) if response is None else (response, exc):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and 100 <= value <= 599:
                return value
    return 0


def _retry_after(exc: BaseException, response: Any) -> float:
    value = getattr(exc, "retry_after", None)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(min(value, _RETRY_AFTER_MAX_S)) if 0 < value < math.inf else 0.0
    headers: Any = getattr(exc if response is None else response, "headers", None)
    header = headers.get("Retry-After") if hasattr(headers, "get") else None
    if not isinstance(header, str) or "\0" in header:
        return 0.0
    ms: int = lib.redrive_retry_after_ms(header.encode("utf-8", "replace"), int(time.time() * 1000))
    return seconds(ms)


def _sqlstate(exc: BaseException) -> Optional[str]:
    for holder in (exc, getattr(exc, "orig", None), exc.__cause__):
        for name in ("sqlstate", "pgcode"):
            value = getattr(holder, name, None)
            if isinstance(value, str) and len(value) == 5:
                return value
    return None


def _own_word(exc: BaseException, classify: Optional[ClassifyFunction]) -> Optional[str]:
    word = classify(exc) if classify is not None else None
    if word is None:
        word = getattr(exc, "redrive_status", None)
    return None if word is None else CLASSES[number(CLASSES, word, "class of a failure")]


def describe(exc: BaseException, classify: Optional[ClassifyFunction] = None, *, stack: bool = True) -> Facts:
    """The facts of an exception."""
    names = _names_of(type(exc))
    facts = Facts(names.shown, names.names)
    facts.status = _own_word(exc, classify)
    facts.message = _message(exc)
    response = getattr(exc, "response", None)
    facts.http_status = _http_status(exc, response)
    facts.retry_after = _retry_after(exc, response)
    facts.sqlstate = _sqlstate(exc)
    if isinstance(exc, OSError) and isinstance(exc.errno, int) and exc.errno > 0:
        facts.errno = exc.errno
    if stack:
        facts.stacktrace = stack_of(exc)
    return facts


def _message(exc: BaseException) -> str:
    try:
        return str(exc)[:MESSAGE_MAX]
    except Exception:
        return "(its text cannot be made)"


def stack_of(exc: BaseException) -> str:
    """The traceback as text, the end of it if it is long: what failed stands there."""
    return "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))[-STACKTRACE_MAX // 4 :]


class NativeFailure:
    """A struct redrive_failure and all that it points at."""

    __slots__ = ("_kept", "struct")

    def __init__(self, facts: Facts, type_: Optional[type[BaseException]] = None) -> None:
        self.struct = c = ffi.new("struct redrive_failure *")
        self._kept: list[Any] = []
        c.failed = True
        if type_ is not None:
            names = _names_of(type_)
            self._kept.append(names)  # the cache may forget them while C still reads
            c.error_type = names.c_shown
            c.error_types = names.c_types
            c.n_error_types = len(names.names)
        else:
            self._fill_types(facts)
        for name in ("message", "status", "sqlstate", "stacktrace"):
            value = getattr(facts, name)
            if value:
                data = ffi.new("char[]", value.replace("\0", "\ufffd").encode("utf-8", "replace"))
                self._kept.append(data)
                setattr(c, name, data)
        c.http_status = facts.http_status
        c.errnum = facts.errno
        c.curl_code = facts.curl_code
        c.signal = facts.signal
        c.exit_code = facts.exit_code
        if facts.retry_after:
            c.retry_after_ms = milliseconds(facts.retry_after, "retry_after")

    def _fill_types(self, facts: Facts) -> None:
        if facts.error_type:
            self.struct.error_type = self._text(facts.error_type)
        if facts.error_types:
            names = [self._text(name) for name in facts.error_types[:_TYPES_MAX]]
            array = ffi.new("const char *[]", names)
            self._kept.append(array)
            self.struct.error_types = array
            self.struct.n_error_types = len(names)

    def _text(self, value: str) -> Any:
        data = ffi.new("char[]", encode(value, "error type"))
        self._kept.append(data)
        return data


def native_failure(
    failure: Union[BaseException, Facts], classify: Optional[ClassifyFunction] = None, *, stack: bool = True
) -> NativeFailure:
    if isinstance(failure, Facts):
        return NativeFailure(failure)
    return NativeFailure(describe(failure, classify, stack=stack), type(failure))


# ---- Classification -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of the classification table, before the built-in ones: ``Row("error_type", "Quota*", "rate_limited")``.

    ``source`` is one of status, error_type, http_status, sqlstate, curl, errno, signal, exit_code, message
    (a regular expression). The other fields limit it to jobs that carry them.
    """

    source: str
    pattern: str
    failure_class: Union[FailureClass, str]
    task: Optional[str] = None
    queue: Optional[str] = None
    service: Optional[str] = None
    user: Optional[str] = None


def native_rows(rows: Iterable[Row]) -> tuple[Any, int, list[Any]]:
    """An array of struct redrive_classify_row, its length, and what must be kept alive with it."""
    rows = list(rows)
    array = ffi.new("struct redrive_classify_row[]", len(rows))
    kept: list[Any] = [array]
    for c, row in zip(array, rows):
        c.source = number(SOURCES, row.source, "source")
        c.class_ = number(CLASSES, row.failure_class, "class")
        for name in ("pattern", "task", "queue", "service", "user"):
            value = getattr(row, name)
            if value is not None:
                data = ffi.new("char[]", encode(value, name))
                kept.append(data)
                setattr(c, name, data)
    return array, len(rows), kept


class Classifier:
    """Rows of your own, compiled; and a function that is asked before them."""

    def __init__(self, rows: Iterable[Row] = (), function: Optional[ClassifyFunction] = None) -> None:
        self.rows = tuple(rows)
        self.function = function
        self.native = ffi.NULL
        if self.rows:
            err = ffi.new("struct redrive_err *")
            array, n, _kept = native_rows(self.rows)
            native = lib.redrive_classifier_new(array, n, err)
            if native == ffi.NULL:
                raise_error(err)
            self.native = ffi.gc(native, lib.redrive_classifier_free)

    def __reduce__(self) -> tuple[Any, ...]:
        return Classifier, (self.rows, self.function)


def as_classifier(classify: Union[Classifier, ClassifyFunction, Iterable[Row], None]) -> Classifier:
    """What ``classify=`` may be: a classifier, a function, or rows."""
    if isinstance(classify, Classifier):
        return classify
    if callable(classify):
        return Classifier(function=classify)
    return Classifier(classify or ())


@dataclass(frozen=True)
class Verdict:
    """What the classification table makes of a failure."""

    failure_class: str
    severity: str
    #: No row matched: it is taken for transient.
    unclassified: bool


def classify(failure: Union[BaseException, Facts], classifier: Optional[Classifier] = None) -> Verdict:
    """The class of an exception, or of facts."""
    classifier = classifier or _BUILT_IN
    native = native_failure(failure, classifier.function, stack=False)
    if isinstance(failure, Facts):
        native.struct.failed = False  # the facts decide: a status of 200 is a success
    verdict = lib.redrive_classify(classifier.native, native.struct, ffi.NULL)
    return Verdict(CLASSES[verdict.class_], severity_name(verdict.severity), verdict.unclassified)


_BUILT_IN = Classifier()
