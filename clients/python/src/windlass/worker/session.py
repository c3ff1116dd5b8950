"""A worker's place at the server: registered once, and again whenever the server has forgotten it."""

from __future__ import annotations

import logging
import socket
import threading
from typing import List, Optional, TypeVar

from ..call import Call
from ..calls import workers
from ..client import Client
from ..errors import InvalidInput, Unauthorised, WindlassError
from ..ids import worker_id
from ..patience import pause
from ..types import RegisteredWorker
from ..wire import Cut

log = logging.getLogger("windlass")

T = TypeVar("T")


class Session:
    """Speaks to the server as one worker."""

    def __init__(
        self,
        client: Client,
        kinds: List[str],
        queues: Optional[List[str]],
        namespace: Optional[str],
        pool: int,
        version: Optional[str],
        dead_after: Optional[float],
    ) -> None:
        self.client = client
        self.id = worker_id()
        #: How often the worker is to say that it lives, in seconds.
        self.heartbeat = 10.0
        self._registration = workers.register(
            kinds,
            queues=queues,
            namespace=namespace,
            pool_size=pool,
            version=version,
            hostname=socket.gethostname(),
            dead_after_seconds=dead_after,
            worker_id=self.id,
        )
        self._lock = threading.Lock()
        self._times = 0

    def ask(self, call: Call[T], cut: Optional[Cut] = None) -> T:
        """One try: whoever asks knows best what to do about a failure."""
        return self.client.do(call, tries=1, cut=cut)

    def register(self, stopping: threading.Event) -> bool:
        """Registers, trying until it works; `False` if the worker is to stop before that. A refusal is raised."""
        tried = 0
        while not stopping.is_set():
            try:
                self._register()
                return True
            except (InvalidInput, Unauthorised):
                raise
            except WindlassError as error:
                if getattr(error, "hopeless", False):
                    raise
                tried += 1
                tell_failure("registering", tried, error)
                stopping.wait(pause(tried, error))
        return False

    @property
    def times(self) -> int:
        """How many times it was registered."""
        return self._times

    def register_again(self, seen: int) -> None:
        """Registers under the old id, unless somebody has done so since it had been registered so many times."""
        with self._lock:
            if self._times != seen:
                return
        log.warning("the server does not know worker %s any more; it registers again", self.id)
        self._register()

    def _register(self) -> None:
        told: RegisteredWorker = self.ask(self._registration)
        with self._lock:
            self._times += 1
            self.heartbeat = told["heartbeat_seconds"]


def tell_failure(what: str, tried: int, error: WindlassError) -> None:
    """Tells of trouble with the server the first time and then ever more rarely."""
    if tried & (tried - 1) == 0:
        log.warning("%s failed, try %d, and is tried again: %s", what, tried, error)
