"""Workers as programs: stopped, told to hurry, and frozen until they are taken for dead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from typing import List, Optional

from kit import DEADLINE, HERE, Server, until

PROGRAM = """
import signal, sys, threading, time
# Whoever runs the tests in the background of a shell has it ignored, and so would this.
signal.signal(signal.SIGINT, signal.SIG_IGN if sys.argv[5] == "ignored" else signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[5] == "ignored" else signal.SIG_DFL)
sys.path.insert(0, sys.argv[1])
import kit
from windlass import Context, Worker

worker = Worker(sys.argv[2], pool=4, dead_after=float(sys.argv[4]))

@worker.task("p-quick")
def quick(payload, context: Context):
    print("quick", flush=True)
    time.sleep(payload)
    return "finished"

@worker.task("p-stubborn")
def stubborn(payload):
    print("stubborn", flush=True)
    threading.Event().wait()

@worker.task("p-frozen")
def frozen(payload, context: Context):
    print("frozen", flush=True)
    context.cancelled.wait()
    print(context.reason, flush=True)
    return "late"

worker.run(grace=float(sys.argv[3]), started=lambda: print("working", flush=True))
print("stopped", flush=True)
"""


class Program:
    """A worker in a process of its own."""

    def __init__(self, server: Server, grace: float, dead_after: float = 30.0, signals: str = "heard") -> None:
        command = [sys.executable, "-c", PROGRAM, str(HERE), server.url, str(grace), str(dead_after), signals]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.said: List[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.until("working")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self.said.append(line.strip())

    def until(self, line: str) -> None:
        until(lambda: line in self.said)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def insist(self, number: int) -> Optional[int]:
        """Signals until it ends: the first signal may not have been noticed yet, as Python handles them between steps."""
        begun = time.monotonic()
        while time.monotonic() - begun < DEADLINE:
            self.signal(number)
            try:
                return self._process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        return None

    def end(self) -> int:
        code = self._process.wait(DEADLINE)
        self._reading.join(DEADLINE)
        return code

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class Programs(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = self.server.client()

    def program(self, grace: float, dead_after: float = 30.0, signals: str = "heard") -> Program:
        program = Program(self.server, grace, dead_after, signals)
        self.addCleanup(program.close)
        return program

    def test_a_signal_lets_handlers_finish(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            program = self.program(grace=20)
            id = self.client.submit("p-quick", 0.5)["id"]
            program.until("quick")
            program.signal(number)
            self.assertEqual((program.end(), program.said[-1]), (0, "stopped"))
            self.assertEqual(self.client.task(id)["result"], "finished")
            self.assertEqual([one for one in self.client.workers() if not one["leader"]], [])

    def test_a_second_signal_ends_at_once(self) -> None:
        for number, code in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, None)):
            program = self.program(grace=600)
            self.client.submit("p-stubborn")
            program.until("stubborn")
            program.signal(number)
            ended = program.insist(number)
            self.assertIsNotNone(ended)
            self.assertNotIn("stopped", program.said)
            if code is not None:
                self.assertEqual(ended, code)

    def test_signals_that_its_parent_ignored_are_heard(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            program = self.program(grace=20, signals="ignored")
            program.signal(number)
            self.assertEqual((program.end(), program.said[-1]), (0, "stopped"))
            stubborn = self.program(grace=600, signals="ignored")
            self.client.submit("p-stubborn")
            stubborn.until("stubborn")
            self.assertEqual(stubborn.insist(number), -number)

    def test_a_frozen_worker_loses_its_task_and_changes_nothing(self) -> None:
        frozen = self.program(grace=5, dead_after=1.0)
        id = self.client.submit("p-frozen")["id"]
        frozen.until("frozen")
        frozen.signal(signal.SIGSTOP)
        # When this is due the leader looks at the clock, and need not be waited for.
        self.client.submit("p-alarm", delay_seconds=1.5)
        other = self.client.register(["p-frozen"])["worker_id"]
        claimed = self.client.claim(other, wait_seconds=30)["tasks"]
        self.assertEqual([(task["id"], task["attempt"]) for task in claimed], [(id, 2)])
        frozen.signal(signal.SIGCONT)
        frozen.until("the lease was lost")
        frozen.signal(signal.SIGTERM)
        self.assertEqual(frozen.end(), 0)
        self.assertEqual((self.client.task(id)["state"], self.client.task(id)["worker_id"]), ("running", other))
        told = self.client.finish(
            other, [{"id": id, "lease": claimed[0]["lease"], "outcome": "completed", "result": "mine"}]
        )
        self.assertEqual((told[0]["changed"], self.client.task(id)["result"]), (True, "mine"))


class StandardWorker(unittest.TestCase):
    def test_the_conformance_program_works_and_keeps_a_journal(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client, journal = server.client(), server.place / "journal"
        command = [sys.executable, str(HERE / "conformance.py"), "work", "--server", server.url]
        command += ["--prefix", "py", "--pool", "4", "--journal", str(journal)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ)
        )
        self.addCleanup(process.kill)
        assert process.stdout is not None
        with process.stdout:
            self.assertEqual(process.stdout.readline(), "working\n")
            ids = [
                client.submit("py:fail_once", retry={"backoff": "none"})["id"],
                client.submit("py:sum", {"n": 4})["id"],
            ]
            self.assertEqual([client.wait(id, timeout=DEADLINE)["result"] for id in ids], [2, 4])
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(DEADLINE), 0)
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        self.assertEqual(
            sorted((line["id"], line["attempt"], line["lease"]) for line in lines),
            sorted([(ids[0], 1, 1), (ids[0], 2, 2), (ids[1], 1, 1)]),
        )
        self.assertEqual(len({line["worker"] for line in lines}), 1)


if __name__ == "__main__":
    unittest.main()
