"""Servers that die, forget, and do not answer: nothing is lost, and nothing is finished twice."""

from __future__ import annotations

import collections
import threading
import time
import unittest
from typing import Any, Counter, Dict, List

from kit import DEADLINE, Proxy, Server, until
from windlass import Client, Context, Worker
from windlass.types import TaskRecord


def worker_of(client: Client, handlers: Dict[str, Any], **options: Any) -> Worker:
    worker = Worker(client, **options)
    for kind, handler in handlers.items():
        worker.handle(kind, handler)
    worker.start()
    return worker


class Kills(unittest.TestCase):
    def test_a_worker_survives_kills_of_the_server_under_load(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client, ended = server.client(tries=20), collections.Counter()  # type: Client, Counter[str]
        lock = threading.Lock()

        def handle(payload: int, context: Context) -> int:
            # Some are quick, some are at work when the server dies.
            context.cancelled.wait((payload % 7) * 0.01)
            with lock:
                ended[context.id] += 1
            return payload

        async def later(payload: int, context: Context) -> int:
            with lock:
                ended[context.id] += 1
            return payload

        worker = worker_of(client, {"k-plain": handle, "k-async": later}, pool=8)
        ids: List[str] = []
        for round in range(6):
            for start in range(0, 60, 20):
                tasks = [{"kind": ("k-plain", "k-async")[n % 2], "payload": n} for n in range(start, start + 20)]
                ids += [one["id"] for one in client.submit_many(tasks)]  # type: ignore[arg-type]
            before = sum(ended.values())
            until(lambda: sum(ended.values()) > before)
            server.kill()
            server.start()
        records = [client.wait(id, timeout=DEADLINE) for id in ids]
        worker.stop()
        self.assertEqual(len(set(ids)), 360)
        for record in records:
            self.check(record)
        self.assertEqual(set(ended), set(ids), "every task was run")
        # A handler may run again only if its claim was given back or lost, which the history knows.
        for record in records:
            claims = sum(entry["to"] == "claimed" for entry in record["history"])
            self.assertLessEqual(ended[record["id"]], claims)

    def check(self, record: TaskRecord) -> None:
        self.assertEqual(record["state"], "completed")
        ends = [entry for entry in record["history"] if entry["to"] == "completed"]
        self.assertEqual(len(ends), 1, "finished once")
        self.assertEqual([entry["seq"] for entry in record["history"]], list(range(1, len(record["history"]) + 1)))

    def test_handlers_go_on_while_the_server_is_away_and_report_afterwards(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client, go_on, begun = server.client(), threading.Event(), threading.Semaphore(0)

        def handle(payload: int, context: Context) -> int:
            begun.release()
            go_on.wait(DEADLINE)
            context.log("done")
            return payload

        worker = worker_of(client, {"k-away": handle}, pool=4)
        ids = [one["id"] for one in client.submit_many([{"kind": "k-away", "payload": n} for n in range(4)])]
        for _ in ids:
            begun.acquire(timeout=DEADLINE)
        server.kill()
        go_on.set()
        server.start()
        records = [client.wait(id, timeout=DEADLINE) for id in ids]
        worker.stop()
        self.assertEqual(
            [(one["result"], one["attempt"], one["lease"]) for one in records], [(n, 1, 1) for n in range(4)]
        )
        self.assertEqual(client.log(ids[0])["attempts"][0]["lines"][0]["text"], "done")


class Forgetting(unittest.TestCase):
    def test_a_worker_that_was_forgotten_registers_again_under_its_old_id(self) -> None:
        server = Server(store="memory")
        self.addCleanup(server.close)
        client, stopped = server.client(), threading.Event()

        def handle(payload: Any, context: Context) -> None:
            context.cancelled.wait(DEADLINE)
            if context.reason == "the lease was lost":
                stopped.set()

        worker = worker_of(client, {"f-wait": handle, "f-echo": lambda payload: payload}, pool=2)
        lost = client.submit("f-wait")["id"]
        until(lambda: client.task(lost)["state"] == "running")
        id = worker.id
        server.kill()
        server.start()
        task = client.wait(client.submit("f-echo", 5)["id"], timeout=DEADLINE)
        self.assertEqual((task["result"], task["worker_id"], worker.id), (5, id, id))
        self.assertTrue(stopped.wait(DEADLINE), "the handler of a task that is gone is told")
        worker.stop()

    def test_a_worker_that_was_deregistered_by_others_goes_on(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client, go_on = server.client(), threading.Event()

        def handle(payload: Any) -> str:
            go_on.wait(DEADLINE)
            return "done"

        worker = worker_of(client, {"f-held": handle, "f-new": lambda payload: payload})
        held, id = client.submit("f-held")["id"], worker.id
        until(lambda: client.task(held)["state"] == "running")
        assert id is not None
        client.deregister(id)
        task = client.wait(client.submit("f-new", 1)["id"], timeout=DEADLINE)
        self.assertEqual((task["result"], task["worker_id"]), (1, id))
        go_on.set()
        # Whether it came back in time to keep its lease or not: the task is finished once.
        over = client.wait(held, timeout=DEADLINE)
        self.assertEqual((over["result"], sum(entry["to"] == "completed" for entry in over["history"])), ("done", 1))
        worker.stop()


class LostAnswers(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.direct = self.server.client()
        self.proxy = Proxy(self.server)
        self.addCleanup(self.proxy.close)
        self.client = Client(self.proxy.url)
        self.addCleanup(self.client.close)

    def test_claims_whose_answer_is_lost_are_given_back_at_once(self) -> None:
        ids = [one["id"] for one in self.direct.submit_many([{"kind": "l-claim", "payload": n} for n in range(10)])]
        self.proxy.lose_answers("/claim ", 3)
        begun = time.monotonic()
        worker = worker_of(self.client, {"l-claim": lambda payload: payload}, pool=4)
        records = [self.direct.wait(id, timeout=DEADLINE) for id in ids]
        self.assertEqual([(one["result"], one["attempt"]) for one in records], [(n, 1) for n in range(10)])
        self.assertGreater(max(one["lease"] for one in records), 1, "claims were lost")
        self.assertEqual(self.proxy.lost, 3)
        self.assertLess(time.monotonic() - begun, 15, "leases would expire after 30 seconds")
        worker.stop()

    def test_reports_whose_answer_is_lost_are_told_again_and_count_once(self) -> None:
        self.proxy.lose_answers("/finish ", 2)
        self.proxy.lose_answers("/report ", 2)

        def handle(payload: int, context: Context) -> int:
            context.log(f"line {payload}")
            return payload

        worker = worker_of(self.client, {"l-finish": handle}, pool=4)
        ids = [one["id"] for one in self.direct.submit_many([{"kind": "l-finish", "payload": n} for n in range(20)])]
        records = [self.direct.wait(id, timeout=DEADLINE) for id in ids]
        worker.stop()
        # How many requests there were depends on how many ended together.
        self.assertGreaterEqual(self.proxy.lost, 3)
        for number, record in enumerate(records):
            self.assertEqual((record["state"], record["result"], record["attempt"]), ("completed", number, 1))
            self.assertEqual(sum(entry["to"] == "completed" for entry in record["history"]), 1)
            self.assertEqual(len(self.direct.log(record["id"])["attempts"][0]["lines"]), 1)

    def test_a_flood_of_lost_answers_loses_nothing(self) -> None:
        for request in ("/claim ", "/finish ", "/heartbeat ", "POST /v1/tasks"):
            self.proxy.lose_answers(request, 3)
        worker = worker_of(self.client, {"l-flood": lambda payload: payload}, pool=4)
        ids = [self.client.submit("l-flood", n)["id"] for n in range(40)]
        records = [self.direct.wait(id, timeout=DEADLINE) for id in ids]
        worker.stop()
        self.assertEqual([(one["result"], one["state"]) for one in records], [(n, "completed") for n in range(40)])
        self.assertEqual(len(list(self.direct.tasks(kind="l-flood"))), 40)


if __name__ == "__main__":
    unittest.main()
