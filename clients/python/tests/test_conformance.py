"""The script that every client must pass, on a file and in memory; and that it can fail."""

from __future__ import annotations

import contextlib
import io
import unittest

import conformance
from kit import HERE, Server

SCRIPT = HERE.parent.parent / "conformance" / "script.json"


class Script(unittest.TestCase):
    def play(self, store: str) -> None:
        server, said = Server(store=store), io.StringIO()
        self.addCleanup(server.close)
        with contextlib.redirect_stdout(said):
            code = conformance.run(str(SCRIPT), server.url, None, both=False)
        self.assertEqual(code, 0, said.getvalue())
        self.assertIn("27 passed, 0 failed", said.getvalue())

    def test_passes_on_a_file(self) -> None:
        self.play("sqlite")

    def test_passes_in_memory(self) -> None:
        self.play("memory")

    def test_mismatches_are_told(self) -> None:
        server = Server(store="memory")
        self.addCleanup(server.close)
        for steps, told in (
            (
                [{"do": "submit", "with": {"kind": "$run:x"}, "expect": {"/state": "failed"}}],
                '/state is "pending"; expected "failed"',
            ),
            ([{"do": "submit", "with": {"kind": "x"}, "refused": "invalid_task"}], "expected a refusal"),
            ([{"do": "task", "with": {"id": "x"}}], "bad_request"),
            ([{"do": "task", "with": {"id": "x"}, "refused": "task_not_found"}], "bad_request"),
            ([{"do": "submit", "with": {"kind": "x"}, "expect": {"/nothing": "$any"}}], "/nothing is null"),
        ):
            with self.assertRaises(conformance.Mismatch) as wrong:
                conformance.Case(server.client(), "word").play(steps)
            self.assertIn(told, str(wrong.exception))

    def test_values_are_told_apart_as_json_does(self) -> None:
        for one, other, same in (
            (1, 1.0, True),
            (1, True, False),
            (0, False, False),
            (None, 0, False),
            ([1, {"a": 2}], [1.0, {"a": 2.0}], True),
            ([1], [1, 2], False),
            ({"a": 1}, {"a": 1, "b": None}, False),
            ("$any", 0, True),
            ("$any", None, False),
        ):
            self.assertEqual(conformance.is_same(one, other), same, (one, other))

    def test_variables_are_replaced_with_their_types(self) -> None:
        variables = {"run": "w", "lease": 3}
        self.assertEqual(
            conformance.fill({"$run:k": ["$lease", "n-$lease", "${x}", "$none"]}, variables),
            {"w:k": [3, "n-3", "${x}", "$none"]},
        )


if __name__ == "__main__":
    unittest.main()
