"""Connections for threads: requests out, answers in, one at a time on each connection.

A connection that is free again is kept and used for the next request. Nothing is tried again here; see
`windlass.patience`.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

from .address import Address
from .call import Answer, Call
from .errors import Disconnected

T = TypeVar("T")

#: How long a connection may take to be made, in seconds.
CONNECT = 10.0

#: Free connections that are kept.
KEPT = 32


class Cut:
    """A way to end a request from another thread: whoever waits for its answer is told that the connection is lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self.is_cut = False

    def hold(self, used: Optional[socket.socket]) -> None:
        """From now on this is what is cut; nothing, if it is `None`."""
        with self._lock:
            self._socket = used
            if self.is_cut:
                self._shut()

    def cut(self) -> None:
        """Ends what is held, and whatever will be."""
        with self._lock:
            self.is_cut = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is None:
            return
        try:
            # Not that of a TLS socket: it would take down what the reading thread is using.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            pass


class Wire:
    """All connections of a client to its server. May be shared between threads."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self.timeout = timeout
        self._lock = threading.Lock()
        self._free: List[http.client.HTTPConnection] = []
        self._process = os.getpid()
        self._closed = False

    def ask(self, call: Call[Any], cut: Optional[Cut] = None) -> Answer:
        """Sends a call and reads the answer."""
        connection = self._take()
        try:
            response = self._send(connection, call, call.wait + self.timeout, {}, cut)
            body = _trying(response.read, self.address, cut)
        except BaseException:
            connection.close()
            raise
        finally:
            if cut is not None:
                cut.hold(None)
        if response.will_close or connection.sock is None:
            connection.close()
        else:
            self._give_back(connection)
        return Answer(response.status, _headers(response), body)

    def listen(self, call: Call[Any], headers: Dict[str, str], silence: float, cut: Cut) -> Listening:
        """Opens a stream. It counts as lost if nothing is heard for `silence` seconds."""
        connection = self._connect()
        try:
            response = self._send(connection, call, silence, headers, cut)
            if response.status != 200:
                body = _trying(response.read, self.address, cut)
                call.outcome(Answer(response.status, _headers(response), body))
        except BaseException:
            connection.close()
            raise
        return Listening(connection, response, self.address, cut)

    def close(self) -> None:
        """Closes what is free, and from now on whatever becomes free."""
        with self._lock:
            self._closed = True
        self.hang_up()

    def hang_up(self) -> None:
        """Closes what is free."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _send(
        self,
        connection: http.client.HTTPConnection,
        call: Call[Any],
        timeout: float,
        more: Dict[str, str],
        cut: Optional[Cut],
    ) -> http.client.HTTPResponse:
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
            if cut is not None:
                cut.hold(connection.sock)
        headers = {**self.address.headers(), **call.headers(), **more}
        if call.body is not None:
            headers["content-type"] = call.content_type

        def exchange() -> http.client.HTTPResponse:
            connection.request(call.method, self.address.prefix + call.path, call.body, headers)
            return connection.getresponse()

        return _trying(exchange, self.address, cut)

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._process != os.getpid():
                # These belong to the process that this one was forked from.
                self._free, self._process = [], os.getpid()
            while self._free:
                connection = self._free.pop()
                if _is_alive(connection):
                    return connection
                connection.close()
        return self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        host, port, tls = self.address.host, self.address.port, self.address.tls
        connection: http.client.HTTPConnection
        if tls is None:
            connection = http.client.HTTPConnection(host, port, timeout=CONNECT)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=CONNECT, context=tls)
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            connection.close()
            raise unreachable(self.address, error) from None
        return connection

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._free) < KEPT and self._process == os.getpid():
                self._free.append(connection)
                return
        connection.close()


class Listening:
    """A stream that is being read."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, address: Address, cut: Cut
    ) -> None:
        self._connection = connection
        self._response = response
        self._address = address
        self._cut = cut

    def lines(self) -> Iterator[bytes]:
        """Its lines, each with its end; `Disconnected` at the end of the stream."""
        while True:
            line = _trying(self._response.readline, self._address, self._cut)
            if not line:
                raise Disconnected(f"the stream from {self._address} has ended", sent=True)
            yield line

    def close(self) -> None:
        self._cut.hold(None)
        self._response.close()
        self._connection.close()


def unreachable(address: Address, error: Exception) -> Disconnected:
    """No connection could be made."""
    # A certificate that is refused now is refused the next time too.
    hopeless = type(error).__name__ == "SSLCertVerificationError"
    why = str(error) or f"no connection within {CONNECT:g} s"
    return Disconnected(f"{address} cannot be reached: {why}", sent=False, hopeless=hopeless)


def _trying(read: Callable[[], T], address: Address, cut: Optional[Cut]) -> T:
    try:
        return read()
    except socket.timeout:
        raise Disconnected(f"{address} did not answer in time", sent=True) from None
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        # The last two come from sockets that were shut by another thread, and are mistakes otherwise.
        if isinstance(error, (ValueError, AttributeError)) and not (cut and cut.is_cut):
            raise
        raise Disconnected(f"the connection to {address} was lost: {error}", sent=True) from None


def _headers(response: http.client.HTTPResponse) -> Dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _is_alive(connection: http.client.HTTPConnection) -> bool:
    """Whether a free connection is still open: the server has nothing to say on it, not even goodbye."""
    if connection.sock is None:
        return False
    connection.sock.settimeout(0.0)
    try:
        socket.socket.recv(connection.sock, 1, socket.MSG_PEEK)
        return False
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        return False
