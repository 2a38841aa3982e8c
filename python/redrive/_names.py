"""Names that are unknown are answered with the nearest one that is known."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from redrive.errors import InvalidArgumentError, UnknownArgumentError

F = TypeVar("F", bound=Callable[..., Any])

#: What other libraries, and retry code written by hand, call the same thing where no letters say so.
_ELSEWHERE = {
    "max_retries": "retries num_retries retry_count retry_limit",
    "max_attempts": "tries max_tries attempts num_attempts max_retry_attempts stop_after_attempt",
    "initial_delay": "delay base_delay base_backoff retry_delay retry_delay_seconds wait interval countdown",
    "max_delay": "max_wait retry_backoff_max max_backoff",
    "multiplier": "backoff factor exponential_base backoff_multiplier",
    "total_timeout": "timeout max_time stop_after_delay",
    "retry_on": "exceptions retry_exceptions autoretry_for retryable_exceptions",
    "give_up_on": "giveup dont_autoretry_for non_retryable_exceptions",
    "retry": "policy retry_config config",
    "monitor": "callback monitoring_callback on_event",
    "breaker": "circuit_breaker",
    "failure_threshold": "threshold fail_max max_failures",
    "recovery_timeout": "reset_timeout timeout_seconds",
    "task": "job_type task_type type name",
    "payload": "data input_data args",
    "user": "user_id",
    "project": "project_id",
    "dead_letters": "dlq dead_letter_queue failed_jobs",
    "breakers": "circuit_breakers",
    "health": "get_health_status get_health",
    "metrics": "get_metrics stats get_stats",
    "submit_job": "submit run process_job execute",
}
_HERE = {word: name for name, words in _ELSEWHERE.items() for word in words.split()}


def hint_for(word: object, known: Iterable[str]) -> str:
    """ "did you mean …?" if one of the known names is near, or else all of them."""
    names = list(known)
    text = str(word).lower()
    if _HERE.get(text) in names:
        return f"did you mean {_HERE[text]}?"
    near = difflib.get_close_matches(text, names, 1)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(names)}"


def unknown(what: str, word: object, known: Iterable[str]) -> InvalidArgumentError:
    """The error for a word that is none of the known ones."""
    return InvalidArgumentError(f"{what}: there is no '{word}'", code="UNKNOWN", hint=hint_for(word, known))


def _keywords_of(function: Callable[..., Any]) -> frozenset[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind in kinds and p.name != "self")


def _refuse_unknown(name: str, given: Iterable[str], known: frozenset[str]) -> None:
    for word in given:
        if word not in known:
            raise UnknownArgumentError(f"{name.lstrip('_')} has no argument {word}", hint=hint_for(word, sorted(known)))


class NamesChecked:
    """A class whose constructor answers an unknown keyword with the nearest right one."""

    _known: frozenset[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._known = frozenset()

    def __new__(cls, *_args: Any, **given: Any) -> Any:
        # Looked up with the first object: a dataclass has its constructor after the class is made.
        if given and not cls._known:
            cls._known = _keywords_of(cls.__init__)
        if not cls._known.issuperset(given):
            _refuse_unknown(cls.__name__, given, cls._known)
        return super().__new__(cls)


def names_checked(function: F) -> F:
    """The same for a function."""
    known = _keywords_of(function)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if not known.issuperset(given):
            _refuse_unknown(function.__name__, given, known)
        return function(*args, **given)

    return cast(F, call)


def no_attribute(self: object, name: str) -> AttributeError:
    """For ``__getattr__``: the error for an attribute that an object does not have."""
    known = [word for word in dir(type(self)) if not word.startswith("_")] + list(vars(self))
    return AttributeError(f"{type(self).__name__} has no attribute {name}; hint: {hint_for(name, sorted(known))}")
