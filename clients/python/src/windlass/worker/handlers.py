"""Handlers by kind, and how each is called."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

from .context import Context
from .payload import decoder

#: What a user gives: takes the payload and the context, or the payload alone; plain or `async`.
Function = Callable[..., Any]


@dataclass(frozen=True)
class Handler:
    """How the tasks of one kind are handled."""

    kind: str
    function: Function
    is_async: bool
    #: How many arguments it takes: the payload, and the context.
    arguments: int
    decode: Optional[Callable[[Any], Any]]

    @classmethod
    def of(cls, kind: str, function: Function) -> Handler:
        """A handler as it was written; a `TypeError` says what cannot be called."""
        if not callable(function):
            raise TypeError(f"the handler of {kind!r} is {function!r}; expected a function")
        takes = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
        arguments = 2 if any(one.kind is one.VAR_POSITIONAL for one in takes) else len(takes)
        required = sum(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in takes)
        if arguments == 0 or required > 2:
            raise TypeError(
                f"the handler of {kind!r} takes {arguments} arguments; expected (payload, context) or (payload)"
            )
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)
        )
        return cls(kind, function, is_async, min(arguments, 2), decoder(_wanted(function, takes[0].name)))

    def payload(self, context: Context) -> Any:
        """The payload as the handler takes it."""
        return context.payload if self.decode is None else self.decode(context.payload)

    def call(self, context: Context) -> Any:
        """Calls the function; for an `async` one, what is then awaited."""
        given = (self.payload(context), context)[: self.arguments]
        return self.function(*given)


def _wanted(function: Function, parameter: str) -> Any:
    try:
        return typing.get_type_hints(function).get(parameter)
    except (NameError, TypeError, AttributeError):
        # Written for checkers alone: then nothing is checked here.
        return None


class Handlers:
    """All handlers of a worker."""

    def __init__(self) -> None:
        self._by_kind: Dict[str, Handler] = {}

    def add(self, kind: str, function: Function) -> None:
        if kind in self._by_kind:
            raise ValueError(f"there is a handler of {kind!r} already")
        self._by_kind[kind] = Handler.of(kind, function)

    def kinds(self) -> List[str]:
        return sorted(self._by_kind)

    def get(self, kind: str) -> Optional[Handler]:
        return self._by_kind.get(kind)
