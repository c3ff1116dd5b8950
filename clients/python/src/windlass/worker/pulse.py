"""The pulse: says that the worker lives, on a thread that does nothing else, and hears what it must let go.

Each heartbeat waits at the server for news of the leases that it names, so a cancel is heard at once. A handler that
runs for a moment and is not yet named makes the heartbeat begin anew.
"""

from __future__ import annotations

import threading
import time
from typing import List, Set, Tuple

from ..calls import workers
from ..errors import NotFound, WindlassError
from ..patience import pause
from ..types import Lease
from ..wire import Cut
from .attempt import Key
from .ledger import Ledger
from .session import Session, tell_failure
from .timers import Timers

#: How long a handler runs until the server is told, in seconds. Most end before.
MOMENT = 0.25

#: The least time between two heartbeats, in seconds.
REST = 0.1


class Pulse:
    """Beats until the worker is closed."""

    def __init__(self, session: Session, ledger: Ledger, timers: Timers) -> None:
        self._session = session
        self._ledger = ledger
        self._timers = timers
        self._lock = threading.Lock()
        self._cut = Cut()
        self._named: Set[Key] = set()
        self._is_due = False

    def run(self) -> None:
        tried = 0
        while not self._ledger.closed.is_set():
            seen, begun = self._session.times, time.monotonic()
            leases, cut = self._name()
            try:
                self._beat(leases, cut, seen)
                tried = 0
                rest = REST - (time.monotonic() - begun)
            except WindlassError as error:
                if cut.is_cut:
                    rest = 0.0
                else:
                    tried += 1
                    tell_failure("the heartbeat", tried, error)
                    rest = min(pause(tried, error), self._session.heartbeat)
            if rest > 0:
                self._ledger.closed.wait(rest)

    def begun(self) -> None:
        """Handlers have begun: if they still run in a moment, they are to be named."""
        with self._lock:
            if self._is_due:
                return
            self._is_due = True
        self._timers.after(MOMENT, self._look)

    def stop(self) -> None:
        """Ends the heartbeat that waits."""
        with self._lock:
            self._cut.cut()

    def _beat(self, leases: List[Lease], cut: Cut, seen: int) -> None:
        wait = self._session.heartbeat
        call = workers.heartbeat(self._session.id, running=leases, wait_seconds=min(wait, 60.0))
        try:
            pulse = self._session.ask(call, cut)
        except NotFound:
            self._session.register_again(seen)
            with self._ledger.changed:
                self._ledger.is_unsettled = True
                self._ledger.changed.notify_all()
            return
        self._ledger.let_go(leases, pulse)

    def _name(self) -> Tuple[List[Lease], Cut]:
        with self._lock:
            leases = self._ledger.leases()
            self._named = {(lease["id"], lease["lease"]) for lease in leases}
            self._cut = Cut()
            if self._ledger.closed.is_set():
                self._cut.cut()
            return leases, self._cut

    def _look(self) -> None:
        with self._lock:
            self._is_due = False
            has_old, has_new = self._ledger.unnamed(self._named, MOMENT)
            if has_old:
                self._cut.cut()
        if has_new and not has_old:
            self.begun()
