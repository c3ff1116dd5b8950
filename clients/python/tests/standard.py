"""The handlers that the conformance script speaks of."""

from __future__ import annotations

from typing import Any, Callable, Dict

import kit  # noqa: F401
from windlass import Context, Fail, Snooze

Handler = Callable[[Any, Context], Any]


def echo(payload: Any, context: Context) -> Any:
    return payload


def fail_once(payload: Any, context: Context) -> int:
    if context.attempt == 1:
        raise RuntimeError("the first attempt")
    return context.attempt


def fail(payload: Any, context: Context) -> None:
    raise Fail("never")


def until_cancelled(payload: Any, context: Context) -> None:
    context.cancelled.wait()


async def add(payload: Any, context: Context) -> Any:
    return payload["n"] + sum(_numbers(result) for result in context.results.values())


def _numbers(value: Any) -> float:
    if isinstance(value, list):
        return sum(_numbers(one) for one in value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else 0


async def snooze_once(payload: Any, context: Context) -> int:
    if context.lease == 1:
        raise Snooze(0.05)
    return context.lease


def checkpoint(payload: Any, context: Context) -> Any:
    if context.attempt == 1:
        context.save_checkpoint({"at": 7})
        raise RuntimeError("after the checkpoint")
    return context.checkpoint


STANDARD: Dict[str, Callable[..., Any]] = {
    "echo": echo,
    "fail_once": fail_once,
    "fail": fail,
    "until_cancelled": until_cancelled,
    "sum": add,
    "snooze_once": snooze_once,
    "checkpoint": checkpoint,
}
