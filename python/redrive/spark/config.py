"""Where a queue keeps its tables, and how it retries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Optional

from redrive._names import NamesChecked, unknown
from redrive.breaker import BreakerConfig
from redrive.errors import InvalidArgumentError
from redrive.failure import Row
from redrive.policy import RetryPolicy

#: The sections of a configuration file, and the field that each of their keys sets.
_FILE_KEYS = {
    "paths": {
        "retry_queue": "retry_table_path",
        "final_results": "final_table_path",
        "dead_letter_queue": "dlq_table_path",
    },
    "retry": {"max_retries": "max_retries", "base_backoff_minutes": "base_backoff_minutes"},
    "batch": {
        name: name
        for name in ("partitions", "max_due_per_batch", "known_ids_days", "rows_per_file", "compact_every_batches")
    },
}
_WAIT_MAX_S = 30 * 86400


@dataclass(frozen=True)
class RetryQueueConfig(NamesChecked):
    """A table is a path (``/mnt/delta/retry_queue``, ``s3://…``) or a name (``catalog.schema.table``).

    More tables stand beside the retry queue, with the same name and ``_outcomes``, ``_runs`` or ``_breaker`` behind
    it: the outcomes of the batch under way, a row for each batch, and the state of the breaker if there is one.
    """

    retry_table_path: str
    final_table_path: str
    dlq_table_path: str
    #: Retries after the first run; then the record is dead.
    max_retries: int = 5
    #: The wait before the first retry; each further one is twice as long.
    base_backoff_minutes: float = 2
    #: In place of the two fields above.
    policy: Optional[RetryPolicy] = None
    #: Rows of the classification table, before the built-in ones.
    classify: Iterable[Row] = ()
    #: Holds records back while the service that ``process_record`` calls is down.
    breaker: Optional[BreakerConfig] = None
    #: Tasks that run ``process_record``; None: as many as Spark has cores.
    partitions: Optional[int] = None
    #: At most so many waiting records in a batch, those that are due longest first; None: all.
    max_due_per_batch: Optional[int] = None
    #: New records are compared with those that ended in the last days; None: with all.
    known_ids_days: Optional[int] = None
    #: A batch writes one file to a table for each so many records.
    rows_per_file: int = 250_000
    #: Small files are joined (OPTIMIZE) after each so many batches; 0: never.
    compact_every_batches: int = 20

    def __post_init__(self) -> None:
        for name in ("retry_table_path", "final_table_path", "dlq_table_path"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InvalidArgumentError(f"{name} is empty", hint="give the path or the name of a Delta table")
            object.__setattr__(self, name, value.rstrip("/"))
        if len({self.retry_table_path, self.final_table_path, self.dlq_table_path}) < 3:
            raise InvalidArgumentError("two of the three tables are the same", hint="give each a path of its own")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InvalidArgumentError(f"{name}: {value!r} is not a whole number of {least} or more", code="RANGE")
        minutes = self.base_backoff_minutes
        if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes <= 43200:
            raise InvalidArgumentError(f"base_backoff_minutes: {minutes!r} is not within 0 and 43200", code="RANGE")
        object.__setattr__(self, "classify", tuple(self.classify))
        if self.breaker is not None and self.breaker.on_open not in (None, "park"):
            raise InvalidArgumentError(
                f"breaker: on_open is {self.breaker.on_open!r}", hint="records of an open breaker wait: on_open='park'"
            )

    @property
    def outcomes_table(self) -> str:
        return f"{self.retry_table_path}_outcomes"

    @property
    def runs_table(self) -> str:
        return f"{self.retry_table_path}_runs"

    @property
    def breaker_table(self) -> str:
        return f"{self.retry_table_path}_breaker"

    def retry_policy(self) -> RetryPolicy:
        """The policy in force. Without one of your own: the profile ``records`` with the two fields put in."""
        if self.policy is not None:
            return self.policy
        first = 60 * self.base_backoff_minutes
        longest = min(first * 2.0 ** min(self.max_retries, 60), _WAIT_MAX_S)
        return RetryPolicy(
            profile="records", max_retries=self.max_retries, initial_delay=first, max_delay=max(longest, first)
        )

    @classmethod
    def from_file(cls, path: str) -> RetryQueueConfig:
        """Reads a YAML or JSON file with the sections ``paths``, ``retry``, ``batch`` and ``breaker``."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return cls.from_dict(_parse(text, path))

    @classmethod
    def from_dict(cls, sections: Mapping[str, Any]) -> RetryQueueConfig:
        """The same, parsed."""
        values: dict[str, Any] = {}
        known = {**_FILE_KEYS, "breaker": {field.name: field.name for field in fields(BreakerConfig)}}
        for section, content in sections.items():
            keys = known[_known(section, known, "section")]
            if not isinstance(content, Mapping):
                raise InvalidArgumentError(f"section {section} has no keys")
            if section == "breaker":
                settings = {_known(key, keys, "key in breaker"): value for key, value in content.items()}
                values["breaker"] = BreakerConfig(**settings)
                continue
            for key, value in content.items():
                values[keys[_known(key, keys, f"key in {section}")]] = value
        missing = [f.name for f in fields(cls)[:3] if f.name not in values]
        if missing:
            paths = {field: key for key, field in _FILE_KEYS["paths"].items()}
            raise InvalidArgumentError("a table has no path", hint=f"set paths.{paths[missing[0]]}")
        return cls(**values)


_LEAST = {
    "max_retries": 0,
    "partitions": 1,
    "max_due_per_batch": 1,
    "known_ids_days": 1,
    "rows_per_file": 1,
    "compact_every_batches": 0,
}


def _known(word: str, words: Mapping[str, Any], what: str) -> str:
    if word not in words:
        raise unknown(what, word, words)
    return word


def _parse(text: str, path: str) -> Mapping[str, Any]:
    if path.endswith(".json"):
        parsed = json.loads(text)
    else:
        import yaml

        parsed = yaml.safe_load(text)
    if not isinstance(parsed, Mapping):
        raise InvalidArgumentError(f"{path} has no sections", hint="paths, retry, batch and breaker")
    return parsed
