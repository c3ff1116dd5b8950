"""What a running handler has told and the server has not heard yet: progress, lines of log, a checkpoint."""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, Optional, cast

from ..codec import encode
from ..types import NewLine, NewProgress, Report

#: Characters of a line; the server keeps 4,096 bytes.
LINE = 8_192

#: Lines that are kept while the server is away, the newest, and sent at once; it keeps no more of an attempt.
LINES = 1_000


class Notes:
    """The notes of one attempt. The handler writes, the reporter takes."""

    def __init__(self, id: str, lease: int, written: Callable[[], None]) -> None:
        self._id = id
        self._lease = lease
        self._written = written
        self._lock = threading.Lock()
        self._progress: Optional[NewProgress] = None
        self._checkpoint: Optional[List[Any]] = None
        self._lines: List[NewLine] = []
        #: The number of the first of these lines within the attempt.
        self._first = 0

    def progress(self, done: int, total: Optional[int], note: Optional[str]) -> None:
        told = {"done": done, "total": total, "note": note}
        with self._lock:
            self._progress = cast(NewProgress, {name: value for name, value in told.items() if value is not None})
        self._written()

    def log(self, text: str) -> None:
        at = datetime.now(timezone.utc).isoformat()
        with self._lock:
            self._lines.extend({"at": at, "text": line[:LINE]} for line in text.split("\n"))
            surplus = max(0, len(self._lines) - LINES)
            del self._lines[:surplus]
            self._first += surplus
        self._written()

    def checkpoint(self, value: Any) -> None:
        encode(value)
        with self._lock:
            self._checkpoint = [value]
        self._written()

    @property
    def is_empty(self) -> bool:
        with self._lock:
            return self._progress is None and self._checkpoint is None and not self._lines

    def take(self) -> Optional[Report]:
        """What there is to tell. It stays here until it is `told`."""
        with self._lock:
            report: Dict[str, Any] = {}
            if self._progress is not None:
                report["progress"] = self._progress
            if self._checkpoint is not None:
                report["checkpoint"] = self._checkpoint[0]
            if self._lines:
                report.update(first_line=self._first, lines=list(self._lines))
        return cast(Report, {"id": self._id, "lease": self._lease, **report}) if report else None

    def told(self, report: Report) -> None:
        """Forgets what the server has heard, and keeps what was written since."""
        with self._lock:
            if "progress" in report and self._progress is report["progress"]:
                self._progress = None
            if "checkpoint" in report and self._checkpoint and self._checkpoint[0] is report["checkpoint"]:
                self._checkpoint = None
            if "lines" in report:
                end = report["first_line"] + len(report["lines"])
                del self._lines[: max(0, end - self._first)]
                self._first = max(self._first, end)
