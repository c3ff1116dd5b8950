"""The client for asyncio."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, AsyncGenerator, AsyncIterator, Callable, Coroutine, Optional, TypeVar

from . import calls
from .address import Address
from .aiowire import AioWire
from .call import Call, WorkerSecrets
from .client import with_self
from .errors import Conflict, Disconnected, NotFound, Unavailable, WindlassError
from .patience import is_unknown, may_repeat, pause
from .sse import SILENCE, Event, Listener
from .stream import events_call
from .types import Task, TaskRecord, Workflow, WorkflowRecord
from .waiting import Looks

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")


def _doing(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method that carries out what a function of `windlass.calls` describes."""

    @functools.wraps(make)
    async def method(self: AsyncClient, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await self.do(make(*arguments, **named))

    method.__signature__ = with_self(make)  # type: ignore[attr-defined]
    return method


class AsyncClient:
    """A server, for programs with asyncio: what `Client` has, to be awaited, in one event loop.

    There are no threads behind it: any number of calls may wait, each on a connection of its own, and one that is
    cancelled closes its.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        token: Optional[str] = None,
        ca_file: Optional[str] = None,
        timeout: float = 30.0,
        tries: int = 6,
    ) -> None:
        self.address = Address.parse(url, token, ca_file)
        self._wire = AioWire(self.address, timeout)
        self._tries = tries
        self._secrets = WorkerSecrets()

    def __repr__(self) -> str:
        return f"AsyncClient({str(self.address)!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._wire.close()

    async def hang_up(self) -> None:
        """Closes connections that are free. It may go on to be used."""
        await self._wire.hang_up()

    async def do(self, call: Call[T]) -> T:
        """Carries out a call, trying again as long as that is safe and there are tries left."""
        call = self._secrets.signed(call)
        tried, unknown = 0, False
        while True:
            tried += 1
            try:
                outcome = call.outcome(await self._wire.ask(call))
                self._secrets.keep(call)
                return outcome
            except Conflict as conflict:
                if not unknown or call.check is None:
                    raise
                try:
                    return await self.do(call.check)
                except NotFound:
                    raise conflict from None
            except WindlassError as error:
                if tried >= self._tries or not may_repeat(error, call.repeatable):
                    raise
                unknown = unknown or is_unknown(error)
                await asyncio.sleep(pause(tried, error))

    submit = _doing(calls.tasks.submit)
    submit_many = _doing(calls.tasks.submit_many)
    task = _doing(calls.tasks.task)
    task_by_key = _doing(calls.tasks.task_by_key)
    why = _doing(calls.tasks.why)
    log = _doing(calls.tasks.log)
    cancel = _doing(calls.tasks.cancel)
    retry = _doing(calls.tasks.retry)
    resolve = _doing(calls.tasks.resolve)
    delete = _doing(calls.tasks.delete)

    define = _doing(calls.workflows.define)
    definition = _doing(calls.workflows.definition)
    definitions = _doing(calls.workflows.definitions)
    definition_versions = _doing(calls.workflows.definition_versions)
    start = _doing(calls.workflows.start)
    workflow = _doing(calls.workflows.workflow)
    ready_workflows = _doing(calls.workflows.ready_workflows)
    graph = _doing(calls.workflows.graph)
    ancestors = _doing(calls.workflows.ancestors)
    cancel_workflow = _doing(calls.workflows.cancel_workflow)
    pause_workflow = _doing(calls.workflows.pause_workflow)
    resume_workflow = _doing(calls.workflows.resume_workflow)
    resolve_workflow = _doing(calls.workflows.resolve_workflow)
    give_up_workflow = _doing(calls.workflows.give_up_workflow)
    rerun_workflow = _doing(calls.workflows.rerun_workflow)
    retry_step = _doing(calls.workflows.retry_step)
    resolve_step = _doing(calls.workflows.resolve_step)
    skip_step = _doing(calls.workflows.skip_step)
    cancel_step = _doing(calls.workflows.cancel_step)

    queues = _doing(calls.operations.queues)
    pause_queue = _doing(calls.operations.pause_queue)
    resume_queue = _doing(calls.operations.resume_queue)
    schedules = _doing(calls.operations.schedules)
    schedule = _doing(calls.operations.schedule)
    set_schedule = _doing(calls.operations.set_schedule)
    remove_schedule = _doing(calls.operations.remove_schedule)
    run_schedule = _doing(calls.operations.run_schedule)
    pause_schedule = _doing(calls.operations.pause_schedule)
    resume_schedule = _doing(calls.operations.resume_schedule)
    entity = _doing(calls.operations.entity)
    register_entity = _doing(calls.operations.register_entity)
    forget_entity = _doing(calls.operations.forget_entity)
    workers = _doing(calls.operations.workers)
    stats = _doing(calls.operations.stats)
    analytics = _doing(calls.operations.analytics)
    slowest_steps = _doing(calls.operations.slowest_steps)
    slowest_workflows = _doing(calls.operations.slowest_workflows)
    stale_workflows = _doing(calls.operations.stale_workflows)
    health = _doing(calls.operations.health)
    ready = _doing(calls.operations.ready)

    register = _doing(calls.workers.register)
    claim = _doing(calls.workers.claim)
    heartbeat = _doing(calls.workers.heartbeat)
    finish = _doing(calls.workers.finish)
    report = _doing(calls.workers.report)
    deregister = _doing(calls.workers.deregister)

    async def tasks(self, **filters: Any) -> AsyncIterator[Task]:
        """Tasks, newest first, page by page, as `Client.tasks` gives them."""
        while True:
            page = await self.do(calls.tasks.page(**filters))
            for task in page["tasks"]:
                yield task
            if page["next_cursor"] is None:
                return
            filters["cursor"] = page["next_cursor"]

    async def workflows(self, **filters: Any) -> AsyncIterator[Workflow]:
        """Workflows, newest first, page by page, as `Client.workflows` gives them."""
        while True:
            page = await self.do(calls.workflows.page(**filters))
            for workflow in page["workflows"]:
                yield workflow
            if page["next_cursor"] is None:
                return
            filters["cursor"] = page["next_cursor"]

    async def wait(self, id: str, timeout: Optional[float] = None) -> TaskRecord:
        """Waits until a task is over, as `Client.wait` does."""
        looks = Looks(timeout)
        while True:
            record = await self.task(id)
            if record["state"] in calls.tasks.FINAL:
                return record
            await asyncio.sleep(looks.next(f"task {id} is {record['state']}"))

    async def wait_for_workflow(self, id: str, timeout: Optional[float] = None) -> WorkflowRecord:
        """Waits until a workflow is over, or blocked by failures, as `Client.wait_for_workflow` does."""
        looks = Looks(timeout)
        while True:
            state = (await self.workflow(id, steps=0, items=0))["state"]
            if state in calls.workflows.AT_REST:
                return await self.workflow(id)
            await asyncio.sleep(looks.next(f"workflow {id} is {state}"))

    async def events(self, *, last_event_id: Optional[str] = None, **filters: Any) -> AsyncGenerator[Event, None]:
        """Changes of tasks and workflows, as `Client.events` gives them. It connects when the first is asked for."""
        call, listener, tried, was_connected = events_call(filters), Listener(last_event_id), 0, False
        while True:
            rest, pieces = b"", self._wire.listen(call, listener.headers(), SILENCE)
            try:
                async for piece in pieces:
                    tried, was_connected = 0, True
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        event = listener.take(line)
                        if event is not None:
                            yield event
            except (Disconnected, Unavailable) as error:
                tried += 1
                if not was_connected and (tried >= self._tries or not may_repeat(error, repeatable=True)):
                    raise
                await asyncio.sleep(pause(tried, error))
            finally:
                await pieces.aclose()
