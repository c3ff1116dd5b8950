"""The Python client of Windlass, a durable task queue and workflow engine.

`Client` and `AsyncClient` submit tasks, start workflows, and look at them; `Worker` runs handlers. All of them are
thin: everything about tasks is decided by the server. They need nothing but Python's standard library.
"""

from __future__ import annotations

from ._version import __version__
from .async_client import AsyncClient
from .client import Client
from .errors import (
    Conflict,
    Disconnected,
    InvalidInput,
    NotFound,
    Unauthorised,
    Unavailable,
    WaitTimeout,
    WindlassError,
)
from .outcomes import Cancel, Cancelled, Fail, Retry, Snooze
from .sse import Event
from .stream import EventStream
from .types import NewTask
from .worker import Context, Worker

__all__ = [
    "AsyncClient",
    "Cancel",
    "Cancelled",
    "Client",
    "Conflict",
    "Context",
    "Disconnected",
    "Event",
    "EventStream",
    "Fail",
    "InvalidInput",
    "NewTask",
    "NotFound",
    "Retry",
    "Snooze",
    "Unauthorised",
    "Unavailable",
    "WaitTimeout",
    "WindlassError",
    "Worker",
    "__version__",
]
