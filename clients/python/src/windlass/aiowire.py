"""Connections for asyncio: requests out, answers in, one at a time on each connection.

HTTP/1.1 as far as the server speaks it: bodies with a length, or in chunks. A call that is cancelled closes its
connection.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, AsyncGenerator, AsyncIterator, Awaitable, Dict, List, Tuple, TypeVar

from .address import Address
from .call import Answer, Call
from .errors import Disconnected
from .wire import CONNECT, KEPT, unreachable

T = TypeVar("T")

#: Bytes of a line: of a header, or of an event.
_LINE = 1 << 20


class Connection:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def close(self) -> None:
        self.writer.close()

    @property
    def is_alive(self) -> bool:
        return not (self.reader.at_eof() or self.writer.is_closing())

    async def send(self, address: Address, call: Call[Any], more: Dict[str, str]) -> None:
        headers = {"host": address.authority, **address.headers(), **call.headers(), **more}
        if call.body is not None:
            headers.update({"content-type": call.content_type, "content-length": str(len(call.body))})
        elif call.method in ("POST", "PUT"):
            headers["content-length"] = "0"
        head = f"{call.method} {address.prefix}{call.path} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.writer.write(head.encode("latin-1") + b"\r\n" + (call.body or b""))
        await self.writer.drain()

    async def head(self) -> Tuple[int, Dict[str, str]]:
        """The status and the headers of an answer."""
        words = (await self._line()).split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise ConnectionError(f"the answer begins with {' '.join(words)!r}, which is not HTTP/1.1")
        headers: Dict[str, str] = {}
        while True:
            line = await self._line()
            if not line:
                return int(words[1]), headers
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()

    async def body(self, headers: Dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join([chunk async for chunk in self.chunks()])
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        return await self.reader.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            length = int((await self._line()).split(";")[0], 16)
            chunk = await self.reader.readexactly(length)
            await self._line()
            if length == 0:
                return
            yield chunk

    async def _line(self) -> str:
        line = await self.reader.readuntil(b"\n")
        return line.decode("latin-1").rstrip("\r\n")


class AioWire:
    """All connections of a client to its server, for one event loop."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self.timeout = timeout
        self._free: List[Connection] = []
        self._closed = False

    async def ask(self, call: Call[Any]) -> Answer:
        """Sends a call and reads the answer."""
        connection = await self._take()
        try:
            answer = await self._trying(self._exchange(connection, call), call.wait + self.timeout)
        except BaseException:
            connection.close()
            raise
        is_last = answer.headers.get("connection", "").lower() == "close"
        if is_last or self._closed or len(self._free) >= KEPT:
            connection.close()
        else:
            self._free.append(connection)
        return answer

    async def listen(self, call: Call[Any], headers: Dict[str, str], silence: float) -> AsyncGenerator[bytes, None]:
        """The pieces of a stream, as they come. It counts as lost if nothing is heard for `silence` seconds."""
        connection = await self._connect()
        try:
            await self._trying(connection.send(self.address, call, headers), self.timeout)
            status, told = await self._trying(connection.head(), silence)
            if status != 200:
                call.outcome(Answer(status, told, await self._trying(connection.body(told), silence)))
            pieces = connection.chunks().__aiter__()
            while True:
                try:
                    yield await self._trying(pieces.__anext__(), silence)
                except StopAsyncIteration:
                    raise Disconnected(f"the stream from {self.address} has ended", sent=True) from None
        finally:
            connection.close()

    async def close(self) -> None:
        """Closes what is free, and from now on whatever becomes free."""
        self._closed = True
        await self.hang_up()

    async def hang_up(self) -> None:
        """Closes what is free."""
        free, self._free = self._free, []
        for connection in free:
            connection.close()
        for connection in free:
            try:
                await connection.writer.wait_closed()
            except (OSError, ssl.SSLError):
                pass

    async def _exchange(self, connection: Connection, call: Call[Any]) -> Answer:
        await connection.send(self.address, call, {})
        status, headers = await connection.head()
        return Answer(status, headers, await connection.body(headers))

    async def _take(self) -> Connection:
        while self._free:
            connection = self._free.pop()
            if connection.is_alive:
                return connection
            connection.close()
        return await self._connect()

    async def _connect(self) -> Connection:
        opening = asyncio.open_connection(self.address.host, self.address.port, ssl=self.address.tls, limit=_LINE)
        try:
            return Connection(*await asyncio.wait_for(opening, CONNECT))
        except (OSError, asyncio.TimeoutError) as error:
            raise unreachable(self.address, error) from None

    async def _trying(self, doing: Awaitable[T], seconds: float) -> T:
        try:
            return await asyncio.wait_for(doing, seconds)
        except asyncio.TimeoutError:
            raise Disconnected(f"{self.address} did not answer in time", sent=True) from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise Disconnected(f"the connection to {self.address} was lost: {error}", sent=True) from None
