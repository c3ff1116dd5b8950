"""Tasks: what is submitted, and what is told about it."""

from __future__ import annotations

from typing import Any, List, Literal, Optional, TypedDict


Backoff = Literal["none", "fixed", "linear", "exponential", "fibonacci"]


OnConflict = Literal["return", "reject"]


class _NewLane(TypedDict):
    key: str
    limit: int


class NewLane(_NewLane, total=False):
    """At most `limit` tasks with this key are in progress at a time."""

    strict: bool


class NewRetryPolicy(TypedDict, total=False):
    """When failed attempts are tried again."""

    backoff: Optional[Backoff]
    base_seconds: Optional[float]
    cap_seconds: Optional[float]
    factor: Optional[float]
    jitter: Optional[str]


class _NewTask(TypedDict):
    kind: str


class NewTask(_NewTask, total=False):
    """A request for a task. Fields that it does not know are refused: they would be mistakes."""

    delay_seconds: Optional[float]
    entity: Optional[str]
    id: Optional[str]
    idempotency_key: Optional[str]
    lane: Optional[NewLane]
    max_attempts: Optional[int]
    namespace: Optional[str]
    on_conflict: Optional[OnConflict]
    payload: Any
    priority: Optional[int]
    queue: Optional[str]
    require_entity: bool
    retry: Optional[NewRetryPolicy]
    run_at: Optional[str]
    tags: List[str]
    timeout_seconds: Optional[float]
    traceparent: Optional[str]


class SubmittedTask(TypedDict):
    """The answer to a submit."""

    created: bool
    id: str
    state: str


class SubmittedTasks(TypedDict):
    """The answers to tasks that were submitted together, in their order."""

    tasks: List[SubmittedTask]


class Lane(TypedDict):
    """A concurrency key with a limit."""

    key: str
    limit: int
    strict: bool


class _RetryPolicy(TypedDict):
    backoff: str
    base_seconds: float
    cap_seconds: float
    jitter: str


class RetryPolicy(_RetryPolicy, total=False):
    """A retry policy."""

    factor: Optional[float]


class Task(TypedDict):
    """A task without payload, result and history."""

    attempt: int
    claimed_at: Optional[str]
    created_at: str
    due_at: Optional[str]
    entity: Optional[str]
    error: Optional[str]
    finished_at: Optional[str]
    id: str
    idempotency_key: Optional[str]
    kind: str
    lane: Optional[Lane]
    lease: int
    max_attempts: Optional[int]
    namespace: str
    priority: int
    queue: str
    retry: RetryPolicy
    started_at: Optional[str]
    state: str
    tags: List[str]
    timeout_seconds: Optional[float]
    traceparent: Optional[str]
    updated_at: str
    worker_id: Optional[str]
    workflow_id: Optional[str]


class TaskList(TypedDict):
    """A page of tasks."""

    next_cursor: Optional[str]
    tasks: List[Task]


class Progress(TypedDict):
    """How far an attempt is."""

    done: int
    note: Optional[str]
    total: Optional[int]


class Attempt(TypedDict):
    """One attempt."""

    claimed_at: str
    ended: Optional[str]
    ended_at: Optional[str]
    lease: int
    log_lines: int
    note: Optional[str]
    number: int
    progress: Optional[Progress]
    started_at: Optional[str]
    worker_id: Optional[str]


# Written so because `from` is a word of Python.
HistoryEntry = TypedDict(
    "HistoryEntry",
    {
        "actor": Optional[str],
        "at": str,
        "from": Optional[str],
        "note": Optional[str],
        "reason": str,
        "seq": int,
        "to": str,
    },
)


class _TaskRecord(Task):
    attempts: List[Attempt]
    history: List[HistoryEntry]
    payload: Any
    result: Any


class TaskRecord(_TaskRecord, total=False):
    """A task with everything that belongs to it."""

    step: Optional[str]


class Receipt(TypedDict):
    """Where a task is after an operator's command."""

    changed: bool
    id: str
    state: str


class Blocker(TypedDict, total=False):
    """What stands in the way of a task: another task, a step, a workflow, a queue, a worker, a kind nobody takes."""

    kind: Optional[str]
    paused: Optional[bool]
    queue: Optional[str]
    state: Optional[str]
    step: Optional[str]
    task: Optional[str]
    worker_id: Optional[str]
    workflow: Optional[str]


class _Explanation(TypedDict):
    blockers: List[Blocker]
    detail: str
    next_change_at: Optional[str]
    reason: str


class Explanation(_Explanation, total=False):
    """Why a task is not running, for programs."""

    blockers_total: Optional[int]
    note: Optional[str]
    step: Optional[str]
    workflow_id: Optional[str]
    workflow_paused: Optional[bool]


class LogLine(TypedDict):
    """A line of a log."""

    at: str
    text: str


class AttemptLog(TypedDict):
    """The lines that were kept of one attempt's log."""

    dropped: int
    lease: int
    lines: List[LogLine]
    number: int


class TaskLog(TypedDict):
    """The logs of a task's attempts."""

    attempts: List[AttemptLog]
    id: str
