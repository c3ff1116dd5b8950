"""The programs of the README run as they are, and print what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import unittest
from typing import Dict, Optional, Tuple

from kit import DEADLINE, HERE, Server

README = (HERE.parent / "README.md").read_text(encoding="utf-8")

#: The address that the README speaks of.
ADDRESS = "http://127.0.0.1:7070"


def programs() -> Dict[str, Tuple[str, Optional[str]]]:
    """The programs by name, with what they print."""
    found = re.findall(r"```python\n# (\S+)\n(.*?)```(?:\n```text\n(.*?)```)?", README, re.DOTALL)
    return {name: (code, printed or None) for name, code, printed in found}


class Readme(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}

    def start(self, code: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-W", "error", "-c", code.replace(ADDRESS, self.server.url)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        )

    def end(self, process: "subprocess.Popen[str]") -> str:
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, err), (0, ""))
        return out

    def test_every_program_prints_what_it_should(self) -> None:
        told = programs()
        self.assertEqual(
            set(told), {"worker.py", "submit.py", "workflow.py", "asynchronous.py", "events.py", "errors.py"}
        )
        self.assertEqual(README.count("```python"), len(told), "every program has a name")
        worker = self.start(told.pop("worker.py")[0])
        self.addCleanup(worker.kill)
        for name, (code, printed) in told.items():
            with self.subTest(name):
                self.assertIsNotNone(printed)
                self.assertEqual(self.end(self.start(code)), printed)
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(worker), "")

    def test_every_method_is_named(self) -> None:
        from windlass import Client

        text = re.sub(r"`(\w+)_` ", r"`\1` ", README)
        for name in dir(Client):
            if name.startswith("_") or name in ("close", "do", "hang_up"):
                continue
            parts = [name, name.replace("_workflow", ""), name.replace("_step", "")]
            self.assertTrue(any(f"`{part}`" in text for part in parts), name)


if __name__ == "__main__":
    unittest.main()
