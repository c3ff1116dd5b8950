"""What operators look at and set: queues, schedules, entities, numbers."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

from .task import Lane, NewTask, RetryPolicy


class Queue(TypedDict):
    """What is known about a queue."""

    live_workers: int
    namespace: str
    paused: bool
    queue: str
    tasks: Dict[str, int]


class QueueList(TypedDict):
    """Queues."""

    queues: List[Queue]


class PausedQueue(TypedDict):
    """A queue that was paused, or let go on."""

    namespace: str
    paused: bool
    queue: str


class _NewSchedule(TypedDict):
    cron: str
    task: NewTask


class NewSchedule(_NewSchedule, total=False):
    """A schedule to make, or to change."""

    actor: Optional[str]
    missed: Optional[str]
    overlap: Optional[str]
    paused: bool
    reason: Optional[str]
    zone: Optional[str]


class ScheduledTask(TypedDict):
    """What a schedule submits."""

    entity: Optional[str]
    kind: str
    lane: Optional[Lane]
    max_attempts: Optional[int]
    payload: Any
    priority: int
    queue: str
    require_entity: bool
    retry: RetryPolicy
    tags: List[str]
    timeout_seconds: Optional[float]


class Schedule(TypedDict):
    """A schedule."""

    cron: str
    error: Optional[str]
    fired: int
    last_at: Optional[str]
    last_task_id: Optional[str]
    last_task_state: Optional[str]
    left_out: Optional[str]
    missed: str
    name: str
    namespace: str
    next_at: Optional[str]
    overlap: str
    paused: bool
    skipped: int
    task: ScheduledTask
    updated_at: str
    zone: str


class ScheduleList(TypedDict):
    """Schedules."""

    schedules: List[Schedule]


class RemovedSchedule(TypedDict):
    """A schedule that was removed."""

    name: str
    namespace: str
    removed: bool


class _Entity(TypedDict):
    entity: str
    registered: bool


class Entity(_Entity, total=False):
    """Whether an entity is registered."""

    changed: Optional[bool]


class EntityList(TypedDict):
    """Registered entities, by name."""

    entities: List[str]
    next_after: Optional[str]


class TaskCount(TypedDict):
    """How many tasks of one sort are in one state."""

    is_step: bool
    kind: str
    namespace: str
    queue: str
    state: str
    tasks: int


class WorkflowCount(TypedDict):
    """How many workflows of one name are in one state."""

    name: str
    namespace: str
    state: str
    workflows: int


class Stats(TypedDict):
    """How many tasks and workflows are where."""

    counts: List[TaskCount]
    states: Dict[str, int]
    tasks: int
    workflows: List[WorkflowCount]


class Analytics(TypedDict):
    """How all workflows are doing, and what has happened lately."""

    active_workflows: int
    at: str
    average_step_seconds: float
    average_workflow_seconds: float
    completed: int
    completion_rate: float
    definitions: int
    error_rate: float
    failed: int
    health_score: float
    is_under_heavy_load: bool
    namespaces: int
    since: str
    started: int
    steps: Dict[str, int]
    steps_completed: int
    steps_failed: int
    total_steps: int
    total_workflows: int
    workflows: Dict[str, int]


class Execution(TypedDict):
    """How long something took: one run, or many together."""

    average_seconds: float
    average_steps: float
    error_rate: float
    errors: int
    executions: int
    last_at: str
    max_seconds: float
    min_seconds: float
    name: str
    namespace: str
    step: Optional[str]
    task: Optional[str]
    version: str
    workflow: Optional[str]


class Executions(TypedDict):
    """What took longest."""

    slowest: List[Execution]


class StaleWorkflow(TypedDict):
    """A workflow that rests for too long, or nearly."""

    allowed_seconds: float
    level: str
    name: str
    namespace: str
    rested_seconds: float
    state: str
    workflow: str


class StaleWorkflows(TypedDict):
    """Workflows that rest for too long, or nearly."""

    stale: List[StaleWorkflow]


class AuditEntry(TypedDict):
    """Something that an operator asked for."""

    action: str
    actor: str
    at: str
    namespace: Optional[str]
    reason: Optional[str]
    subject: str


class AuditList(TypedDict):
    """What operators asked for, newest first."""

    entries: List[AuditEntry]
    next_cursor: Optional[str]
