"""The reporter: tells what handlers have to tell while they run, and how they ended.

An attempt's notes are told before its end, as nothing can be told about it afterwards. What the server cannot accept,
such as a result that is too large, hinders nothing else: the task fails for good, with the server's reason.
"""

from __future__ import annotations

import logging
from typing import Callable, List, Tuple, TypeVar

from ..calls import workers
from ..errors import InvalidInput, WindlassError
from ..patience import pause
from ..types import Report
from .attempt import Attempt
from .ledger import BATCH, Ledger
from .session import Session, tell_failure
from .verdict import failed

log = logging.getLogger("windlass")

X = TypeVar("X")


class Reporter:
    """Reports until the worker is closed."""

    def __init__(self, session: Session, ledger: Ledger) -> None:
        self._session = session
        self._ledger = ledger

    def run(self) -> None:
        tried = 0
        while not self._ledger.closed.is_set():
            noted, ended = self._ledger.take_report()
            try:
                self._tell_notes(noted)
                in_parts(ended, self._tell_ends, self._spoil)
                tried = 0
            except WindlassError as error:
                self._ledger.give_back(ended, noted)
                tried += 1
                tell_failure("reporting", tried, error)
                self._ledger.closed.wait(pause(tried, error))

    def _tell_notes(self, noted: List[Attempt]) -> None:
        notes = [(attempt, report) for attempt in noted for report in [attempt.notes.take()] if report is not None]
        in_parts(notes, self._tell_some, self._drop)

    def _tell_some(self, notes: List[Tuple[Attempt, Report]]) -> None:
        answers = self._session.ask(workers.report(self._session.id, [report for _, report in notes]))
        for (attempt, report), answer in zip(notes, answers):
            attempt.notes.told(report)
            error = answer.get("error")
            if error is not None:
                log.warning("task %s (%s): its notes were refused: %s", attempt.key[0], attempt.kind, error["detail"])

    def _drop(self, note: Tuple[Attempt, Report], error: InvalidInput) -> bool:
        attempt, report = note
        log.error("task %s (%s): its notes cannot be kept: %s", attempt.key[0], attempt.kind, error.detail)
        attempt.notes.told(report)
        return False

    def _tell_ends(self, ended: List[Attempt]) -> None:
        outcomes = [attempt.outcome() for attempt in ended]
        answers = self._session.ask(workers.finish(self._session.id, outcomes))
        self._ledger.answered(ended, answers)

    def _spoil(self, attempt: Attempt, error: InvalidInput) -> bool:
        log.error("task %s (%s): its report cannot be kept: %s", attempt.key[0], attempt.kind, error.detail)
        if attempt.is_spoiled:
            self._ledger.forget([attempt])
            return False
        attempt.is_spoiled = True
        attempt.verdict = failed(f"the outcome could not be kept: {error.detail}", retryable=False)
        return True


def in_parts(items: List[X], send: Callable[[List[X]], None], spoil: Callable[[X, InvalidInput], bool]) -> None:
    """Sends all, in parts that the server takes. What it does not take even alone is spoiled; if that says so, it is
    sent once more.
    """
    parts = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
    while parts:
        part = parts.pop(0)
        try:
            send(part)
        except InvalidInput as error:
            if len(part) == 1 or (error.index is not None and error.index < len(part)):
                bad = part[error.index or 0] if len(part) > 1 else part[0]
                kept = [item for item in part if item is not bad or spoil(item, error)]
                parts[:0] = [kept] if kept else []
            else:
                middle = len(part) // 2
                parts[:0] = [part[:middle], part[middle:]]
