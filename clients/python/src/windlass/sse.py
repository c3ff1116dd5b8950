"""Server-sent events, as the server sends them: lines in, events out. Nothing is read from anywhere here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from .codec import decode

#: How long nothing may be heard on a stream, in seconds; the server speaks every 15.
SILENCE = 45.0


@dataclass(frozen=True)
class Event:
    """A change that has happened."""

    #: Its place in the stream.
    id: str
    #: `task` or `workflow`; or `reset`: some changes were missed, and everything is to be looked at anew.
    type: str
    #: What it is about and where that is then: `id`, `state`, `at`, `namespace` and more; for a `reset` the reason.
    data: Dict[str, Any]


class Listener:
    """Remembers what was heard, across connections: so nothing is missed, and nothing is told twice."""

    def __init__(self, heard: Optional[str] = None) -> None:
        #: The last event that was heard completely.
        self.heard = heard
        self._clear()

    def _clear(self) -> None:
        self._id: Optional[str] = None
        self._type = "message"
        self._data: List[str] = []

    def headers(self) -> Dict[str, str]:
        """What a new connection is asked with. What an old one has half said is forgotten."""
        self._clear()
        headers = {"accept": "text/event-stream"}
        if self.heard is not None:
            headers["last-event-id"] = self.heard
        return headers

    def take(self, line: bytes) -> Optional[Event]:
        """Takes a line; gives the event that it ends, if there is one to tell."""
        text = line.decode(errors="replace").rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "id":
                self._id = value
            elif name == "event":
                self._type = value
            elif name == "data":
                self._data.append(value)
            return None
        heard, kind, data = self._id, self._type, "\n".join(self._data)
        self._clear()
        if heard is not None:
            self.heard = heard
        if not data or kind == "ready":
            return None
        return Event(self.heard or "", kind, decode(data.encode()))
