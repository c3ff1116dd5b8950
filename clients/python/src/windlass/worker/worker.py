"""The worker as a program sees it."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Callable, Dict, List, Optional, Sequence, Type, TypeVar, Union

from .._version import __version__
from ..client import Client
from ..errors import WindlassError
from ..outcomes import Outcome
from ..types import ClaimedTask
from .attempt import Attempt
from .claimer import Claimer
from .crew import Crew, Loop
from .handlers import Function, Handler, Handlers
from .ledger import Ledger
from .pulse import Pulse
from .reporter import Reporter
from .session import Session
from .timers import Timers
from .verdict import Verdict, completed, failed, raised, released

log = logging.getLogger("windlass")

F = TypeVar("F", bound=Function)

#: How long a handler may take to end after it was told to stop, in seconds.
PATIENCE = 5.0

#: How long the last reports of a worker may take, in seconds.
FAREWELL = 10.0


class Worker:
    """Runs handlers for tasks.

    `client` is a `Client` or the server's address. It takes tasks of the kinds that it has handlers for, from
    `queues` (`default` unless said) of one `namespace`, at most `pool` at once, 10 unless said. If it is silent for `dead_after`
    seconds, 30 unless said, others take its tasks.
    """

    def __init__(
        self,
        client: Union[Client, str, None] = None,
        *,
        queues: Optional[Sequence[str]] = None,
        namespace: Optional[str] = None,
        pool: int = 10,
        version: Optional[str] = None,
        dead_after: Optional[float] = None,
    ) -> None:
        if not 1 <= pool <= 10_000:
            raise ValueError(f"the pool is {pool}; expected 1 to 10000 handlers at once")
        self._is_own = not isinstance(client, Client)
        self._client = client if isinstance(client, Client) else Client(client)
        self._queues = None if queues is None else list(queues)
        self._namespace = namespace
        self._pool = pool
        self._version = version or f"windlass-python {__version__}"
        self._dead_after = dead_after
        self._handlers = Handlers()
        self._session: Optional[Session] = None
        self._stopping = threading.Event()
        self._threads: List[threading.Thread] = []

    @property
    def id(self) -> Optional[str]:
        """Its id at the server, while it runs."""
        return None if self._session is None else self._session.id

    def task(self, kind: str) -> Callable[[F], F]:
        """Makes a function the handler of a kind: `@worker.task("email:send")`.

        The function is called with the payload and a `Context`, or with the payload alone. A plain one runs on a
        thread, an `async` one on an event loop that all of them share. What it returns is the result; an exception
        means that the task is to be tried again, unless it is one of `windlass.outcomes`. A payload that is annotated
        with a dataclass or a `TypedDict` is checked.
        """

        def keep(function: F) -> F:
            self.handle(kind, function)
            return function

        return keep

    def handle(self, kind: str, function: Function) -> None:
        """Adds a handler, before the worker is started."""
        if self._session is not None:
            raise RuntimeError(f"the worker runs already; add the handler of {kind!r} before it is started")
        self._handlers.add(kind, function)

    def start(self) -> None:
        """Registers, trying until the server is there, and begins to work on threads of its own. What the server
        refuses is raised.
        """
        if self._session is not None:
            raise RuntimeError("the worker runs already")
        kinds = self._handlers.kinds()
        if not kinds:
            raise RuntimeError("the worker has no handlers; add some with @worker.task(KIND)")
        session = Session(
            self._client, kinds, self._queues, self._namespace, self._pool, self._version, self._dead_after
        )
        self._session = session
        try:
            if not session.register(self._stopping):
                self._session = None
                return
        except WindlassError:
            self._session = None
            raise
        self._ledger = Ledger(self._pool)
        self._timers, self._crew, self._loop = Timers(), Crew(), Loop()
        self._pulse = Pulse(session, self._ledger, self._timers)
        self._claimer = Claimer(session, self._ledger, self._begin)
        reporter = Reporter(session, self._ledger)
        runs = {"claimer": self._claimer.run, "reporter": reporter.run, "pulse": self._pulse.run}
        self._threads = [self._thread(name, run) for name, run in runs.items()]
        log.info("worker %s takes %s from %s", session.id, ", ".join(kinds), self._client.address)

    def stop(self, grace: float = 30.0) -> None:
        """Claims no more, lets handlers end within `grace` seconds, gives back the rest, and leaves. Harmless if it
        does not run.
        """
        self._stopping.set()
        session = self._session
        if session is None or not self._threads:
            self._stopping.clear()
            return
        ledger, (claimer, *others) = self._ledger, self._threads
        with ledger.changed:
            ledger.stopping.set()
            ledger.changed.notify_all()
        self._claimer.stop()
        if not ledger.wait_until_idle(grace):
            self._interrupt(ledger)
        claimer.join(FAREWELL)
        if not ledger.wait_until_told(FAREWELL):
            log.warning("worker %s leaves without having reported everything; others take its tasks", session.id)
        ledger.closed.set()
        with ledger.changed:
            ledger.changed.notify_all()
        self._pulse.stop()
        for thread in others:
            thread.join(FAREWELL)
        self._timers.stop()
        self._crew.stop()
        self._loop.stop()
        try:
            self._client.deregister(session.id)
        except WindlassError as error:
            log.warning("worker %s could not deregister; it will be taken for dead: %s", session.id, error)
        if self._is_own:
            self._client.hang_up()
        self._threads, self._session = [], None
        self._stopping.clear()

    def run(self, grace: float = 30.0, started: Optional[Callable[[], None]] = None) -> None:
        """Works until SIGTERM or SIGINT, then stops, as `stop` does. A second signal ends the program at once.
        `started` is called when it is registered.
        """
        told = threading.Event()
        before: Dict[int, Any] = {}

        def tell(number: int, _: Optional[FrameType]) -> None:
            log.info("signal %d: the worker stops", number)
            for number, handler in before.items():
                # In the background of a shell interrupts were ignored: the second one ends the program there, too.
                signal.signal(number, signal.SIG_DFL if handler in (None, signal.SIG_IGN) else handler)
            self._stopping.set()
            told.set()

        def restore() -> None:
            for number, handler in before.items():
                # None: set by something other than Python, which cannot be set again from here.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            before.clear()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, tell)
        try:
            self.start()
            if started is not None and self._session is not None:
                started()
            told.wait()
            self.stop(grace)
        finally:
            restore()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()

    def _thread(self, name: str, run: Callable[[], None]) -> threading.Thread:
        def work() -> None:
            # Nothing but a mistake here gets as far; the worker then goes on rather than to be silent.
            while not self._ledger.closed.is_set():
                try:
                    return run()
                except Exception:
                    log.exception("the worker's %s failed and begins anew", name)
                    self._ledger.closed.wait(1.0)

        thread = threading.Thread(target=work, name=f"windlass-{name}", daemon=True)
        thread.start()
        return thread

    def _interrupt(self, ledger: Ledger) -> None:
        """Tells handlers to stop, and gives back what does not."""
        for attempt in ledger.undecided():
            attempt.stop()
        ledger.wait_until_idle(PATIENCE)
        for attempt in ledger.undecided():
            log.warning("task %s (%s) is given back: its handler has not ended", attempt.key[0], attempt.kind)
            ledger.decide(attempt, released("the worker stops"))

    def _begin(self, task: ClaimedTask) -> None:
        """Starts the handler of a task that was claimed."""
        assert self._session is not None
        ledger, handler = self._ledger, self._handlers.get(task["kind"])
        attempt = Attempt(task, self._session.id, ledger.write, self._client.ancestors)
        ledger.begin(attempt)
        if handler is None or ledger.stopping.is_set():
            why = "the worker stops" if handler else f"the worker has no handler of kind {task['kind']!r}"
            ledger.end(attempt, released(why))
            return
        self._pulse.begun()
        if attempt.timeout is not None:
            late = self._timers.after(attempt.timeout, attempt.time_out)
            later = self._timers.after(attempt.timeout + PATIENCE, lambda: ledger.decide(attempt, attempt.timed_out))
            attempt.timers = (late, later)
        if handler.is_async:
            self._begin_async(handler, attempt)
        else:
            self._crew.run(lambda: ledger.end(attempt, _verdict(handler, attempt)))

    def _begin_async(self, handler: Handler, attempt: Attempt) -> None:
        async def body() -> Verdict:
            try:
                return completed(await handler.call(attempt.context))
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                return _told(error, attempt)

        def ended(task: "asyncio.Task[Verdict]") -> None:
            cancelled = failed(attempt.context.reason or "the handler cancelled itself")
            self._ledger.end(attempt, cancelled if task.cancelled() else task.result())

        self._loop.run(body(), attempt.context.on_cancel, ended)


def _verdict(handler: Handler, attempt: Attempt) -> Verdict:
    try:
        return completed(handler.call(attempt.context))
    except BaseException as error:
        return _told(error, attempt)


def _told(error: BaseException, attempt: Attempt) -> Verdict:
    """The verdict for what a handler raised; what it did not mean to raise is logged with its place."""
    if not isinstance(error, Outcome) and not attempt.context.cancelled.is_set():
        log.warning("task %s (%s) failed", attempt.key[0], attempt.kind, exc_info=error)
    return raised(error)
