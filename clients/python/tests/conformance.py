#!/usr/bin/env python3
"""Runs `clients/conformance/script.json` against a server, or works for those who do.

conformance.py run SCRIPT --server URL [--token T] [--both]
conformance.py work --server URL --prefix py [--pool N] [--journal FILE]
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import secrets
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from kit import windlass
from standard import STANDARD
from windlass import Context, WindlassError, Worker

#: How long a step is repeated until what it expects holds, in seconds.
UNTIL = 20.0


class Mismatch(Exception):
    """A step did not do what the script expects."""


def look_up(document: Any, pointer: str) -> Any:
    """What a JSON pointer leads to; `None` if nowhere."""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            document = document[int(part)] if part.isdigit() and int(part) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(part)
        else:
            return None
    return document


def fill(value: Any, variables: Dict[str, Any]) -> Any:
    """Replaces variables in all texts."""
    if isinstance(value, str):
        whole = re.fullmatch(r"\$([a-z_]+)", value)
        if whole and whole.group(1) in variables:
            return variables[whole.group(1)]
        return re.sub(r"\$([a-z_]+)", lambda found: str(variables.get(found.group(1), found.group(0))), value)
    if isinstance(value, list):
        return [fill(one, variables) for one in value]
    if isinstance(value, dict):
        return {fill(name, variables): fill(one, variables) for name, one in value.items()}
    return value


def is_same(expected: Any, found: Any) -> bool:
    """Whether values are equal, told apart as JSON does: 1 is 1.0, but not true."""
    if expected == "$any":
        return found is not None
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(is_same, expected, found))
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(is_same(expected[name], found[name]) for name in expected)
    return bool(expected == found)


class Case:
    """A case that is being run."""

    def __init__(self, client: windlass.Client, run: str) -> None:
        self._client = client
        self._variables: Dict[str, Any] = {"run": run}
        self._workers: List[Worker] = []

    def play(self, steps: List[Dict[str, Any]]) -> None:
        try:
            for number, step in enumerate(steps, 1):
                try:
                    self._step(step)
                except (Mismatch, WindlassError, TypeError, ValueError, KeyError) as error:
                    raise Mismatch(f"step {number} ({step['do']}): {error}") from error
        finally:
            self.stop()

    def _step(self, step: Dict[str, Any]) -> None:
        ends_at = time.monotonic() + UNTIL
        while True:
            wrong, answer = self._once(step)
            if wrong is None:
                for name, pointer in step.get("save", {}).items():
                    self._variables[name] = look_up(answer, pointer)
                return
            if not step.get("until") or time.monotonic() > ends_at:
                raise Mismatch(wrong)
            time.sleep(0.02)

    def _once(self, step: Dict[str, Any]) -> "tuple[Optional[str], Any]":
        refused = fill(step.get("refused"), self._variables)
        try:
            answer = self._do(step["do"], fill(step.get("with", {}), self._variables))
        except WindlassError as error:
            if refused == error.code:
                return None, None
            raise
        if refused is not None:
            return f"expected a refusal with {refused}, and it was answered {answer}", answer
        for pointer, expected in fill(step.get("expect", {}), self._variables).items():
            found = look_up(answer, pointer)
            if not is_same(expected, found):
                return (
                    f"{pointer} is {json.dumps(found)}; expected {json.dumps(expected)} in {json.dumps(answer)}",
                    answer,
                )
        return None, answer

    def _do(self, operation: str, given: Dict[str, Any]) -> Any:
        own: Dict[str, Callable[..., Any]] = {"work": self.work, "stop": self.stop}
        if operation in own:
            return own[operation](**given)
        if operation == "submit_many":
            return {"tasks": self._client.submit_many(given["tasks"])}
        if operation == "define":
            return self._client.define(given["name"], given.get("definition") or given["text"])
        if operation == "finish":
            return {"outcomes": self._client.finish(**given)}
        return getattr(self._client, operation)(**given)

    def work(self, handlers: Dict[str, str], pool: int) -> None:
        worker = Worker(self._client, pool=pool)
        for kind, name in handlers.items():
            worker.handle(kind, STANDARD[name])
        worker.start()
        self._workers.append(worker)

    def stop(self) -> None:
        while self._workers:
            self._workers.pop().stop(grace=5.0)


def run(script: str, server: str, token: Optional[str], both: bool) -> int:
    with open(script, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    word, passed, failed = "r" + secrets.token_hex(4), 0, 0
    for case in cases:
        if case.get("needs") == "both" and not both:
            continue
        begun = time.monotonic()
        try:
            with windlass.Client(server, token=token) as client:
                Case(client, word).play(case["steps"])
        except Mismatch as error:
            failed += 1
            print(f"FAILED  {case['name']}: {error}", flush=True)
        else:
            passed += 1
            print(f"passed  {case['name']} ({time.monotonic() - begun:.2f} s)", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


class Journal:
    """Writes down every end of a handler."""

    def __init__(self, path: Optional[str]) -> None:
        self._file = open(path, "a", encoding="utf-8") if path else None
        self._lock = threading.Lock()

    def write(self, context: Context) -> None:
        if self._file is None:
            return
        line = {"id": context.id, "attempt": context.attempt, "lease": context.lease, "worker": context.worker_id}
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def around(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(handler):

            async def called_async(payload: Any, context: Context) -> Any:
                try:
                    return await handler(payload, context)
                finally:
                    self.write(context)

            return called_async

        def called(payload: Any, context: Context) -> Any:
            try:
                return handler(payload, context)
            finally:
                self.write(context)

        return called


def work(server: str, token: Optional[str], prefix: str, pool: int, journal: Optional[str]) -> int:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("windlass").setLevel(logging.INFO)
    kept = Journal(journal)
    worker = Worker(windlass.Client(server, token=token), pool=pool)
    for name, handler in STANDARD.items():
        worker.handle(f"{prefix}:{name}", kept.around(handler))
    worker.run(grace=10.0, started=lambda: print("working", flush=True))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    runs, works = modes.add_parser("run", help="run the script"), modes.add_parser("work", help="handle standard kinds")
    runs.add_argument("script")
    runs.add_argument("--both", action="store_true", help="also the cases that need standing workers of both languages")
    works.add_argument("--prefix", default="py", help="what the kinds begin with")
    works.add_argument("--pool", type=int, default=8, help="handlers at once")
    works.add_argument("--journal", help="a file that every end of a handler is written to")
    for mode in (runs, works):
        mode.add_argument("--server", help="its address")
        mode.add_argument("--token")
    given = parser.parse_args()
    if given.mode == "run":
        return run(given.script, given.server, given.token, given.both)
    return work(given.server, given.token, given.prefix, given.pool, given.journal)


if __name__ == "__main__":
    sys.exit(main())
