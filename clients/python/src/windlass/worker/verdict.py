"""What is reported about a handler that has ended. Pure."""

from __future__ import annotations

from typing import Any, Dict

from ..codec import encode
from ..outcomes import Cancel, Fail, Retry, Snooze
from .payload import WrongPayload

#: An outcome without the claim that it is about.
Verdict = Dict[str, Any]


def completed(result: Any) -> Verdict:
    """It has returned."""
    try:
        encode(result)
    except ValueError as error:
        return failed(f"the handler returned something that is not JSON: {error}", retryable=False)
    return {"outcome": "completed", "result": result}


def raised(error: BaseException) -> Verdict:
    """It has raised."""
    if isinstance(error, Fail):
        return failed(str(error) or "the handler failed", retryable=False)
    if isinstance(error, WrongPayload):
        return failed(str(error), retryable=False)
    if isinstance(error, Retry):
        verdict = failed(str(error) or "the handler asks to be run again")
        return verdict if error.delay is None else {**verdict, "delay_seconds": error.delay}
    if isinstance(error, Snooze):
        return {"outcome": "snoozed", "delay_seconds": error.delay}
    if isinstance(error, Cancel):
        return {"outcome": "cancelled", "error": str(error)}
    said = str(error)
    return failed(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def failed(error: str, retryable: bool = True) -> Verdict:
    return {"outcome": "failed", "error": error, "retryable": retryable}


def released(why: str) -> Verdict:
    """It is given back as if it had not been claimed."""
    return {"outcome": "released", "error": why}


def interrupted(verdict: Verdict, why: str) -> Verdict:
    """What is reported if the handler was told to stop because the worker does: an end that it was driven to costs
    nothing.
    """
    return released(why) if verdict["outcome"] == "failed" and verdict["retryable"] else verdict
