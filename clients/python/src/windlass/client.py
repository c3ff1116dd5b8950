"""The client for threads."""

from __future__ import annotations

import functools
import inspect
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, TypeVar

from . import calls
from .address import Address
from .call import Call, WorkerSecrets
from .errors import Conflict, NotFound, WindlassError
from .patience import is_unknown, may_repeat, pause
from .stream import EventStream
from .types import Task, TaskRecord, Workflow, WorkflowRecord
from .waiting import Looks
from .wire import Cut, Wire

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")


def _doing(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """The method that carries out what a function of `windlass.calls` describes."""

    @functools.wraps(make)
    def method(self: Client, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.do(make(*arguments, **named))

    method.__signature__ = with_self(make)  # type: ignore[attr-defined]
    return method


def with_self(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function as a method has it."""
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(function)
    return signature.replace(parameters=[first, *signature.parameters.values()])


class Client:
    """A server, for programs with threads. May be shared between them.

    `url` and `token` are taken from WINDLASS_SERVER and WINDLASS_TOKEN unless given; `ca_file` has the certificates
    to trust. `timeout` is how long one answer may take, in seconds. A call that found nobody, or an overloaded
    server, is sent again up to `tries` times in all, with growing pauses, if it is safe to carry it out twice.
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
        self._wire = Wire(self.address, timeout)
        self._tries = tries
        self._secrets = WorkerSecrets()

    def __repr__(self) -> str:
        return f"Client({str(self.address)!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._wire.close()

    def hang_up(self) -> None:
        """Closes connections that are free. It may go on to be used."""
        self._wire.hang_up()

    def do(self, call: Call[T], *, tries: Optional[int] = None, cut: Optional[Cut] = None) -> T:
        """Carries out a call, trying again as long as that is safe and there are tries left."""
        call = self._secrets.signed(call)
        tried, unknown = 0, False
        while True:
            tried += 1
            try:
                outcome = call.outcome(self._wire.ask(call, cut))
                self._secrets.keep(call)
                return outcome
            except Conflict as conflict:
                if not unknown or call.check is None:
                    raise
                try:
                    return self.do(call.check)
                except NotFound:
                    raise conflict from None
            except WindlassError as error:
                given_up = tried >= (tries or self._tries) or (cut is not None and cut.is_cut)
                if given_up or not may_repeat(error, call.repeatable):
                    raise
                unknown = unknown or is_unknown(error)
                time.sleep(pause(tried, error))

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

    def tasks(self, **filters: Any) -> Iterator[Task]:
        """Tasks, newest first, page by page as they are asked for, without payloads and results.

        `filters` are those of the route: state (one or a list), kind, queue, namespace, entity, workflow, tag,
        worker, updated_before, oldest_first; `limit` is the size of a page.
        """
        while True:
            page = self.do(calls.tasks.page(**filters))
            yield from page["tasks"]
            if page["next_cursor"] is None:
                return
            filters["cursor"] = page["next_cursor"]

    def workflows(self, **filters: Any) -> Iterator[Workflow]:
        """Workflows, newest first, page by page as they are asked for.

        `filters` are those of the route: state (one or a list), definition, namespace, parent, oldest_first; `limit`
        is the size of a page.
        """
        while True:
            page = self.do(calls.workflows.page(**filters))
            yield from page["workflows"]
            if page["next_cursor"] is None:
                return
            filters["cursor"] = page["next_cursor"]

    def wait(self, id: str, timeout: Optional[float] = None) -> TaskRecord:
        """Waits until a task is over, however it ends, and gives it; `WaitTimeout` after `timeout` seconds.

        It looks again and again, ever more rarely: it learns of the end at most a tenth of the time waited, or two
        seconds, too late.
        """
        looks = Looks(timeout)
        while True:
            record = self.task(id)
            if record["state"] in calls.tasks.FINAL:
                return record
            time.sleep(looks.next(f"task {id} is {record['state']}"))

    def wait_for_workflow(self, id: str, timeout: Optional[float] = None) -> WorkflowRecord:
        """Waits until a workflow is over, or blocked by failures, and gives it; `WaitTimeout` after `timeout`
        seconds. It looks as `wait` does.
        """
        looks = Looks(timeout)
        while True:
            state = self.workflow(id, steps=0, items=0)["state"]
            if state in calls.workflows.AT_REST:
                return self.workflow(id)
            time.sleep(looks.next(f"workflow {id} is {state}"))

    def events(self, *, last_event_id: Optional[str] = None, **filters: Any) -> EventStream:
        """Changes of tasks and workflows, as they happen: an iterator that does not end, and goes on by itself after
        a lost connection, without gaps or repeats. It is connected when this returns: whatever happens from then
        on is told.

        `filters` are those of the route: task, workflow, namespace, queue, kind, definition, state (one or a list).
        `last_event_id` goes on after an event that was heard before.
        """
        return EventStream(self._wire, filters, last_event_id, self._tries)
