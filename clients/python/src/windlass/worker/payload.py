"""Typed payloads: a handler that says which type it takes gets that, checked one level deep.

A dataclass is made from the payload's fields, a `TypedDict` is checked and given as it is; anything else is not
looked at.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from types import SimpleNamespace
from typing import Any, Callable, Dict, Optional, Union

_PLAIN = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


class WrongPayload(Exception):
    """A payload that is not what its handler takes."""


def decoder(wanted: Any) -> Optional[Callable[[Any], Any]]:
    """What makes a payload of this type; `None` if nothing is to be done."""
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return _of_dataclass(wanted)
    if isinstance(wanted, type) and issubclass(wanted, dict) and hasattr(wanted, "__total__"):
        return _of_typed_dict(wanted)
    return None


def _of_dataclass(wanted: Any) -> Callable[[Any], Any]:
    hints = _hints(wanted, {field.name: field.type for field in dataclasses.fields(wanted)})
    fields = {field.name: hints[field.name] for field in dataclasses.fields(wanted) if field.init}
    absent = dataclasses.MISSING
    required = {
        field.name
        for field in dataclasses.fields(wanted)
        if field.init and field.default is absent and field.default_factory is absent
    }

    def decode(payload: Any) -> Any:
        _check(payload, fields, required)
        return wanted(**payload)

    return decode


def _of_typed_dict(wanted: Any) -> Callable[[Any], Any]:
    hints, required = _hints(wanted, wanted.__annotations__), frozenset(wanted.__required_keys__)

    def decode(payload: Any) -> Any:
        _check(payload, hints, required)
        return payload

    return decode


def _hints(wanted: Any, written: Dict[str, Any]) -> Dict[str, Any]:
    """The types of fields. What this Python cannot make sense of, such as `int | None` in quotes before 3.10, or a name that only a
    type checker sees, is not looked at; the other fields are."""
    try:
        return typing.get_type_hints(wanted)
    except Exception:
        return {name: _hint(wanted, one) for name, one in written.items()}


def _hint(wanted: Any, written: Any) -> Any:
    names = vars(sys.modules[wanted.__module__]) if wanted.__module__ in sys.modules else {}
    try:
        return typing.get_type_hints(SimpleNamespace(__annotations__={"one": written}), names)["one"]
    except Exception:
        return Any


def _check(payload: Any, fields: Dict[str, Any], required: typing.AbstractSet[str]) -> None:
    if not isinstance(payload, dict):
        raise WrongPayload(f"the payload is {_shown(payload)}; expected an object with {_listed(fields)}")
    missing = [name for name in fields if name in required and name not in payload]
    if missing:
        raise WrongPayload(f"the payload lacks {_listed(missing)}")
    unknown = [name for name in payload if name not in fields]
    if unknown:
        raise WrongPayload(f"the payload has {_listed(unknown)}, which nobody knows; expected {_listed(fields)}")
    for name, value in payload.items():
        if not _fits(value, fields[name]):
            raise WrongPayload(f"{name} is {_shown(value)}; expected {_words(fields[name])}")


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is of a type, as far as its outside tells; types that JSON does not know are not looked into."""
    origin = typing.get_origin(wanted)
    if origin is Union or _is_new_union(wanted):
        return any(_fits(value, one) for one in typing.get_args(wanted))
    if origin is typing.Literal:
        return value in typing.get_args(wanted)
    plain = origin or wanted
    if plain is type(None):
        return value is None
    if plain is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if plain is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, plain) if plain in _PLAIN else True


def _is_new_union(wanted: Any) -> bool:
    """Whether it is written `X | Y`, which Python has from 3.10 on."""
    if sys.version_info < (3, 10):
        return False
    import types

    return isinstance(wanted, types.UnionType)


def _words(wanted: Any) -> str:
    plain = typing.get_origin(wanted) or wanted
    return _PLAIN.get(plain, str(wanted).replace("typing.", ""))


def _listed(names: typing.Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no fields"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
