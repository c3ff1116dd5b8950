"""Things to do after a while, on one thread for all of them."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from typing import Callable, List, Optional, Tuple

log = logging.getLogger("windlass")


#: Cancelled timers that may lie around before they are swept out.
LITTER = 1_000


class Timer:
    """Something that will be done, unless it is cancelled."""

    def __init__(self, do: Callable[[], None], cancelled: Callable[[], None]) -> None:
        self._do: Optional[Callable[[], None]] = do
        self._cancelled = cancelled

    @property
    def is_over(self) -> bool:
        return self._do is None

    def cancel(self) -> None:
        if self._do is not None:
            self._do = None
            self._cancelled()

    def fire(self) -> None:
        do, self._do = self._do, None
        if do is not None:
            do()


class Timers:
    """All timers of a worker. What they do must be quick."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: List[Tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._litter = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="windlass-timers", daemon=True)
        self._thread.start()

    def after(self, seconds: float, do: Callable[[], None]) -> Timer:
        timer = Timer(do, self._swept)
        with self._changed:
            heapq.heappush(self._heap, (time.monotonic() + seconds, next(self._numbers), timer))
            if self._heap[0][2] is timer:
                self._changed.notify()
        return timer

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _swept(self) -> None:
        """Keeps those that were cancelled from gathering until they would have been due."""
        with self._changed:
            self._litter += 1
            if self._litter > max(LITTER, len(self._heap) // 2):
                self._litter = 0
                self._heap = [entry for entry in self._heap if not entry[2].is_over]
                heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                    continue
                timer = heapq.heappop(self._heap)[2]
            try:
                timer.fire()
            except Exception:
                log.exception("a timer failed")
