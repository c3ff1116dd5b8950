"""The protocol of workers, call by call. `windlass.Worker` speaks it; use these to write another.

A worker proves with its secret that it is itself. A client keeps the secrets of the workers that it has registered and sends
them; `worker_secret` is for programs that keep one themselves.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from .. import ids
from ..call import Call, given, path, send
from ..types import (
    ClaimResponse,
    DeregisteredWorker,
    Lease,
    Outcome,
    Pulse,
    RegisteredWorker,
    Report,
    ReportedOutcome,
)


def register(
    kinds: Sequence[str],
    *,
    queues: Optional[Sequence[str]] = None,
    namespace: Optional[str] = None,
    pool_size: Optional[int] = None,
    version: Optional[str] = None,
    hostname: Optional[str] = None,
    dead_after_seconds: Optional[float] = None,
    starts_workflows: Optional[bool] = None,
    worker_id: Optional[str] = None,
    worker_secret: Optional[str] = None,
) -> Call[RegisteredWorker]:
    """Register a worker. Its leases live as long as it sends heartbeats; its id and its secret are made here unless
    they are given. An id that exists is refused without its secret.
    """
    worker = worker_id or ids.worker_id()
    body = given(
        kinds=list(kinds),
        queues=None if queues is None else list(queues),
        namespace=namespace,
        pool_size=pool_size,
        version=version,
        hostname=hostname,
        dead_after_seconds=dead_after_seconds,
        starts_workflows=starts_workflows,
        worker_id=worker,
    )
    return send("POST", path("workers"), body, worker=worker, secret=worker_secret, registers=True)


def claim(
    worker: str,
    *,
    limit: int = 1,
    wait_seconds: float = 0.0,
    outcomes: Sequence[Outcome] = (),
    worker_secret: Optional[str] = None,
) -> Call[ClaimResponse]:
    """Claim tasks, waiting up to `wait_seconds` for them, at most 60; outcomes of earlier claims are carried out first.

    It is never repeated: if its answer is lost, `heartbeat` with `release_others` gives back what it may have claimed.
    """
    body = {"limit": limit, "wait_seconds": wait_seconds, "outcomes": list(outcomes)}
    where = path("workers", worker, "claim")
    return send("POST", where, body, repeatable=False, wait=wait_seconds, worker=worker, secret=worker_secret)


def heartbeat(
    worker: str,
    *,
    running: Sequence[Lease] = (),
    wait_seconds: float = 0.0,
    release_others: bool = False,
    worker_secret: Optional[str] = None,
) -> Call[Pulse]:
    """Keep all leases of a worker alive, and learn what it must let go, waiting up to `wait_seconds` for such news.

    With `release_others` everything else that was claimed for it is given back: say so only while no claim is on its
    way.
    """
    body = {"running": list(running), "wait_seconds": wait_seconds, "release_others": release_others}
    where = path("workers", worker, "heartbeat")
    return send("POST", where, body, wait=wait_seconds, worker=worker, secret=worker_secret)


def finish(
    worker: str, outcomes: Sequence[Outcome], *, worker_secret: Optional[str] = None
) -> Call[List[ReportedOutcome]]:
    """Report what became of claims, up to 1,000. The same report again is accepted again; one that is refused does
    not hinder the others.
    """
    body = {"outcomes": list(outcomes)}
    where = path("workers", worker, "finish")
    return send("POST", where, body, read=_outcomes, worker=worker, secret=worker_secret)


def report(
    worker: str, reports: Sequence[Report], *, worker_secret: Optional[str] = None
) -> Call[List[ReportedOutcome]]:
    """Tell how far attempts are: progress, lines of log, and where a next attempt would go on."""
    body = {"reports": list(reports)}
    where = path("workers", worker, "report")
    return send("POST", where, body, read=_outcomes, worker=worker, secret=worker_secret)


def deregister(worker: str, *, worker_secret: Optional[str] = None) -> Call[DeregisteredWorker]:
    """Deregister a worker: what it still holds goes to others at once."""
    return Call("DELETE", path("workers", worker), worker=worker, secret=worker_secret)


def _outcomes(told: Any) -> List[ReportedOutcome]:
    outcomes: List[ReportedOutcome] = told["outcomes"]
    return outcomes
