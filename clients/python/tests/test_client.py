"""The client against a real server: every call once, and how refusals are told."""

from __future__ import annotations

import threading
import unittest
from datetime import datetime, timedelta, timezone
from typing import List

from kit import Server, windlass
from windlass import Client, Conflict, InvalidInput, NotFound, WaitTimeout


class Calls(unittest.TestCase):
    server: Server
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.client = cls.server.client()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.server.close()

    def test_a_task_has_all_that_it_was_given(self) -> None:
        at = datetime.now(timezone.utc) + timedelta(hours=1)
        submitted = self.client.submit(
            "mail:send",
            {"to": "ada"},
            queue="mail",
            priority=7,
            max_attempts=5,
            retry={"backoff": "fixed", "base_seconds": 2.5, "jitter": "20%"},
            idempotency_key="once",
            lane={"key": "smtp", "limit": 2, "strict": True},
            run_at=at,
            timeout_seconds=1.5,
            tags=["a", "b"],
            namespace="tenant",
        )
        self.assertEqual((submitted["state"], submitted["created"]), ("scheduled", True))
        task = self.client.task(submitted["id"])
        self.assertEqual((task["payload"], task["queue"], task["namespace"]), ({"to": "ada"}, "mail", "tenant"))
        self.assertEqual((task["priority"], task["max_attempts"], task["tags"]), (7, 5, ["a", "b"]))
        self.assertEqual((task["retry"]["backoff"], task["retry"]["base_seconds"]), ("fixed", 2.5))
        self.assertEqual((task["lane"], task["timeout_seconds"]), ({"key": "smtp", "limit": 2, "strict": True}, 1.5))
        self.assertEqual(task["history"][0]["to"], "scheduled")
        found = self.client.task_by_key("mail:send", "once", namespace="tenant")
        self.assertEqual(found["id"], submitted["id"])
        again = self.client.submit("mail:send", idempotency_key="once", namespace="tenant")
        self.assertEqual((again["id"], again["created"]), (submitted["id"], False))
        with self.assertRaises(Conflict) as refused:
            self.client.submit("mail:send", idempotency_key="once", namespace="tenant", on_conflict="reject")
        self.assertEqual((refused.exception.code, refused.exception.status), ("key_conflict", 409))

    def test_none_is_no_limit_of_attempts_and_zero_is_refused(self) -> None:
        task = self.client.task(self.client.submit("limitless", max_attempts=None)["id"])
        self.assertIsNone(task["max_attempts"])
        task = self.client.task(self.client.submit("limited")["id"])
        self.assertEqual(task["max_attempts"], 3)
        with self.assertRaisesRegex(InvalidInput, "1 to 1000000, or null for no limit"):
            self.client.submit("never", max_attempts=0)

    def test_many_are_submitted_at_once_and_listed_page_by_page(self) -> None:
        answers = self.client.submit_many([{"kind": "many", "payload": n, "tags": ["page"]} for n in range(25)])
        ids = [answer["id"] for answer in answers]
        self.assertTrue(all(answer["created"] for answer in answers))
        listed = [task["id"] for task in self.client.tasks(kind="many", limit=10)]
        self.assertEqual(listed, ids[::-1])
        oldest = [task["id"] for task in self.client.tasks(tag="page", state=["pending", "failed"], oldest_first=True)]
        self.assertEqual(oldest, ids)
        self.assertEqual(list(self.client.tasks(kind="many", state="failed")), [])
        with self.assertRaises(TypeError):
            next(self.client.tasks(knd="many"))
        with self.assertRaises(InvalidInput) as refused:
            self.client.submit_many([{"kind": "many"}, {"kind": "a b"}])
        self.assertEqual((refused.exception.code, refused.exception.index), ("invalid_task", 1))

    def test_operators_stop_revive_settle_and_delete(self) -> None:
        id = self.client.submit("operated")["id"]
        self.assertEqual(self.client.why(id)["reason"], "no_worker")
        with self.assertRaises(Conflict) as refused:
            self.client.delete(id)
        self.assertEqual(refused.exception.code, "not_final")
        stopped = self.client.cancel(id, reason="not needed", actor="ada")
        self.assertEqual((stopped["state"], stopped["changed"]), ("cancelled", True))
        self.assertEqual(self.client.retry(id)["state"], "pending")
        self.assertEqual(self.client.resolve(id, result=[1], reason="by hand")["state"], "resolved_manually")
        self.assertEqual(self.client.wait(id, timeout=5)["result"], [1])
        self.assertEqual(self.client.log(id)["attempts"], [])
        self.assertTrue(self.client.delete(id)["changed"])
        with self.assertRaises(NotFound) as gone:
            self.client.task(id)
        self.assertEqual((gone.exception.code, gone.exception.status), ("task_not_found", 404))
        self.assertIn(id, gone.exception.detail)

    def test_a_wait_ends_in_time(self) -> None:
        id = self.client.submit("never")["id"]
        with self.assertRaisesRegex(WaitTimeout, f"task {id} is pending after 0.1 s"):
            self.client.wait(id, timeout=0.1)
        self.assertIsInstance(WaitTimeout("x"), TimeoutError)

    def test_definitions_are_kept_and_mistakes_told_one_by_one(self) -> None:
        text = "name: kept\nsteps:\n  a: { task: x }\n"
        self.assertEqual(self.client.define("kept", text), {"name": "kept", "version": "1", "created": True})
        self.assertFalse(self.client.define("kept", text)["created"])
        document = {"name": "kept", "version": "two", "steps": {"a": {"task": "y"}}}
        self.assertEqual(self.client.define("kept", document)["version"], "two")
        self.assertEqual(self.client.definition("kept", version="1")["definition"]["steps"]["a"]["task"], "x")
        self.assertEqual([line["version"] for line in self.client.definition_versions("kept")], ["1", "two"])
        self.assertIn("kept", [line["name"] for line in self.client.definitions()])
        with self.assertRaises(InvalidInput) as refused:
            self.client.define("bad", "name: bad\nsteps:\n  a: { task: x, needs: [z] }\n  b: { task: x, needs: [y] }\n")
        self.assertEqual(refused.exception.code, "invalid_definition")
        self.assertEqual([mistake["line"] for mistake in refused.exception.problems][:2], [3, 4])
        self.assertEqual(self.client.define("kept", text, namespace="other tenant".replace(" ", "-"))["version"], "1")

    def test_workflows_are_started_steered_and_drawn(self) -> None:
        steps = {"a": {"task": "w"}, "b": {"needs": ["a"], "task": "w"}, "c": {"task": "w"}}
        started = self.client.start(steps=steps, idempotency_key="flow", definition="drawn")
        self.assertTrue(started["created"])
        id = started["id"]
        self.assertFalse(self.client.start(steps=steps, idempotency_key="flow", definition="drawn")["created"])
        self.assertTrue(self.client.pause_workflow(id, reason="storm")["paused"])
        self.assertFalse(self.client.resume_workflow(id)["paused"])
        self.assertEqual(self.client.resolve_step(id, "a", result=7, actor="ada")["state"], "resolved_manually")
        self.assertEqual([(one["step"], one["result"]) for one in self.client.ancestors(id, "b")], [("a", 7)])
        self.assertIn(id, [one["workflow"]["id"] for one in self.client.ready_workflows()])
        self.assertEqual(self.client.cancel_step(id, "b")["state"], "cancelled")
        self.assertEqual(self.client.retry_step(id, "b")["state"], "pending")
        self.assertEqual(self.client.skip_step(id, "c")["state"], "skipped")
        self.assertIn("<svg", self.client.graph(id))
        self.assertIn("flowchart", self.client.graph(id, format="mermaid"))
        again = self.client.rerun_workflow(id, "b")
        record = self.client.workflow(again["id"], steps=1)
        self.assertEqual((record["origin_id"], len(record["steps"]), record["steps_left_out"]), (id, 1, 2))
        self.assertEqual(self.client.resolve_workflow(again["id"])["state"], "resolved_manually")
        self.assertEqual(self.client.cancel_workflow(id, reason="over")["state"], "cancelled")
        self.assertEqual(self.client.wait_for_workflow(id, timeout=5)["state"], "cancelled")
        with self.assertRaises(Conflict):
            self.client.give_up_workflow(id)
        listed = [one["id"] for one in self.client.workflows(definition="drawn", limit=1)]
        self.assertEqual(listed, [again["id"], id])
        with self.assertRaises(NotFound):
            self.client.skip_step(id, "z")
        with self.assertRaisesRegex(ValueError, "'svg' or 'mermaid'"):
            self.client.graph(id, format="png")

    def test_a_wait_for_a_workflow_ends_in_time(self) -> None:
        id = self.client.start(steps={"a": {"task": "never"}})["id"]
        with self.assertRaises(WaitTimeout):
            self.client.wait_for_workflow(id, timeout=0.1)

    def test_queues_schedules_and_entities_are_kept(self) -> None:
        self.assertTrue(self.client.pause_queue("storm", reason="wind")["paused"])
        self.assertIn(("storm", True), [(queue["queue"], queue["paused"]) for queue in self.client.queues()])
        self.assertFalse(self.client.resume_queue("storm")["paused"])
        task: windlass.NewTask = {"kind": "report", "payload": {"all": True}}
        made = self.client.set_schedule("nightly", "0 3 * * *", task, zone="Europe/Berlin", overlap="skip")
        self.assertEqual((made["zone"], made["task"]["payload"]), ("Europe/Berlin", {"all": True}))
        self.assertTrue(self.client.pause_schedule("nightly")["paused"])
        self.assertFalse(self.client.resume_schedule("nightly")["paused"])
        self.assertEqual(self.client.task(self.client.run_schedule("nightly")["id"])["kind"], "report")
        self.assertEqual(self.client.schedule("nightly")["cron"], "0 3 * * *")
        self.assertIn("nightly", [one["name"] for one in self.client.schedules()])
        self.assertTrue(self.client.remove_schedule("nightly")["removed"])
        with self.assertRaises(InvalidInput):
            self.client.submit("x", entity="user:1", require_entity=True)
        self.assertTrue(self.client.register_entity("user:1")["changed"])
        self.assertTrue(self.client.entity("user:1")["registered"])
        self.client.submit("x", entity="user:1", require_entity=True)
        self.assertFalse(self.client.forget_entity("user:1")["registered"])

    def test_numbers_and_health_are_told(self) -> None:
        self.client.submit("counted")
        self.assertGreaterEqual(self.client.stats()["states"]["pending"], 1)
        self.assertEqual(self.client.stats(namespace="nobody")["tasks"], 0)
        self.assertGreaterEqual(self.client.analytics()["total_workflows"], 0)
        for told in (self.client.slowest_steps(limit=1), self.client.slowest_workflows(each=True)):
            self.assertIsInstance(told, list)
        self.assertEqual(self.client.stale_workflows(), [])
        self.assertEqual(self.client.health()["status"], "healthy")
        self.assertEqual(self.client.ready()["status"], "ready")
        self.assertTrue(any(worker["leader"] for worker in self.client.workers()))

    def test_what_is_asked_for_is_quoted(self) -> None:
        with self.assertRaises(InvalidInput) as refused:
            self.client.task("a/b?c#d e")
        self.assertIn("a/b?c#d e", refused.exception.detail)

    def test_one_client_serves_many_threads(self) -> None:
        ids: List[str] = []

        def submit(number: int) -> None:
            for _ in range(20):
                ids.append(self.client.submit("threads", number)["id"])

        threads = [threading.Thread(target=submit, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(ids)), 160)
        self.assertEqual({task["id"] for task in self.client.tasks(kind="threads")}, set(ids))


if __name__ == "__main__":
    unittest.main()
