"""Where handlers run: threads for plain functions, one event loop for `async` ones.

All of them are daemons: a handler that never ends does not keep the program from ending.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any, Callable, Coroutine, Optional


class Crew:
    """Threads that are made when they are needed, as many as run at once, and are then kept."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

    def run(self, do: Callable[[], None]) -> None:
        """Does something on a thread; it must not raise."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._threads += 1
                name = f"windlass-handler-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._waiting.put(do)

    def stop(self) -> None:
        """Lets every thread end that is idle, or will be."""
        with self._lock:
            threads, self._threads, self._idle = self._threads, 0, 0
        for _ in range(threads):
            self._waiting.put(None)

    def _work(self) -> None:
        while True:
            do = self._waiting.get()
            if do is None:
                return
            do()
            with self._lock:
                self._idle += 1


class Loop:
    """An event loop on a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def run(
        self,
        coroutine: Coroutine[Any, Any, Any],
        begun: Callable[[Callable[[], None]], None],
        ended: Callable[[asyncio.Task[Any]], None],
    ) -> None:
        """Runs a coroutine. `begun` is given what cancels it, from any thread; `ended` is told of its end, however it
        comes.
        """
        loop = self._started()

        def begin() -> None:
            task = loop.create_task(coroutine)
            task.add_done_callback(ended)
            begun(lambda: _soon(loop, task.cancel))

        loop.call_soon_threadsafe(begin)

    def stop(self) -> None:
        """Cancels what is left and ends the loop."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            _soon(loop, loop.stop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_turn, args=(self._loop,), name="windlass-loop", daemon=True).start()
            return self._loop


def _soon(loop: asyncio.AbstractEventLoop, do: Callable[[], Any]) -> None:
    try:
        loop.call_soon_threadsafe(do)
    except RuntimeError:
        # The loop is closed, and everything on it has ended.
        pass


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
