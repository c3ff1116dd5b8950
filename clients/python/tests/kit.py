"""Real servers for tests, started from the program that WINDLASS_BIN names, and ways to wait without sleeping for a
guess.
"""

from __future__ import annotations

import logging
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any, Callable, Dict, List, Optional, TypeVar

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

import windlass as windlass  # noqa: E402

# Failures that tests bring about on purpose are not worth a line each.
logging.getLogger("windlass").setLevel(logging.CRITICAL)

T = TypeVar("T")

#: Longer than anything takes.
DEADLINE = 20.0


def binary() -> str:
    found = os.environ.get("WINDLASS_BIN")
    if not found:
        raise RuntimeError("WINDLASS_BIN must name the program `windlass`, such as target/debug/windlass")
    return os.path.abspath(found)


def until(look: Callable[[], T], seconds: float = DEADLINE) -> T:
    """Looks until it finds something, and gives it."""
    ends_at = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > ends_at:
            raise AssertionError(f"it did not happen within {seconds:g} s")
        time.sleep(0.005)


class Server:
    """A server of one's own. It can be killed, and started again on the same port and store."""

    def __init__(self, store: str = "sqlite", arguments: Optional[List[str]] = None) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="windlass-test-")
        self.store = "memory:" if store == "memory" else f"sqlite:{self._place.name}/windlass.db"
        self._arguments = arguments or []
        self._process: Optional[subprocess.Popen[str]] = None
        self._listen = "127.0.0.1:0"
        self._clients: List[windlass.Client] = []
        self.said: List[str] = []
        self.url = ""
        self.start()

    @property
    def place(self) -> pathlib.Path:
        return pathlib.Path(self._place.name)

    def start(self) -> None:
        command = [binary(), "serve", "--store", self.store, "--listen", self._listen, *self._arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment, cwd=self._place.name
        )
        serving, process = threading.Event(), self._process
        threading.Thread(target=self._read, args=(process, serving), daemon=True).start()
        until(lambda: serving.is_set() or process.poll() is not None)
        if not serving.is_set():
            raise AssertionError(f"the server did not start: {self.said}")

    def _read(self, process: "subprocess.Popen[str]", serving: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr:
            self._follow(process.stderr, serving)

    def _follow(self, told: IO[str], serving: threading.Event) -> None:
        for line in told:
            self.said.append(line.rstrip())
            found = re.search(r"serving (https?)://(\S+)", line)
            if found:
                self._listen = found.group(2)
                self.url = f"{found.group(1)}://{found.group(2)}"
                serving.set()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """As with `kill -9`."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self._process is not None:
            if self._process.poll() is None:
                # It may have been stopped.
                self._process.send_signal(signal.SIGCONT)
                self._process.kill()
            self._process.wait()
        self._place.cleanup()

    def client(self, **more: Any) -> windlass.Client:
        self._clients.append(windlass.Client(self.url, **more))
        return self._clients[-1]

    def run(self, *arguments: str) -> str:
        """Runs another command on the same store."""
        command = [binary(), *arguments, "--store", self.store]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=self._place.name).stdout


class Proxy:
    """Stands before a server and forwards, unless it is told to lose something: the server does its work, and its
    answer does not arrive.
    """

    def __init__(self, server: Server) -> None:
        host, _, port = server.url.split("//")[1].rpartition(":")
        self._behind = (host, int(port))
        self._lock = threading.Lock()
        self._lose: Dict[str, int] = {}
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answers(self, request: str, times: int) -> None:
        """Loses so many answers to requests whose first line contains this."""
        with self._lock:
            self._lose[request] = times

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                front, _ = self._listener.accept()
            except OSError:
                return
            try:
                back = socket.create_connection(self._behind)
            except OSError:
                front.close()
                continue
            asked: List[bytes] = [b""]
            for source, target, is_answer in ((front, back, False), (back, front, True)):
                threading.Thread(target=self._pump, args=(source, target, asked, is_answer), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, asked: List[bytes], is_answer: bool) -> None:
        try:
            while True:
                piece = source.recv(65536)
                if not piece or (is_answer and self._is_lost(asked[0])):
                    return
                if not is_answer and re.match(rb"(GET|POST|PUT|DELETE) ", piece):
                    asked[0] = piece.split(b"\r\n")[0]
                target.sendall(piece)
        except OSError:
            return
        finally:
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            # Each of the two pumps reads one end: who is through with it closes it.
            source.close()

    def _is_lost(self, asked: bytes) -> bool:
        with self._lock:
            for request, times in self._lose.items():
                if times > 0 and request in asked.decode("latin-1"):
                    self._lose[request] -= 1
                    self.lost += 1
                    return True
        return False
