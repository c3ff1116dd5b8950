"""How often somebody who waits looks again. Pure, but for the clock.

Waiting is done by looking, and not by the stream of events: it works with every token, keeps no connection open, and
while nobody listens the store need not write down events at all. The pauses grow with the time waited, so that a long
wait costs next to nothing.
"""

from __future__ import annotations

import time
from typing import Callable, Optional

from .errors import WaitTimeout

#: The shortest and the longest pause, in seconds, and which share of the time waited it is in between.
SHORTEST, LONGEST, SHARE = 0.02, 2.0, 0.1


class Looks:
    """The looks of one wait."""

    def __init__(self, timeout: Optional[float], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._timeout = timeout

    def next(self, found: str) -> float:
        """How long until the next look, after one that found this; `WaitTimeout` if there is none."""
        waited = self._clock() - self._begun
        pause = min(max(SHORTEST, waited * SHARE), LONGEST)
        if self._timeout is None:
            return pause
        left = self._timeout - waited
        if left <= 0:
            raise WaitTimeout(f"{found} after {self._timeout:g} s")
        return min(pause, left)
