"""What a handler raises to say how its task ends.

Returning ends it well, any other exception means: try again. When, and whether there are attempts left, is the
server's business.
"""

from __future__ import annotations

from typing import Optional


class Outcome(Exception):
    """A handler's decision about its task."""


class Fail(Outcome):
    """It failed for good: trying again would not help."""


class Retry(Outcome):
    """It failed, and may be tried again: after `delay` seconds, or when the task's retry policy says."""

    def __init__(self, message: str = "", delay: Optional[float] = None) -> None:
        super().__init__(message)
        self.delay = delay


class Snooze(Outcome):
    """It is not the time for it: run it again after `delay` seconds. This costs no attempt."""

    def __init__(self, delay: float) -> None:
        super().__init__(f"for {delay:g} s")
        self.delay = delay


class Cancel(Outcome):
    """It is not to be done at all."""


class Cancelled(Exception):
    """The task was cancelled, lost, timed out, or the worker stops: raised by `Context.raise_if_cancelled`."""
