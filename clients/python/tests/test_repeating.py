"""Answers that are lost: what is safe is sent again and happens once; what is not, is not."""

from __future__ import annotations

import asyncio
import unittest

from kit import Proxy, Server
from windlass import AsyncClient, Client, Disconnected


class LostAnswers(unittest.TestCase):
    server: Server
    proxy: Proxy
    client: Client
    direct: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.proxy = Proxy(cls.server)
        cls.client = Client(cls.proxy.url)
        cls.direct = cls.server.client()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.proxy.close()
        cls.server.close()

    def count(self, kind: str) -> int:
        return len(list(self.direct.tasks(kind=kind)))

    def test_a_task_is_submitted_once_and_counts_as_created(self) -> None:
        self.proxy.lose_answers("POST /v1/tasks ", 2)
        submitted = self.client.submit("once", {"a": 1})
        self.assertTrue(submitted["created"])
        self.assertEqual((self.count("once"), self.direct.task(submitted["id"])["payload"]), (1, {"a": 1}))

    def test_a_key_that_must_be_new_is_not_in_its_own_way(self) -> None:
        self.proxy.lose_answers("POST /v1/tasks ", 1)
        submitted = self.client.submit("new", idempotency_key="k", on_conflict="reject")
        self.assertEqual((submitted["created"], submitted["state"]), (True, "pending"))
        self.assertEqual(self.count("new"), 1)

    def test_a_batch_is_submitted_once(self) -> None:
        self.proxy.lose_answers("POST /v1/tasks/batch ", 1)
        answers = self.client.submit_many([{"kind": "batch", "payload": n} for n in range(10)])
        self.assertTrue(all(answer["created"] for answer in answers))
        self.assertEqual(self.count("batch"), 10)

    def test_a_workflow_is_started_once(self) -> None:
        self.proxy.lose_answers("POST /v1/workflows ", 1)
        started = self.client.start("lost-flow", steps={"a": {"task": "step"}})
        self.assertTrue(started["created"])
        self.assertEqual([one["id"] for one in self.direct.workflows(definition="lost-flow")], [started["id"]])

    def test_a_workflow_whose_key_must_be_new_is_not_in_its_own_way(self) -> None:
        self.proxy.lose_answers("POST /v1/workflows ", 1)
        steps = {"a": {"task": "step"}}
        started = self.client.start("keyed-flow", steps=steps, idempotency_key="k", on_conflict="reject")
        self.assertTrue(started["created"])

    def test_what_is_not_safe_is_not_sent_again(self) -> None:
        self.direct.set_schedule("lost", "0 3 * * *", {"kind": "scheduled"})
        self.proxy.lose_answers("POST /v1/schedules/lost/run ", 1)
        with self.assertRaises(Disconnected) as lost:
            self.client.run_schedule("lost")
        self.assertTrue(lost.exception.sent)
        self.assertEqual(self.count("scheduled"), 1)

    def test_asynchronous_calls_are_repeated_alike(self) -> None:
        async def submit() -> bool:
            async with AsyncClient(self.proxy.url) as client:
                self.proxy.lose_answers("POST /v1/tasks ", 2)
                one = await client.submit("async-once", idempotency_key="k", on_conflict="reject")
                self.proxy.lose_answers("POST /v1/workflows ", 1)
                two = await client.start("async-flow", steps={"a": {"task": "step"}})
                return one["created"] and two["created"]

        self.assertTrue(asyncio.run(submit()))
        self.assertEqual(self.count("async-once"), 1)


class Restarts(unittest.TestCase):
    def test_a_call_outlives_a_restart_of_the_server(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client = server.client()
        first = client.submit("x")["id"]
        server.kill()
        server.start()
        # The connection that was kept is dead, and nothing is said about it.
        self.assertEqual(client.task(first)["state"], "pending")
        self.assertFalse(client.retry(first)["changed"])


if __name__ == "__main__":
    unittest.main()
