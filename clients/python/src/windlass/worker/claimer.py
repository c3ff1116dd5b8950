"""The claimer: asks for work while there is room for it.

It is the only one who claims, one request at a time. So it also is the one who, after a claim whose answer may have
been lost, has the server give back what nobody here has heard of: then no claim can be on its way.
"""

from __future__ import annotations

import logging
from typing import Callable

from ..calls import workers
from ..errors import InvalidInput, NotFound, WindlassError
from ..patience import pause
from ..types import ClaimedTask
from ..wire import Cut
from .ledger import Ledger
from .session import Session, tell_failure

log = logging.getLogger("windlass")

#: How long a claim waits for work, in seconds.
WAIT = 20.0

#: Tasks of one claim.
MOST = 1_000


class Claimer:
    """Claims until the worker stops."""

    def __init__(self, session: Session, ledger: Ledger, begin: Callable[[ClaimedTask], None]) -> None:
        self._session = session
        self._ledger = ledger
        self._begin = begin
        self._cut = Cut()

    def stop(self) -> None:
        """Ends the claim that waits, if one does."""
        self._cut.cut()

    def run(self) -> None:
        tried = 0
        while self._has_room():
            seen = self._session.times
            try:
                if self._ledger.is_unsettled:
                    self._settle()
                else:
                    self._claim()
                tried = 0
                continue
            except WindlassError as error:
                if self._ledger.stopping.is_set():
                    break
                tried += 1
                problem = error
            try:
                if isinstance(problem, NotFound):
                    self._session.register_again(seen)
                    self._ledger.is_unsettled = True
                    continue
            except WindlassError as error:
                problem = error
            tell_failure("claiming", tried, problem)
            self._ledger.stopping.wait(pause(tried, problem))
        self._leave()

    def _has_room(self) -> bool:
        """Waits until there is something to do; `False` when the worker stops."""
        ledger = self._ledger
        with ledger.changed:
            ledger.changed.wait_for(lambda: ledger.stopping.is_set() or ledger.is_unsettled or ledger.free > 0)
            return not ledger.stopping.is_set()

    def _claim(self) -> None:
        free, along = self._ledger.take_along()
        try:
            # What is reported along is answered at once; only a claim that has nothing to report waits.
            call = workers.claim(
                self._session.id,
                limit=min(free, MOST),
                wait_seconds=0.0 if along else WAIT,
                outcomes=[attempt.outcome() for attempt in along],
            )
            answer = self._session.ask(call, self._cut)
        except WindlassError as error:
            self._ledger.is_unsettled = True
            self._ledger.give_back(along, careful=isinstance(error, InvalidInput))
            if isinstance(error, InvalidInput) and along:
                # One of the reports is not acceptable: the reporter finds out which.
                return
            raise
        finally:
            with self._ledger.changed:
                self._ledger.is_claiming = False
                self._ledger.changed.notify_all()
        self._ledger.answered(along, answer["outcomes"])
        for task in answer["tasks"]:
            self._begin(task)

    def _settle(self) -> None:
        """Has the server give back everything that is not held here."""
        leases = self._ledger.leases()
        # Before it is asked: who finds another reason meanwhile is heard.
        self._ledger.is_unsettled = False
        try:
            pulse = self._session.ask(workers.heartbeat(self._session.id, running=leases, release_others=True))
        except WindlassError:
            self._ledger.is_unsettled = True
            raise
        self._ledger.let_go(leases, pulse)

    def _leave(self) -> None:
        if not self._ledger.is_unsettled:
            return
        try:
            self._settle()
        except WindlassError as error:
            log.warning("claims whose answer was lost may not have been given back; they will expire: %s", error)
