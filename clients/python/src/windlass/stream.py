"""The stream of changes, for threads: an iterator that outlives its connections."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, Iterator, Optional

from .call import Call, get, path
from .calls.tasks import words
from .errors import Disconnected, Unavailable, WindlassError
from .patience import may_repeat, pause
from .sse import SILENCE, Event, Listener
from .wire import Cut, Listening, Wire

#: What the stream may be asked for.
FILTERS = ("task", "workflow", "namespace", "queue", "kind", "definition", "state")


def events_call(filters: Dict[str, Any]) -> Call[Any]:
    """The call that opens a stream."""
    for name in filters:
        if name not in FILTERS:
            raise TypeError(f"events has no filter {name!r}; expected one of {', '.join(FILTERS)}")
    query = {**filters, "state": words(filters.get("state"))}
    return get(path("events"), query)


class EventStream:
    """Events as they happen. `close` ends it, from any thread."""

    def __init__(self, wire: Wire, filters: Dict[str, Any], heard: Optional[str], tries: int) -> None:
        self._wire = wire
        self._call = events_call(filters)
        self._listener = Listener(heard)
        self._cut = Cut()
        self._closed = threading.Event()
        #: Held by whoever waits for the next event.
        self._reading = threading.Lock()
        self._listening: Optional[Listening] = None
        self._lines: Iterator[bytes] = iter(())
        tried = 0
        while self._listener.heard is None or self._listening is None:
            try:
                self._connect()
                self._next_event(until_ready=True)
            except WindlassError as error:
                self._disconnect()
                tried += 1
                if tried >= tries or not may_repeat(error, repeatable=True):
                    raise
                time.sleep(pause(tried, error))

    @property
    def last_event_id(self) -> Optional[str]:
        """The last that was heard: what `last_event_id` takes, to go on later."""
        return self._listener.heard

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        tried = 0
        with self._reading:
            while not self._closed.is_set():
                try:
                    if self._listening is None:
                        self._connect()
                    event = self._next_event()
                    if event is not None:
                        return event
                except (Disconnected, Unavailable) as error:
                    self._disconnect()
                    tried += 1
                    self._closed.wait(pause(tried, error))
            raise StopIteration

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream; whoever waits for the next event is told that there is none."""
        self._closed.set()
        self._cut.cut()
        with self._reading:
            self._disconnect()

    def _connect(self) -> None:
        self._disconnect()
        headers = self._listener.headers()
        self._listening = self._wire.listen(self._call, headers, SILENCE, self._cut)
        self._lines = self._listening.lines()

    def _disconnect(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()

    def _next_event(self, until_ready: bool = False) -> Optional[Event]:
        """The next event; `None` when the stream is ready, if that is what is waited for."""
        for line in self._lines:
            event = self._listener.take(line)
            if event is not None or (until_ready and self._listener.heard is not None):
                return event
        return None
