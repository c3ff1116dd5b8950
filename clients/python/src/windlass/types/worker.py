"""What workers and the server tell each other."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict


class _NewWorker(TypedDict):
    kinds: List[str]


class NewWorker(_NewWorker, total=False):
    """A worker that registers."""

    dead_after_seconds: Optional[float]
    hostname: Optional[str]
    namespace: Optional[str]
    pool_size: Optional[int]
    queues: Optional[List[str]]
    starts_workflows: Optional[bool]
    version: Optional[str]
    worker_id: Optional[str]


class RegisteredWorker(TypedDict):
    """A worker that is registered."""

    dead_after_seconds: float
    heartbeat_seconds: float
    worker_id: str
    worker_secret: str


OutcomeWord = Literal["completed", "failed", "snoozed", "released", "cancelled"]


class _Outcome(TypedDict):
    id: str
    lease: int
    outcome: OutcomeWord


class Outcome(_Outcome, total=False):
    """What became of a claim."""

    delay_seconds: Optional[float]
    error: Optional[str]
    result: Any
    retryable: Optional[bool]
    started_at: Optional[str]


class ClaimedTask(TypedDict):
    """A task for a worker."""

    attempt: int
    checkpoint: Any
    deadline: Optional[str]
    entity: Optional[str]
    id: str
    kind: str
    lease: int
    max_attempts: Optional[int]
    payload: Any
    queue: str
    results: Dict[str, Any]
    step: Optional[str]
    tags: List[str]
    timeout_seconds: Optional[float]
    traceparent: Optional[str]
    workflow_id: Optional[str]


class _Problem(TypedDict):
    code: str
    detail: str
    status: int
    title: str


class Problem(_Problem, total=False):
    """A refusal, as `application/problem+json`."""

    index: Optional[int]
    problems: List[Mistake]


class Mistake(TypedDict):
    """A mistake in a definition."""

    advice: str
    column: Optional[int]
    line: Optional[int]
    path: str
    problem: str


class _ReportedOutcome(TypedDict):
    id: str


class ReportedOutcome(_ReportedOutcome, total=False):
    """What became of one report."""

    changed: Optional[bool]
    error: Optional[Problem]
    state: Optional[str]


class ReportedOutcomes(TypedDict):
    """What became of reports."""

    outcomes: List[ReportedOutcome]


class ClaimResponse(TypedDict):
    """The answer to a request for work."""

    outcomes: List[ReportedOutcome]
    tasks: List[ClaimedTask]


class Lease(TypedDict):
    """A claim."""

    id: str
    lease: int


class Pulse(TypedDict):
    """What a worker must let go."""

    cancel: List[str]
    lost: List[str]


class _NewProgress(TypedDict):
    done: int


class NewProgress(_NewProgress, total=False):
    """How much is done, out of how much, and what is being done."""

    note: Optional[str]
    total: Optional[int]


class _NewLine(TypedDict):
    text: str


class NewLine(_NewLine, total=False):
    """A line of a log."""

    at: Optional[str]


class _Report(TypedDict):
    id: str
    lease: int


class Report(_Report, total=False):
    """How far an attempt is."""

    checkpoint: Any
    first_line: int
    lines: List[NewLine]
    progress: Optional[NewProgress]


class DeregisteredWorker(TypedDict):
    """A worker that leaves."""

    worker_id: str


class Worker(TypedDict):
    """One worker."""

    alive: bool
    dead_after_seconds: float
    heartbeat_at: str
    hostname: str
    kinds: List[str]
    leader: bool
    namespace: str
    pool_size: int
    queues: List[str]
    started_at: str
    version: str
    worker_id: str


class WorkerList(TypedDict):
    """Registered workers."""

    workers: List[Worker]
