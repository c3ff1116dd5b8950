"""One call of the HTTP contract, as a value: what is sent, and how the answer is read.

Nothing is sent here. Both clients carry out the same calls, so that they cannot differ.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Generic, Mapping, Optional, TypeVar, Union, cast
from urllib.parse import quote, urlencode

from .codec import decode, encode
from .errors import refusal
from .ids import worker_secret

T = TypeVar("T")

#: What may come after the `?`; `None` is left out.
Query = Mapping[str, Union[str, int, float, bool, None]]


@dataclass(frozen=True)
class Answer:
    """An answer as it came, with the names of its headers in lower case."""

    status: int
    headers: Dict[str, str] = field(repr=False)
    body: bytes


def _json(answer: Answer) -> Any:
    return decode(answer.body)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request whose answer is a `T`."""

    method: str
    path: str
    body: Optional[bytes] = None
    content_type: str = "application/json"
    #: Whether carrying it out twice is the same as once.
    repeatable: bool = True
    #: How long the server may wait before it answers, in seconds.
    wait: float = 0.0
    #: How a good answer is read.
    read: Callable[[Answer], T] = field(default=cast("Callable[[Answer], T]", _json), repr=False)
    #: What tells whether an earlier try was carried out, if a later one is refused as a conflict.
    check: Optional[Call[T]] = None
    #: The worker that it is of, if it is of one.
    worker: Optional[str] = None
    #: That worker's secret; the client knows it if it is not given.
    secret: Optional[str] = field(default=None, repr=False)
    #: Whether it registers that worker.
    registers: bool = False

    def headers(self) -> Dict[str, str]:
        """What goes with it beside what goes with every call."""
        return {} if self.secret is None else {"windlass-worker-secret": self.secret}

    def outcome(self, answer: Answer) -> T:
        """What the answer says; a refusal is raised."""
        if 200 <= answer.status < 300:
            try:
                return self.read(answer)
            except (ValueError, KeyError, TypeError) as error:
                detail = f"{self.method} {self.path} was answered with something unreadable: {error}"
                raise refusal(502, {"code": "unexpected_answer", "detail": detail}) from None
        raise refusal(answer.status, _problem(answer), _retry_after(answer))


class WorkerSecrets:
    """The secrets of the workers that a client has registered."""

    def __init__(self) -> None:
        self._known: Dict[str, str] = {}

    def signed(self, call: Call[T]) -> Call[T]:
        """The call with its worker's secret. A worker that registers is given one here, so that it can register again if
        the answer is lost.
        """
        if call.worker is None or call.secret is not None:
            return call
        if call.registers:
            return replace(call, secret=self._known.setdefault(call.worker, worker_secret()))
        return replace(call, secret=self._known.get(call.worker))

    def keep(self, call: Call[Any]) -> None:
        """Keeps the secret that a worker has registered with."""
        if call.registers and call.worker is not None and call.secret is not None:
            self._known[call.worker] = call.secret


def _problem(answer: Answer) -> Dict[str, Any]:
    try:
        problem = decode(answer.body)
    except ValueError:
        problem = None
    if isinstance(problem, dict) and "code" in problem:
        return problem
    said = answer.body[:200].decode(errors="replace")
    return {"code": "unexpected_answer", "detail": f"status {answer.status}, which is not from Windlass: {said!r}"}


def _retry_after(answer: Answer) -> Optional[float]:
    try:
        return max(0.0, float(answer.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def path(*parts: str) -> str:
    """A path below `/v1`, with its parts quoted."""
    return "/v1/" + "/".join(quote(part, safe=":") for part in parts)


def asking(where: str, query: Query) -> str:
    """A path with what comes after the `?`."""
    text = urlencode([(name, _word(value)) for name, value in query.items() if value is not None])
    return f"{where}?{text}" if text else where


def get(where: str, query: Query = {}, read: Optional[Callable[[Any], T]] = None) -> Call[T]:
    """Reads something."""
    return Call("GET", asking(where, query), read=_then(read))


def send(
    method: str,
    where: str,
    body: Any,
    repeatable: bool = True,
    wait: float = 0.0,
    read: Optional[Callable[[Any], T]] = None,
    check: Optional[Call[T]] = None,
    worker: Optional[str] = None,
    secret: Optional[str] = None,
    registers: bool = False,
) -> Call[T]:
    """Sends JSON."""
    return Call(
        method,
        where,
        encode(body),
        repeatable=repeatable,
        wait=wait,
        read=_then(read),
        check=check,
        worker=worker,
        secret=secret,
        registers=registers,
    )


class Default(enum.Enum):
    """The value of a parameter for which `None` means something."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


#: What the server takes by default.
DEFAULT = Default.DEFAULT


def given(**fields: Any) -> Dict[str, Any]:
    """The fields that are not `None`."""
    return {name: value for name, value in fields.items() if value is not None}


def _then(read: Optional[Callable[[Any], T]]) -> Callable[[Answer], T]:
    if read is None:
        return cast("Callable[[Answer], T]", _json)
    reading = read
    return lambda answer: reading(_json(answer))


def _word(value: Union[str, int, float, bool, None]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
