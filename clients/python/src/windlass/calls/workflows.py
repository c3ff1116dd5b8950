"""Definitions and workflows: keep them, start them, look at them, and operate on them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

from .. import ids
from ..call import Answer, Call, asking, get, given, path, send
from ..codec import encode
from ..types import (
    Ancestor,
    AppliedDefinition,
    DefinitionLine,
    OnConflict,
    Receipt,
    ReadyWorkflow,
    StartedWorkflow,
    StoredDefinition,
    Workflow,
    WorkflowList,
    WorkflowRecord,
)
from .tasks import words

#: States in which nothing more happens to a workflow by itself.
AT_REST = frozenset(["complete", "error", "cancelled", "resolved_manually", "blocked_by_failures"])


def define(
    name: str,
    definition: Union[str, Dict[str, Any]],
    *,
    namespace: Optional[str] = None,
    reason: Optional[str] = None,
    actor: Optional[str] = None,
) -> Call[AppliedDefinition]:
    """Keep a definition: text in YAML or JSON, or a dictionary. The same content gives the same version."""
    where = asking(path("definitions", name), {"namespace": namespace, "reason": reason, "actor": actor})
    if isinstance(definition, str):
        return Call("PUT", where, definition.encode(), content_type="application/yaml")
    return Call("PUT", where, encode(definition))


def definitions(*, namespace: Optional[str] = None) -> Call[List[DefinitionLine]]:
    """The newest version of each definition."""
    return get(path("definitions"), {"namespace": namespace}, lambda told: told["definitions"])


def definition(name: str, *, version: Optional[str] = None, namespace: Optional[str] = None) -> Call[StoredDefinition]:
    """A definition with all it says; the newest version unless said."""
    return get(path("definitions", name), {"version": version, "namespace": namespace})


def definition_versions(name: str, *, namespace: Optional[str] = None) -> Call[List[DefinitionLine]]:
    """All versions of a definition, oldest first."""
    return get(path("definitions", name, "versions"), {"namespace": namespace}, lambda told: told["definitions"])


def start(
    definition: Optional[str] = None,
    input: Any = None,
    *,
    steps: Optional[Dict[str, Any]] = None,
    version: Optional[str] = None,
    id: Optional[str] = None,
    idempotency_key: Optional[str] = None,
    on_conflict: Optional[OnConflict] = None,
    priority: Optional[int] = None,
    namespace: Optional[str] = None,
    defaults: Optional[Dict[str, Any]] = None,
    on_failure: Optional[str] = None,
    traceparent: Optional[str] = None,
) -> Call[StartedWorkflow]:
    """Start a workflow: of a definition that the server keeps, or with `steps` of its own, written as in a definition.

    Its id is made here, so that it can be sent again if the answer is lost, and is still started once. `defaults` and
    `on_failure` go with `steps`, `version` with a definition.
    """
    chosen = id or ids.workflow_id()
    body = given(
        id=chosen,
        definition=definition,
        input=input,
        steps=steps,
        version=version,
        idempotency_key=idempotency_key,
        on_conflict=on_conflict,
        priority=priority,
        namespace=namespace,
        defaults=defaults,
        on_failure=on_failure,
        traceparent=traceparent,
    )

    def read(told: Any) -> StartedWorkflow:
        created = told["created"] or (id is None and told["id"] == chosen)
        return {"id": told["id"], "state": told["state"], "created": created}

    def found(record: Any) -> StartedWorkflow:
        return {"id": record["id"], "state": record["state"], "created": True}

    where = path("workflows", chosen)
    check = get(where, {"steps": 0, "items": 0}, found) if id is None else None
    return send("POST", path("workflows"), body, read=read, check=check)


def workflow(id: str, *, steps: Optional[int] = None, items: Optional[int] = None) -> Call[WorkflowRecord]:
    """A workflow with its steps, its output if it has ended well, and its history: 1,000 steps and 10 items of each
    at most, unless said.
    """
    return get(path("workflows", id), {"steps": steps, "items": items})


def page(
    *,
    state: Union[str, Sequence[str], None] = None,
    definition: Optional[str] = None,
    namespace: Optional[str] = None,
    parent: Optional[str] = None,
    oldest_first: Optional[bool] = None,
    limit: Optional[int] = None,
    cursor: Optional[str] = None,
) -> Call[WorkflowList]:
    """A page of workflows."""
    query = {
        "state": words(state),
        "definition": definition,
        "namespace": namespace,
        "parent": parent,
        "oldest_first": oldest_first,
        "limit": limit,
        "cursor": cursor,
    }
    return get(path("workflows"), query)


def ready_workflows(
    *, namespace: Optional[str] = None, definition: Optional[str] = None, limit: Optional[int] = None
) -> Call[List[ReadyWorkflow]]:
    """Workflows that have steps which can be claimed, highest computed priority first."""
    query = {"namespace": namespace, "definition": definition, "limit": limit}
    return get(path("workflows", "ready"), query, lambda told: told["workflows"])


def graph(id: str, *, format: str = "svg") -> Call[str]:
    """The picture of a workflow as it stands: `svg`, or `mermaid`."""
    if format not in ("svg", "mermaid"):
        raise ValueError(f"the format is {format!r}; expected 'svg' or 'mermaid'")
    name = "graph.svg" if format == "svg" else "graph.mmd"
    return Call("GET", path("workflows", id, name), read=_text)


def _text(answer: Answer) -> str:
    return answer.body.decode()


def _steer(id: str, verb: str, reason: Optional[str], actor: Optional[str]) -> Call[Workflow]:
    return send("POST", path("workflows", id, verb), given(reason=reason, actor=actor))


def cancel_workflow(id: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Workflow]:
    """Stop a workflow: what has not ended is cancelled, and what runs is told to stop."""
    return _steer(id, "cancel", reason, actor)


def pause_workflow(id: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Workflow]:
    """Let nothing more of a workflow start; what is running goes on."""
    return _steer(id, "pause", reason, actor)


def resume_workflow(id: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Workflow]:
    """Let a paused workflow go on."""
    return _steer(id, "resume", reason, actor)


def resolve_workflow(id: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Workflow]:
    """Settle a workflow by hand: what has not ended is cancelled."""
    return _steer(id, "resolve", reason, actor)


def give_up_workflow(id: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Workflow]:
    """Take the failures of a workflow that is blocked by them as final."""
    return _steer(id, "give-up", reason, actor)


def rerun_workflow(
    id: str, from_step: str, *, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[StartedWorkflow]:
    """Start a workflow that repeats another from a step on."""
    body = {"from": from_step, **given(reason=reason, actor=actor)}
    return send("POST", path("workflows", id, "rerun"), body, repeatable=False)


def ancestors(id: str, step: str) -> Call[List[Ancestor]]:
    """The steps that come before a step, nearest first, with what they have returned."""
    return get(path("workflows", id, "steps", step, "ancestors"), read=lambda told: told["ancestors"])


def retry_step(
    id: str, step: str, *, force: Optional[bool] = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[Receipt]:
    """Let a step run now: a failed or cancelled one again, a waiting one without its delay."""
    body = given(force=force, reason=reason, actor=actor)
    return send("POST", path("workflows", id, "steps", step, "retry"), body, repeatable=False)


def resolve_step(
    id: str, step: str, *, result: Any = None, reason: Optional[str] = None, actor: Optional[str] = None
) -> Call[Receipt]:
    """Settle a step by hand, with what it would have returned."""
    body = given(result=result, reason=reason, actor=actor)
    return send("POST", path("workflows", id, "steps", step, "resolve"), body)


def skip_step(id: str, step: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Receipt]:
    """Decide that a step is not needed; what needs it is skipped too."""
    return send("POST", path("workflows", id, "steps", step, "skip"), given(reason=reason, actor=actor))


def cancel_step(id: str, step: str, *, reason: Optional[str] = None, actor: Optional[str] = None) -> Call[Receipt]:
    """Stop a step."""
    return send("POST", path("workflows", id, "steps", step, "cancel"), given(reason=reason, actor=actor))
