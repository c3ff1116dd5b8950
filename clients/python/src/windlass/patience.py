"""When a call is tried again, and after which pause. Pure: it neither sleeps nor sends.

This is about calls, never about tasks: when a task is tried again is the server's business.
"""

from __future__ import annotations

import random
from typing import Callable, Optional

from .errors import Disconnected, Unavailable, WindlassError

#: The first pause, and the longest, in seconds.
FIRST, LONGEST = 0.1, 5.0

#: The longest that a server is left alone because it asks for it.
LONGEST_ASKED = 60.0

#: Refusals of calls that the server has not begun to work on.
_UNTOUCHED = ("overloaded", "rate_limited", "stopping")


def pause(tried: int, error: Optional[WindlassError] = None, roll: Callable[[], float] = random.random) -> float:
    """How long to wait after so many tries: doubling, bounded, between half and all of it at random, and no less than
    the server asks.
    """
    grown = min(FIRST * 2.0 ** min(tried - 1, 30), LONGEST)
    asked = error.retry_after if isinstance(error, Unavailable) and error.retry_after else 0.0
    return max(grown * (0.5 + 0.5 * roll()), min(asked, LONGEST_ASKED))


def may_repeat(error: WindlassError, repeatable: bool) -> bool:
    """Whether a call that ended so may be sent again."""
    if isinstance(error, Disconnected):
        return not error.hopeless and (repeatable or not error.sent)
    if isinstance(error, Unavailable):
        return repeatable or error.code in _UNTOUCHED
    return False


def is_unknown(error: WindlassError) -> bool:
    """Whether a call that ended so may have been carried out all the same."""
    if isinstance(error, Disconnected):
        return error.sent
    return isinstance(error, Unavailable) and error.code not in _UNTOUCHED
