"""What can go wrong with a call, as exceptions.

The server refuses with a `code` that never changes its meaning, such as `task_not_found`; the class says what sort of
refusal it is. What a handler raises to end its task in a certain way is not here, but in `windlass.outcomes`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Type

from .types import Mistake


class WindlassError(Exception):
    """A call that did not succeed."""

    def __init__(self, code: str, detail: str, status: int = 0) -> None:
        super().__init__(f"{code}: {detail}")
        #: A word that never changes its meaning.
        self.code = code
        #: What was wrong, and what would be accepted.
        self.detail = detail
        #: The HTTP status; 0 if there was no answer.
        self.status = status
        #: Which one of a batch it is about, from 0.
        self.index: Optional[int] = None
        #: The mistakes of a definition, one by one.
        self.problems: List[Mistake] = []


class NotFound(WindlassError):
    """There is no such task, workflow, definition, schedule or worker."""


class Conflict(WindlassError):
    """What is asked for does not go with where things are: a key that exists, a task that is over, a lost lease."""


class InvalidInput(WindlassError):
    """What was sent cannot be meant; `detail` says what would be accepted."""


class Unauthorised(WindlassError):
    """No token, one that is not known, or one that may not do this."""


class Unavailable(WindlassError):
    """The server cannot serve the call now, and may be able to later."""

    #: How long the server asks to be left alone, in seconds.
    retry_after: Optional[float] = None


class Disconnected(WindlassError):
    """No connection, or it was lost, or no answer came in time."""

    def __init__(self, detail: str, sent: bool, hopeless: bool = False) -> None:
        super().__init__("disconnected", detail)
        #: Whether the call may have been carried out.
        self.sent = sent
        #: Whether trying again is of no use, as with a certificate that nobody vouches for.
        self.hopeless = hopeless


class WaitTimeout(WindlassError, TimeoutError):
    """What was waited for is not over yet. It goes on; only the wait has ended."""

    def __init__(self, detail: str) -> None:
        super().__init__("wait_timeout", detail)


def _class_of(status: int) -> Type[WindlassError]:
    if status == 404:
        return NotFound
    if status == 409:
        return Conflict
    if status in (401, 403):
        return Unauthorised
    if status in (408, 429) or status >= 500:
        return Unavailable
    return InvalidInput


def refusal(status: int, problem: Dict[str, Any], retry_after: Optional[float] = None) -> WindlassError:
    """The error for a refusal in the server's one shape."""
    code, detail = str(problem.get("code", "unexpected_answer")), str(problem.get("detail", ""))
    error = _class_of(status)(code, detail, status)
    error.index = problem.get("index")
    error.problems = problem.get("problems") or []
    if isinstance(error, Unavailable):
        error.retry_after = retry_after
    return error
