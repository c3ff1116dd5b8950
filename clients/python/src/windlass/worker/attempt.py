"""One claim, from its answer until the server knows what became of it."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone
from typing import Any, Callable, List, Optional, Tuple, cast

from ..types import Ancestor, ClaimedTask, Lease, Outcome
from .context import Context
from .notes import Notes
from .timers import Timer
from .verdict import Verdict, failed, interrupted

#: A task and the number of its lease.
Key = Tuple[str, int]


class Attempt:
    """A claim that is being worked on. What is decided about it is decided once."""

    def __init__(
        self,
        task: ClaimedTask,
        worker_id: str,
        written: Callable[[Attempt], None],
        ancestors: Callable[[str, str], List[Ancestor]],
    ) -> None:
        self.key: Key = (task["id"], task["lease"])
        self.kind = task["kind"]
        self.timeout = task.get("timeout_seconds")
        self.notes = Notes(task["id"], task["lease"], lambda: written(self))
        self.context = Context(task, worker_id, self.notes, ancestors)
        self.begun = time.monotonic()
        self.started_at = datetime.now(timezone.utc).isoformat()
        self.timers: Tuple[Timer, ...] = ()
        #: What is reported; set once.
        self.verdict: Optional[Verdict] = None
        #: The server has taken it away: nothing is reported.
        self.is_revoked = False
        self.is_timed_out = False
        self.is_stopping = False
        #: What was to be reported could not be kept by the server.
        self.is_spoiled = False
        self._lock = threading.Lock()

    @property
    def lease(self) -> Lease:
        return {"id": self.key[0], "lease": self.key[1]}

    @property
    def timed_out(self) -> Verdict:
        return failed(f"timed out after {self.timeout:g} s")

    def judge(self, verdict: Verdict) -> Verdict:
        """What is reported if the handler has ended so."""
        if self.is_timed_out:
            return self.timed_out
        if self.is_stopping:
            return interrupted(verdict, "the worker stops")
        return verdict

    def decide(self, verdict: Verdict) -> bool:
        """Decides what is reported; `False` if that was decided before, or there is nothing to report."""
        with self._lock:
            if self.verdict is not None or self.is_revoked:
                return False
            self.verdict = verdict
            return True

    def revoke(self, why: str) -> bool:
        """The server has taken it away; `False` if the handler has ended before."""
        with self._lock:
            if self.verdict is not None or self.is_revoked:
                return False
            self.is_revoked = True
        self.context.cancel(why)
        return True

    def time_out(self) -> None:
        self.is_timed_out = True
        self.context.cancel(f"timed out after {self.timeout:g} s")

    def stop(self) -> None:
        self.is_stopping = True
        self.context.cancel("the worker stops")

    def outcome(self) -> Outcome:
        """The report."""
        told: Any = {**self.lease, **(self.verdict or {}), "started_at": self.started_at}
        return cast(Outcome, told)
