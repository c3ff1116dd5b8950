"""JSON out and in.

Beside what `json` takes, a dataclass is written as its fields. What is not JSON, such as NaN or a set, is a
`ValueError` that says so.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import Any, Optional, Union


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


def encode(value: Any) -> bytes:
    """A value as JSON text."""
    try:
        text = json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("the value is nested too deeply to be JSON") from None
    except TypeError as error:
        raise ValueError(str(error)) from None
    return text.encode()


def decode(text: bytes) -> Any:
    """The value of JSON text; a `ValueError` if it is none."""
    return json.loads(text)


def moment(at: Union[str, datetime, None]) -> Optional[str]:
    """A moment as it is sent. A `datetime` must know its time zone."""
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError(f"the moment {at.isoformat()} has no time zone; give it one, such as datetime.timezone.utc")
    return at.isoformat()
