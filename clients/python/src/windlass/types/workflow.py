"""Workflows and their definitions."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class AppliedDefinition(TypedDict):
    """The answer to a definition."""

    created: bool
    name: str
    version: str


class DefinitionLine(TypedDict):
    """A definition in a list."""

    created_at: str
    name: str
    steps: int
    version: str


class DefinitionList(TypedDict):
    """Definitions."""

    definitions: List[DefinitionLine]


class StoredDefinition(TypedDict):
    """A definition with all it says."""

    created_at: str
    definition: Any
    name: str
    namespace: str
    version: str


class StartedWorkflow(TypedDict):
    """The answer to the start of a workflow."""

    created: bool
    id: str
    state: str


class StepCounts(TypedDict):
    """How many of a workflow's tasks are where."""

    active: int
    cancelled: int
    done: int
    failed: int
    nested: int
    skipped: int
    timed: int
    total: int
    waiting: int


class Workflow(TypedDict):
    """A workflow without input, steps and history."""

    counts: StepCounts
    created_at: str
    definition: str
    finished_at: Optional[str]
    id: str
    idempotency_key: Optional[str]
    namespace: str
    origin_id: Optional[str]
    parent_task_id: Optional[str]
    parent_workflow_id: Optional[str]
    paused: bool
    priority: int
    state: str
    updated_at: str
    version: Optional[str]


class WorkflowList(TypedDict):
    """A page of workflows."""

    next_cursor: Optional[str]
    workflows: List[Workflow]


class Items(TypedDict):
    """How far the items of a step are."""

    of: int
    settled: int


class UnmetStep(TypedDict):
    """A step that another waits for."""

    state: str
    step: str


class Step(TypedDict):
    """A step, or an item of one."""

    attempt: int
    blocking_reason: Optional[str]
    due_at: Optional[str]
    error: Optional[str]
    finished_at: Optional[str]
    id: str
    items: Optional[Items]
    kind: str
    level: int
    max_attempts: Optional[int]
    name: str
    queue: str
    started_at: Optional[str]
    state: str
    waiting_for: List[UnmetStep]
    waiting_for_total: int


# Written so because `from` is a word of Python.
WorkflowHistoryEntry = TypedDict(
    "WorkflowHistoryEntry",
    {
        "actor": Optional[str],
        "at": str,
        "from": Optional[str],
        "note": Optional[str],
        "seq": int,
        "to": str,
    },
)


class WorkflowRecord(Workflow):
    """A workflow with its steps and everything else that belongs to it."""

    completion_percentage: float
    execution_status: str
    health_status: str
    history: List[WorkflowHistoryEntry]
    input: Any
    output: Optional[Dict[str, Any]]
    ready_steps: int
    recommended_action: str
    steps: List[Step]
    steps_left_out: int
    total_steps: int


class Ancestor(TypedDict):
    """A step that comes before another."""

    distance: int
    id: str
    result: Any
    state: str
    step: str


class Ancestors(TypedDict):
    """Steps that come before another."""

    ancestors: List[Ancestor]


class ReadyWorkflow(TypedDict):
    """A workflow that has steps which can be claimed."""

    computed_priority: float
    ready_steps: int
    workflow: Workflow


class ReadyWorkflows(TypedDict):
    """Workflows that have steps which can be claimed."""

    workflows: List[ReadyWorkflow]
