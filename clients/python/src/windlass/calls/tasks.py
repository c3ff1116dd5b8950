"""Tasks: submit them, look at them, and operate on them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, List, Optional, Sequence, Union, cast

from .. import ids
from ..call import DEFAULT, Call, Default, asking, get, given, path, send
from ..codec import moment
from ..types import (
    Explanation,
    NewLane,
    NewRetryPolicy,
    NewTask,
    OnConflict,
    Receipt,
    SubmittedTask,
    TaskList,
    TaskLog,
    TaskRecord,
)

#: States that a task leaves, if at all, only by an operator's hand.
FINAL = frozenset(["completed", "failed", "dead_letter", "cancelled", "skipped", "resolved_manually"])


def submit(
    kind: str,
    payload: Any = None,
    *,
    id: Optional[str] = None,
    namespace: Optional[str] = None,
    queue: Optional[str] = None,
    priority: Optional[int] = None,
    max_attempts: Union[int, Default, None] = DEFAULT,
    retry: Optional[NewRetryPolicy] = None,
    idempotency_key: Optional[str] = None,
    on_conflict: Optional[OnConflict] = None,
    entity: Optional[str] = None,
    require_entity: Optional[bool] = None,
    lane: Optional[NewLane] = None,
    run_at: Union[str, datetime, None] = None,
    delay_seconds: Optional[float] = None,
    timeout_seconds: Optional[float] = None,
    tags: Optional[Sequence[str]] = None,
    traceparent: Optional[str] = None,
) -> Call[SubmittedTask]:
    """Submit a task. It is durable when the answer comes.

    Its id is made here, so that it can be sent again if the answer is lost, and is still submitted once.
    `max_attempts` counts all attempts; default: 3, `None` is no limit. While a task of the namespace and kind with the
    `idempotency_key` exists, the answer is that one and `created` is false; with `on_conflict="reject"` that is
    refused with `key_conflict`. One task of an `entity`, written `type:id`, is in progress at a time.
    A `traceparent` (W3C) is handed to the handler.
    """
    chosen = id or ids.task_id()
    body = given(
        id=chosen,
        kind=kind,
        namespace=namespace,
        queue=queue,
        priority=priority,
        retry=retry,
        idempotency_key=idempotency_key,
        on_conflict=on_conflict,
        entity=entity,
        require_entity=require_entity,
        lane=lane,
        run_at=moment(run_at),
        delay_seconds=delay_seconds,
        timeout_seconds=timeout_seconds,
        tags=None if tags is None else list(tags),
        traceparent=traceparent,
    )
    if not isinstance(max_attempts, Default):
        body["max_attempts"] = max_attempts

    def read(told: Any) -> SubmittedTask:
        # An id that was made for this call can only have been created by it, be it by an earlier try.
        created = told["created"] or (id is None and told["id"] == chosen)
        return {"id": told["id"], "state": told["state"], "created": created}

    def found(record: Any) -> SubmittedTask:
        return {"id": record["id"], "state": record["state"], "created": True}

    check = get(path("tasks", chosen), read=found) if id is None else None
    return send("POST", path("tasks"), {**body, "payload": payload}, read=read, check=check)


def submit_many(tasks: Sequence[NewTask]) -> Call[List[SubmittedTask]]:
    """Submit up to 1,000 tasks: all of them or none. The answers come in their order."""
    chosen = [given(**{**task, "id": task.get("id") or ids.task_id(), "payload": None}) for task in tasks]
    for body, task in zip(chosen, tasks):
        body["payload"] = task.get("payload")
        if "run_at" in body:
            body["run_at"] = moment(body["run_at"])
    made_here = {body["id"] for body, task in zip(chosen, tasks) if not task.get("id")}

    def read(told: Any) -> List[SubmittedTask]:
        seen, answers = set(), cast(List[SubmittedTask], told["tasks"])
        for answer in answers:
            # The first answer with an id that was made for this call is the task that it created.
            if answer["id"] in made_here and answer["id"] not in seen:
                answer["created"] = True
            seen.add(answer["id"])
        return answers

    return send("POST", path("tasks", "batch"), {"tasks": chosen}, read=read)


def task(id: str) -> Call[TaskRecord]:
    """A task with everything that belongs to it: payload, result, attempts and history."""
    return get(path("tasks", id))


def task_by_key(kind: str, key: str, *, namespace: Optional[str] = None) -> Call[TaskRecord]:
    """The task that has an idempotency key."""
    return get(path("tasks", "by-key"), {"kind": kind, "key": key, "namespace": namespace})


def page(
    *,
    state: Union[str, Sequence[str], None] = None,
    kind: Optional[str] = None,
    queue: Optional[str] = None,
    namespace: Optional[str] = None,
    entity: Optional[str] = None,
    workflow: Optional[str] = None,
    tag: Optional[str] = None,
    worker: Optional[str] = None,
    updated_before: Union[str, datetime, None] = None,
    oldest_first: Optional[bool] = None,
    limit: Optional[int] = None,
    cursor: Optional[str] = None,
) -> Call[TaskList]:
    """A page of tasks."""
    query = {
        "state": words(state),
        "kind": kind,
        "queue": queue,
        "namespace": namespace,
        "entity": entity,
        "workflow": workflow,
        "tag": tag,
        "worker": worker,
        "updated_before": moment(updated_before),
        "oldest_first": oldest_first,
        "limit": limit,
        "cursor": cursor,
    }
    return get(path("tasks"), query)


def words(state: Union[str, Sequence[str], None]) -> Optional[str]:
    """One state or several, as the server reads them."""
    return state if state is None or isinstance(state, str) else ",".join(state)


def why(id: str) -> Call[Explanation]:
    """Why a task is not running, what stands in its way, and when that will change."""
    return get(path("tasks", id, "why"))


def log(id: str) -> Call[TaskLog]:
    """What the attempts of a task have logged."""
    return get(path("tasks", id, "log"))


def cancel(id: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Receipt]:
    """Stop a task, wherever it is; a handler that runs is told."""
    return send("POST", path("tasks", id, "cancel"), given(reason=reason, actor=actor))


def retry(
    id: str, *, force: Optional[bool] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[Receipt]:
    """Let a task run now: a failed, dead or cancelled one again, a waiting one without its delay. `force` starts over
    with all attempts.
    """
    body = given(force=force, reason=reason, actor=actor)
    return send("POST", path("tasks", id, "retry"), body, repeatable=False)


def resolve(id: str, *, result: Any = None, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Receipt]:
    """Settle a task by hand, with what it would have returned."""
    return send("POST", path("tasks", id, "resolve"), given(result=result, reason=reason, actor=actor))


def delete(id: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Receipt]:
    """Delete a task that is over, with its history and its key."""
    return Call("DELETE", asking(path("tasks", id), {"reason": reason, "actor": actor}), repeatable=False)
