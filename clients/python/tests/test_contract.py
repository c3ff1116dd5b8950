"""The types and calls of this package against the contract that the server publishes."""

from __future__ import annotations

import inspect
import json
import re
import unittest
from typing import Any, Dict, Set

from kit import HERE, windlass
from windlass import calls, types
from windlass.call import Call

CONTRACT: Dict[str, Any] = json.loads((HERE.parent.parent / "openapi.json").read_text(encoding="utf-8"))
SCHEMAS: Dict[str, Any] = CONTRACT["components"]["schemas"]

#: Routes that this package has no call for, and why.
LEFT_OUT = {
    "get /v1/audit": "what operators did is looked at with the command line",
    "get /v1/entities": "entities are listed with the command line",
    "get /metrics": "numbers are for Prometheus",
}


def properties(schema: Dict[str, Any]) -> Set[str]:
    if "$ref" in schema:
        return properties(SCHEMAS[schema["$ref"].rsplit("/", 1)[1]])
    found = set(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        found |= properties(part)
    return found


class Types(unittest.TestCase):
    def test_have_the_fields_of_the_contract(self) -> None:
        checked = 0
        for name in types.__all__:
            kind = getattr(types, name)
            if not hasattr(kind, "__annotations__"):
                continue
            self.assertIn(name, SCHEMAS)
            self.assertEqual(set(kind.__annotations__), properties(SCHEMAS[name]), name)
            checked += 1
        self.assertGreater(checked, 60)

    def test_words_are_those_of_the_contract(self) -> None:
        for name in ("Backoff", "OnConflict", "OutcomeWord"):
            self.assertEqual(list(getattr(types, name).__args__), SCHEMAS[name]["enum"])


def sample(function: Any) -> Any:
    """A call with made-up arguments."""
    given: Dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is parameter.empty:
            given[name] = {"kinds": ["k"], "outcomes": [], "reports": [], "tasks": [], "task": {"kind": "k"}}.get(
                name, "x"
            )
    return function(**given)


class Routes(unittest.TestCase):
    def test_every_route_has_a_call_and_every_call_a_route(self) -> None:
        known = {f"{method} {path}" for path, item in CONTRACT["paths"].items() for method in item}
        made: Set[str] = {"get /v1/events", "get /v1/workflows/{id}/graph.mmd"}
        patterns = {
            route: re.compile(re.sub(r"\{\w+\}", "[^/]+", route) + r"(\?.*)?$") for route in sorted(known, key=len)
        }
        for room in (calls.tasks, calls.workflows, calls.operations, calls.workers):
            for name, function in vars(room).items():
                if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != room.__name__:
                    continue
                call = sample(function)
                if not isinstance(call, Call):
                    continue
                asked = f"{call.method.lower()} {call.path}"
                found = {route for route, pattern in patterns.items() if pattern.match(asked)}
                self.assertTrue(found, f"{name} asks {asked}, which is no route")
                made |= found
        self.assertEqual(known - made, set(LEFT_OUT))

    def test_every_parameter_of_a_submit_and_a_start_can_be_given(self) -> None:
        for function, schema in (
            (calls.tasks.submit, "NewTask"),
            (calls.workflows.start, "NewWorkflow"),
            (calls.workers.register, "NewWorker"),
        ):
            # A worker's secret is a header.
            parameters = set(inspect.signature(function).parameters) - {"worker_secret"}
            self.assertEqual(parameters, properties(SCHEMAS[schema]))

    def test_every_call_is_a_method(self) -> None:
        for room in (calls.tasks, calls.workflows, calls.operations, calls.workers):
            for name, function in vars(room).items():
                if inspect.isfunction(function) and function.__module__ == room.__name__ and not name.startswith("_"):
                    if name not in ("page", "words"):
                        self.assertTrue(hasattr(windlass.Client, name), name)


if __name__ == "__main__":
    unittest.main()
