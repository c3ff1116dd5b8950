"""The worker: claims tasks, runs handlers, reports what became of them.

A worker is a few threads around one `Ledger` of what it holds:

    claimer   asks for as many tasks as there are free places, waiting if there are none; takes reports along
    reporter  tells what handlers have to tell, and how they ended, when the claimer waits
    pulse     says that the worker lives, and hears what it must let go; no handler can keep it from that
    timers    ends attempts that take too long
    crew      threads for plain handlers; one event loop for `async` ones

It decides nothing about tasks: whether and when one is tried again is the server's business.
"""

from __future__ import annotations

from .context import Context
from .worker import Worker

__all__ = ["Context", "Worker"]
