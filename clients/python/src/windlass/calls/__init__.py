"""Every route of the contract as a function that makes a `Call`: the names, the parameters and the documentation of
both clients.

A parameter that is left out is left out of the request: the server has the defaults.
"""

from __future__ import annotations

from . import operations, tasks, workers, workflows

__all__ = ["operations", "tasks", "workers", "workflows"]
