"""Jobs that wait for others: edges, chains and groups as plain data.

Nothing here asks a server. A workflow is a list of jobs, each with its id and the ids that it waits for, those that
are waited for first, as the server takes an array of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Protocol, Union

from redrive.errors import InvalidArgumentError
from redrive.queue.client import JSON

#: The first of each is what the server takes when the word is left out.
_ON = ("success", "end", "failure")
_ON_DEAD = ("wait", "cancel", "run")

#: As the server has it.
PARENTS_MAX = 16384


class HasId(Protocol):
    """A job that was deferred, or any object with an ``id``."""

    @property
    def id(self) -> str: ...


#: A job to wait for: its id, what a defer returned, or what ``task.job(…)`` made.
JobRef = Union[str, HasId, Mapping[str, Any]]


@dataclass(frozen=True)
class After:
    """A job that another one waits for, and with which end.

    ::

        alarm.configure(after=After(job, on="failure")).defer()

    :param job: what a defer returned, what ``task.job(…)`` made, or an id.
    :param on: ``success``, ``end`` (whichever) or ``failure``. If the job ends otherwise, the one that waits is
        cancelled, with the reason ``skipped``.
    :param on_dead: with ``success``, when the job is a dead letter or has failed: ``wait`` until it is redriven and
        completes, ``cancel``, or ``run`` nevertheless.
    """

    job: JobRef
    on: str = "success"
    on_dead: str = "wait"

    def __post_init__(self) -> None:
        _check_rule(self.on, self.on_dead)
        _id_of(self.job)

    @property
    def id(self) -> str:
        """Of the job that is waited for."""
        return _id_of(self.job)

    def as_json(self) -> Union[str, JSON]:
        """As the server takes it."""
        rule = {"on": self.on} if self.on != _ON[0] else {}
        if self.on_dead != _ON_DEAD[0]:
            rule["on_dead"] = self.on_dead
        return {"id": self.id, **rule} if rule else self.id


Parent = Union[JobRef, After]


def _check_rule(on: str, on_dead: str) -> None:
    for name, word, words in (("on", on, _ON), ("on_dead", on_dead, _ON_DEAD)):
        if word not in words:
            raise InvalidArgumentError(f"{name}: {word!r} is not known", hint=f"one of {', '.join(words)}")


def _id_of(job: JobRef) -> str:
    if isinstance(job, Mapping):  # without a task it is no job, but an edge as the server takes it
        id_ = job.get("id") if "task" in job else None
    else:
        id_ = job if isinstance(job, str) else getattr(job, "id", None)
    if not isinstance(id_, str) or not id_:
        raise InvalidArgumentError(
            f"after: {job!r} is not a job",
            hint="give an id, what defer() returned, what task.job(…) made, or After(job, on=…, on_dead=…) of one",
        )
    return id_


def edges(after: Union[Parent, Iterable[Parent]]) -> list[Union[str, JSON]]:
    """The member ``after`` of a new job, from what a caller gave: one job, or many."""
    is_one = isinstance(after, (str, Mapping)) or hasattr(after, "id") or not isinstance(after, Iterable)
    given: Iterable[Any] = [after] if is_one else after  # type: ignore[assignment]
    return _as_json([one if isinstance(one, After) else After(one) for one in given])


def _as_json(after: list[After]) -> list[Union[str, JSON]]:
    if len(after) > PARENTS_MAX:
        raise InvalidArgumentError(
            f"after: a job waits for at most {PARENTS_MAX} others, not {len(after)}",
            code="RANGE",
            hint="let groups of them have a job each that waits for the group",
        )
    return [one.as_json() for one in after]


def edges_of(job: Mapping[str, Any]) -> list[After]:
    """What a job, as the server takes it, waits for."""
    given = job.get("after") or []
    many = [given] if isinstance(given, (str, Mapping)) else given
    return [
        After(one) if isinstance(one, str) else After(one["id"], one.get("on", _ON[0]), one.get("on_dead", _ON_DEAD[0]))
        for one in many
    ]


# ---- Chains and groups -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workflow:
    """Jobs that wait for each other, made by :func:`chain` and :func:`group`. ``app.defer_many`` submits them.

    It is data: iterating it gives the jobs as the server takes them, those that are waited for first.
    """

    jobs: tuple[JSON, ...]
    #: The ids of those that wait for what comes before it in a chain.
    first: tuple[str, ...]
    #: The ids of those that what comes next in a chain waits for.
    last: tuple[str, ...]

    def __iter__(self) -> Iterator[JSON]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


#: A job of ``task.job(…)``, or a chain or group of them.
Step = Union[Mapping[str, Any], Workflow]


def chain(*steps: Step, on: str = "success", on_dead: str = "wait") -> Workflow:
    """Each step waits for the one before it.

    ::

        app.defer_many(chain(fetch.job(url), group(resize.job(100), resize.job(200)), publish.job()))

    A step after a group waits for all jobs of the group: that is the callback of a group, Celery's ``chord``.

    :param steps: jobs of ``task.job(…)`` or ``task.configure(…).job(…)``, groups and chains.
    :param on: with which end of a step the next one runs, as in :class:`After`; steps inside a step have their own.
    :param on_dead: what the next step does while a job of a step is dead, as in :class:`After`.
    """
    _check_rule(on, on_dead)
    jobs: list[JSON] = []
    first: Optional[tuple[str, ...]] = None
    last: tuple[str, ...] = ()
    for step in map(_workflow, steps):
        if not step.jobs:
            continue
        waits = [After(id_, on, on_dead) for id_ in last]
        begins = set(step.first)
        jobs += [_after_also(job, waits) if job["id"] in begins else job for job in step]
        first = step.first if first is None else first
        last = step.last
    return _distinct(Workflow(tuple(jobs), first or (), last))


def group(*steps: Step) -> Workflow:
    """Steps that do not wait for each other. What comes after the group in a :func:`chain` waits for all of them."""
    parts = [_workflow(step) for step in steps]
    return _distinct(
        Workflow(
            tuple(job for part in parts for job in part),
            tuple(id_ for part in parts for id_ in part.first),
            tuple(id_ for part in parts for id_ in part.last),
        )
    )


def _workflow(step: Step) -> Workflow:
    if isinstance(step, Workflow):
        return step
    if not isinstance(step, Mapping) or not step.get("id") or not step.get("task"):
        raise InvalidArgumentError(
            f"{step!r} is not a step of a workflow",
            hint="task.job(…) makes one of a call; to wait for a job that was deferred, say task.configure(after=…)",
        )
    return Workflow((dict(step),), (step["id"],), (step["id"],))


def _after_also(job: JSON, waits: list[After]) -> JSON:
    """The job with more edges. An edge of its own to the same parent stays as it is."""
    own = edges_of(job)
    named = {edge.id for edge in own}
    after = _as_json(own + [edge for edge in waits if edge.id not in named])
    return {**job, "after": after} if after else job


def _distinct(workflow: Workflow) -> Workflow:
    seen: set[str] = set()
    for job in workflow:
        if job["id"] in seen:
            raise InvalidArgumentError(
                f"job {job['id']} is in the workflow twice", hint="each call of task.job(…) makes a job of its own"
            )
        seen.add(job["id"])
    return workflow
