"""What a worker holds, who has room, and what is to be reported: all that its threads share, behind one lock."""

from __future__ import annotations

import logging
import threading
import time
from typing import AbstractSet, Dict, List, Sequence, Tuple

from ..types import Lease, Pulse, ReportedOutcome
from .attempt import Attempt, Key
from .verdict import Verdict

log = logging.getLogger("windlass")

#: How long a note may wait for others to be sent along with, in seconds.
GATHER = 0.2

#: Reports that one request takes.
BATCH = 500


class Ledger:
    """The attempts of a worker."""

    def __init__(self, pool: int) -> None:
        self.pool = pool
        self.changed = threading.Condition()
        #: No more claims.
        self.stopping = threading.Event()
        #: Nothing more at all.
        self.closed = threading.Event()
        #: There may be claims that nobody here knows of: they are to be given back before the next.
        self.is_unsettled = True
        #: The claimer is in the middle of a request.
        self.is_claiming = False
        self._busy = 0
        self._held: Dict[Key, Attempt] = {}
        self._outbox: List[Attempt] = []
        #: Ended attempts which only the reporter takes: they have notes to be told first, or were refused in a batch.
        self._careful: List[Attempt] = []
        self._written: Dict[Key, Attempt] = {}
        self._written_since = 0.0

    @property
    def free(self) -> int:
        """Places for more handlers."""
        return self.pool - self._busy

    @property
    def busy(self) -> int:
        """Handlers that run."""
        return self._busy

    def begin(self, attempt: Attempt) -> None:
        with self.changed:
            self._held[attempt.key] = attempt
            self._busy += 1

    def end(self, attempt: Attempt, verdict: Verdict) -> None:
        """A handler has ended: its place is free, and its end is to be reported."""
        for timer in attempt.timers:
            timer.cancel()
        with self.changed:
            self._busy -= 1
            self._decide(attempt, attempt.judge(verdict))
            self.changed.notify_all()

    def decide(self, attempt: Attempt, verdict: Verdict) -> None:
        """Reports an attempt whose handler has not ended."""
        with self.changed:
            self._decide(attempt, verdict)
            self.changed.notify_all()

    def _decide(self, attempt: Attempt, verdict: Verdict) -> None:
        if not attempt.decide(verdict):
            return
        is_alone = self._written.pop(attempt.key, None) is None and attempt.notes.is_empty
        (self._outbox if is_alone else self._careful).append(attempt)

    def undecided(self) -> List[Attempt]:
        """Attempts whose handlers have neither ended nor been given up."""
        with self.changed:
            return [attempt for attempt in self._held.values() if attempt.verdict is None]

    def leases(self) -> List[Lease]:
        """All that is held, and all that has ended and is not known to be reported."""
        with self.changed:
            return [attempt.lease for attempt in self._held.values()]

    def unnamed(self, named: AbstractSet[Key], age: float) -> Tuple[bool, bool]:
        """Whether something is held that is not among these: for longer than so many seconds, or for less."""
        since = time.monotonic() - age
        with self.changed:
            ages = [attempt.begun <= since for key, attempt in self._held.items() if key not in named]
        return any(ages), not all(ages)

    def let_go(self, told: Sequence[Lease], pulse: Pulse) -> bool:
        """Stops what the server has taken away, of what it was told; says whether there was any."""
        lease_of = {lease["id"]: lease["lease"] for lease in told}
        found = False
        for why, ids in (("the lease was lost", pulse["lost"]), ("cancelled", pulse["cancel"])):
            for id in ids:
                with self.changed:
                    attempt = self._held.get((id, lease_of.get(id, -1)))
                if attempt is None or not attempt.revoke(why):
                    continue
                found = True
                log.info("task %s (%s): %s; its handler is told to stop", id, attempt.kind, why)
                with self.changed:
                    self._held.pop(attempt.key, None)
                    self._written.pop(attempt.key, None)
                    self.changed.notify_all()
        return found

    def write(self, attempt: Attempt) -> None:
        """A handler has written a note."""
        with self.changed:
            if attempt.key not in self._held or attempt.verdict is not None:
                return
            if not self._written:
                self._written_since = time.monotonic()
                self.changed.notify_all()
            self._written[attempt.key] = attempt

    def take_along(self) -> Tuple[int, List[Attempt]]:
        """For the claimer: how many places are free, and what to report in the same request."""
        with self.changed:
            self.is_claiming = True
            along, self._outbox = self._outbox[:BATCH], self._outbox[BATCH:]
            self.changed.notify_all()
            return self.free, along

    def take_report(self) -> Tuple[List[Attempt], List[Attempt]]:
        """For the reporter, which waits here: attempts with notes, and attempts that have ended; nothing, if all is
        over.
        """
        with self.changed:
            while not self.closed.is_set():
                # If a place is free and the claimer is not in a request, it is about to take them along.
                is_left = self._outbox and (self.is_claiming or self.free <= 0 or self.stopping.is_set())
                wait = self._written_since + GATHER - time.monotonic() if self._written else None
                if self._careful or is_left or (wait is not None and wait <= 0):
                    ended = self._careful + (self._outbox if is_left else [])
                    self._careful, self._outbox = [], [] if is_left else self._outbox
                    noted, self._written = list(self._written.values()), {}
                    return noted + [one for one in ended if not one.notes.is_empty], ended
                self.changed.wait(wait)
            return [], []

    def give_back(self, ended: Sequence[Attempt], noted: Sequence[Attempt] = (), careful: bool = False) -> None:
        """What was taken could not be told."""
        with self.changed:
            ended = [attempt for attempt in ended if attempt.key in self._held]
            if careful:
                self._careful = [*ended, *self._careful]
            else:
                plain = [attempt for attempt in ended if attempt.notes.is_empty]
                self._outbox = [*plain, *self._outbox]
                self._careful = [*(attempt for attempt in ended if not attempt.notes.is_empty), *self._careful]
            for attempt in noted:
                if attempt.verdict is None and attempt.key in self._held:
                    self._written.setdefault(attempt.key, attempt)
            self._written_since = time.monotonic()
            self.changed.notify_all()

    def answered(self, ended: Sequence[Attempt], answers: Sequence[ReportedOutcome]) -> None:
        """Reports have been heard."""
        for attempt, answer in zip(ended, answers):
            error = answer.get("error")
            if error is not None:
                word = (attempt.verdict or {}).get("outcome")
                log.warning(
                    "task %s (%s): its report %s was refused: %s", attempt.key[0], attempt.kind, word, error["detail"]
                )
        self.forget(ended)

    def forget(self, ended: Sequence[Attempt]) -> None:
        with self.changed:
            for attempt in ended:
                self._held.pop(attempt.key, None)
            self.changed.notify_all()

    def wait_until_idle(self, seconds: float) -> bool:
        """Waits until no handler runs."""
        with self.changed:
            return self.changed.wait_for(lambda: self._busy == 0, seconds)

    def wait_until_told(self, seconds: float) -> bool:
        """Waits until everything is reported."""
        with self.changed:
            return self.changed.wait_for(lambda: not self._held, seconds)
