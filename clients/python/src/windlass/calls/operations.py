"""What operators look at and set: queues, schedules, entities, numbers, and the server itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, List, Optional, Union

from ..call import Call, asking, get, given, path, send
from ..codec import moment
from ..types import (
    Analytics,
    Entity,
    Execution,
    NewTask,
    PausedQueue,
    Queue,
    RemovedSchedule,
    Schedule,
    StaleWorkflow,
    Stats,
    SubmittedTask,
    Worker,
)


def _at(where: str, namespace: Optional[str], reason: Optional[str] = None, actor: Optional[str] = None) -> str:
    return asking(where, {"namespace": namespace, "reason": reason, "actor": actor})


def queues(*, namespace: Optional[str] = None) -> Call[List[Queue]]:
    """Queues that have tasks, are paused, or are taken by a live worker."""
    return get(path("queues"), {"namespace": namespace}, lambda told: told["queues"])


def pause_queue(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[PausedQueue]:
    """Let nothing more of a queue be claimed; what is running goes on."""
    return send("POST", path("queues", name, "pause"), given(namespace=namespace, reason=reason, actor=actor))


def resume_queue(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[PausedQueue]:
    """Let a paused queue go on."""
    return send("POST", path("queues", name, "resume"), given(namespace=namespace, reason=reason, actor=actor))


def schedules(*, namespace: Optional[str] = None) -> Call[List[Schedule]]:
    """Schedules, by namespace and name."""
    return get(path("schedules"), {"namespace": namespace}, lambda told: told["schedules"])


def schedule(name: str, *, namespace: Optional[str] = None) -> Call[Schedule]:
    """A schedule."""
    return get(path("schedules", name), {"namespace": namespace})


def set_schedule(
    name: str,
    cron: str,
    task: NewTask,
    *,
    zone: Optional[str] = None,
    missed: Optional[str] = None,
    overlap: Optional[str] = None,
    paused: Optional[bool] = None,
    reason: Optional[str] = None,
    actor: Optional[str] = None,
    namespace: Optional[str] = None,
) -> Call[Schedule]:
    """Make a schedule, or change the one of that name: when `cron` says, the task is submitted."""
    body = given(
        cron=cron, task=task, zone=zone, missed=missed, overlap=overlap, paused=paused, reason=reason, actor=actor
    )
    return send("PUT", _at(path("schedules", name), namespace), body)


def remove_schedule(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[RemovedSchedule]:
    """Remove a schedule; tasks that it submitted stay."""
    return Call("DELETE", _at(path("schedules", name), namespace, reason, actor), repeatable=False)


def run_schedule(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[SubmittedTask]:
    """Submit now what a schedule would submit."""
    where = _at(path("schedules", name, "run"), namespace)
    return send("POST", where, given(reason=reason, actor=actor), repeatable=False)


def pause_schedule(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[Schedule]:
    """Let a schedule submit nothing."""
    return send("POST", _at(path("schedules", name, "pause"), namespace), given(reason=reason, actor=actor))


def resume_schedule(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[Schedule]:
    """Let a schedule go on."""
    return send("POST", _at(path("schedules", name, "resume"), namespace), given(reason=reason, actor=actor))


def entity(name: str, *, namespace: Optional[str] = None) -> Call[Entity]:
    """Whether an entity, written `type:id`, is registered."""
    return get(path("entities", name), {"namespace": namespace})


def register_entity(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[Entity]:
    """Register an entity, for tasks that require one."""
    return Call("PUT", _at(path("entities", name), namespace, reason, actor))


def forget_entity(
    name: str, *, namespace: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[Entity]:
    """Forget an entity; its tasks stay."""
    return Call("DELETE", _at(path("entities", name), namespace, reason, actor))


def workers(*, namespace: Optional[str] = None) -> Call[List[Worker]]:
    """Registered workers: which are alive, which one leads, and what they take."""
    return get(path("workers"), {"namespace": namespace}, lambda told: told["workers"])


def stats(*, namespace: Optional[str] = None) -> Call[Stats]:
    """How many tasks and workflows are where."""
    return get(path("stats"), {"namespace": namespace})


def analytics(*, since: Union[str, datetime, None] = None, namespace: Optional[str] = None) -> Call[Analytics]:
    """How workflows are doing, and what has happened since a moment. Defaults: since a day ago, in all namespaces."""
    return get(path("analytics"), {"since": moment(since), "namespace": namespace})


def _slowest(what: str, query: Dict[str, Any]) -> Call[List[Execution]]:
    return get(path("analytics", f"slowest-{what}"), query, lambda told: told["slowest"])


def slowest_steps(
    *,
    since: Union[str, datetime, None] = None,
    limit: Optional[int] = None,
    namespace: Optional[str] = None,
    definition: Optional[str] = None,
    each: Optional[bool] = None,
) -> Call[List[Execution]]:
    """The steps that took longest, of those that ended lately; one by one with `each`."""
    query = {"since": moment(since), "limit": limit, "namespace": namespace, "definition": definition, "each": each}
    return _slowest("steps", query)


def slowest_workflows(
    *,
    since: Union[str, datetime, None] = None,
    limit: Optional[int] = None,
    namespace: Optional[str] = None,
    definition: Optional[str] = None,
    each: Optional[bool] = None,
) -> Call[List[Execution]]:
    """The workflows that took longest, of those that ended lately; one by one with `each`."""
    query = {"since": moment(since), "limit": limit, "namespace": namespace, "definition": definition, "each": each}
    return _slowest("workflows", query)


def stale_workflows(*, namespace: Optional[str] = None) -> Call[List[StaleWorkflow]]:
    """Workflows that rest for too long, or nearly."""
    return get(path("analytics", "stale"), {"namespace": namespace}, lambda told: told["stale"])


def health() -> Call[Dict[str, Any]]:
    """Whether the server's process answers."""
    return get("/health")


def ready() -> Call[Dict[str, Any]]:
    """Whether the server's store is reachable and can be written to; `Unavailable` if not."""
    return Call("GET", "/ready", repeatable=False)
