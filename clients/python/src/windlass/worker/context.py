"""What a handler knows about its task, and can tell while it runs."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional

from ..outcomes import Cancelled
from ..types import Ancestor, ClaimedTask
from .notes import Notes


class Context:
    """The second argument of a handler. May be used from any thread."""

    def __init__(
        self, task: ClaimedTask, worker_id: str, notes: Notes, ancestors: Callable[[str, str], List[Ancestor]]
    ) -> None:
        self.id: str = task["id"]
        #: The proof of the claim; with the id a good idempotency key for one attempt, while the id alone is one for
        #: all.
        self.lease: int = task["lease"]
        self.kind: str = task["kind"]
        self.queue: str = task["queue"]
        self.payload: Any = task["payload"]
        #: Which attempt this is, from 1.
        self.attempt: int = task["attempt"]
        #: How many there are in all; `None` for no limit.
        self.max_attempts: Optional[int] = task.get("max_attempts")
        #: When the attempt must be over, in RFC 3339, by the server's clock.
        self.deadline: Optional[str] = task.get("deadline")
        self.entity: Optional[str] = task.get("entity")
        self.tags: List[str] = task.get("tags") or []
        self.workflow_id: Optional[str] = task.get("workflow_id")
        #: The name of the step, with the number of the item if it is one.
        self.step: Optional[str] = task.get("step")
        #: What the steps that this one needs have returned, by name; `None` for those that were skipped.
        self.results: Dict[str, Any] = task.get("results") or {}
        #: What an earlier attempt saved to go on from.
        self.checkpoint: Any = task.get("checkpoint")
        #: W3C trace context of who submitted it.
        self.traceparent: Optional[str] = task.get("traceparent")
        self.worker_id = worker_id
        #: Set when the handler is to stop: the task was cancelled or lost, its time is over, or the worker stops.
        self.cancelled = threading.Event()
        #: Why, once it is set.
        self.reason: Optional[str] = None
        self._notes = notes
        self._ancestors = ancestors
        timeout = task.get("timeout_seconds")
        self._ends_at = None if timeout is None else time.monotonic() + timeout
        self._on_cancel: List[Callable[[], None]] = []
        self._lock = threading.Lock()

    def time_left(self) -> Optional[float]:
        """Seconds until the attempt has timed out; `None` if it may take as long as it likes."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    def raise_if_cancelled(self) -> None:
        """Raises `Cancelled` if the handler is to stop."""
        if self.cancelled.is_set():
            raise Cancelled(self.reason or "cancelled")

    def ancestors(self) -> List[Ancestor]:
        """Asks the server for all steps that come before this one, nearest first, with what they have returned; none
        if the task is not a step. It takes a moment: an `async` handler awaits `asyncio.to_thread(context.ancestors)`.
        """
        return [] if self.workflow_id is None or self.step is None else self._ancestors(self.workflow_id, self.step)

    def progress(self, done: int, total: Optional[int] = None, note: Optional[str] = None) -> None:
        """Tells how much is done, out of how much, and what is being done."""
        self._notes.progress(done, total, note)

    def log(self, line: str) -> None:
        """Writes a line to the task's log, of which the server keeps the newest 1,000."""
        self._notes.log(line)

    def save_checkpoint(self, value: Any) -> None:
        """Saves where a next attempt may go on: it finds it as `checkpoint`. A `ValueError` if it is not JSON."""
        self._notes.checkpoint(value)

    def cancel(self, reason: str) -> None:
        """Tells the handler to stop. The first reason counts."""
        with self._lock:
            if self.cancelled.is_set():
                return
            self.reason = reason
            self.cancelled.set()
            told = list(self._on_cancel)
        for tell in told:
            tell()

    def on_cancel(self, tell: Callable[[], None]) -> None:
        """Calls `tell` when the handler is to stop, or now if it is already."""
        with self._lock:
            if not self.cancelled.is_set():
                self._on_cancel.append(tell)
                return
        tell()
