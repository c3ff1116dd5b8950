"""The worker against a real server: how tasks end, what handlers know and tell, and how it stops."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
import unittest
from typing import Any, Dict, List
from unittest import mock

from kit import DEADLINE, Server, until
from windlass import Cancel, Client, Context, Fail, Retry, Snooze, Worker
from windlass.types import TaskRecord


class WithServer(unittest.TestCase):
    server: Server
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.client = cls.server.client()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def worker(self, handlers: Dict[str, Any], **options: Any) -> Worker:
        """A worker that runs until the end of the test."""
        worker = Worker(self.client, **options)
        for kind, handler in handlers.items():
            worker.handle(kind, handler)
        worker.start()
        self.addCleanup(worker.stop, grace=0.0)
        return worker

    def done(self, kind: str, payload: Any = None, **more: Any) -> TaskRecord:
        """Submits a task and waits for its end."""
        return self.client.wait(self.client.submit(kind, payload, **more)["id"], timeout=DEADLINE)


class Ends(WithServer):
    def test_what_a_handler_returns_is_the_result(self) -> None:
        @dataclasses.dataclass
        class Point:
            x: int

        self.worker({"e-echo": lambda payload: payload, "e-point": lambda payload, context: Point(payload)})
        self.assertEqual(self.done("e-echo", {"a": [1, None, "ü"]})["result"], {"a": [1, None, "ü"]})
        self.assertEqual(self.done("e-point", 3)["result"], {"x": 3})

    def test_what_a_handler_raises_says_how_it_ends(self) -> None:
        def handle(payload: str, context: Context) -> Any:
            errors: Dict[str, Exception] = {
                "fail": Fail("no way"),
                "retry": Retry("later", delay=3600),
                "snooze": Snooze(3600),
                "cancel": Cancel("pointless"),
                "plain": ValueError("odd"),
            }
            raise errors[payload]

        self.worker({"e-raise": handle})
        for payload, state, error in (
            ("fail", "failed", "no way"),
            ("retry", "waiting_for_retry", "later"),
            ("snooze", "scheduled", None),
            ("cancel", "cancelled", None),
            ("plain", "waiting_for_retry", "ValueError: odd"),
        ):
            id = self.client.submit("e-raise", payload, retry={"backoff": "fixed", "base_seconds": 60})["id"]
            until(lambda: self.client.task(id)["state"] == state)
            task = self.client.task(id)
            self.assertEqual((task["error"], task["attempt"]), (error, 0 if payload == "snooze" else 1), payload)
            self.assertIsNotNone(task["history"][1]["at"])

    def test_failures_are_tried_again_as_the_server_decides(self) -> None:
        def handle(payload: Any, context: Context) -> str:
            if context.attempt < 3:
                raise OSError(f"attempt {context.attempt} of {context.max_attempts}")
            return f"attempt {context.attempt}"

        self.worker({"e-thrice": handle})
        task = self.done("e-thrice", retry={"backoff": "none"})
        self.assertEqual((task["state"], task["result"], len(task["attempts"])), ("completed", "attempt 3", 3))
        dead = self.done("e-thrice", retry={"backoff": "none"}, max_attempts=2)
        self.assertEqual((dead["state"], dead["error"]), ("dead_letter", "OSError: attempt 2 of 2"))

    def test_a_result_that_is_not_json_fails_for_good(self) -> None:
        self.worker({"e-set": lambda payload: {1, 2}, "e-nan": lambda payload: float("nan")})
        task = self.done("e-set")
        self.assertEqual((task["state"], task["attempt"]), ("failed", 1))
        self.assertIn("a value of type set is not JSON", task["error"] or "")
        self.assertIn("not JSON", self.done("e-nan")["error"] or "")

    def test_a_result_that_the_server_does_not_take_hinders_no_other(self) -> None:
        gate = threading.Barrier(4)

        def handle(payload: int) -> str:
            # All end together, so that they are reported together.
            gate.wait(DEADLINE)
            return "x" * payload

        self.worker({"e-large": handle}, pool=4)
        answers = self.client.submit_many([{"kind": "e-large", "payload": size} for size in (1, 2_000_000, 3, 4)])
        tasks = [self.client.wait(answer["id"], timeout=DEADLINE) for answer in answers]
        self.assertEqual([task["state"] for task in tasks], ["completed", "failed", "completed", "completed"])
        self.assertIn("the outcome could not be kept", tasks[1]["error"] or "")
        self.assertTrue(all(task["attempt"] == 1 for task in tasks))

    def test_a_typed_payload_is_made_or_refused(self) -> None:
        @dataclasses.dataclass
        class Mail:
            to: str
            copies: int = 1

        # Annotations are looked up where the function is made, not here.
        def handle(mail: Any) -> str:
            assert isinstance(mail, Mail)
            return f"{mail.copies} to {mail.to}"

        handle.__annotations__["mail"] = Mail
        self.worker({"e-mail": handle})
        self.assertEqual(self.done("e-mail", {"to": "ada"})["result"], "1 to ada")
        self.assertEqual(self.done("e-mail", Mail("bob", 2))["result"], "2 to bob")
        wrong = self.done("e-mail", {"too": "ada"})
        self.assertEqual((wrong["state"], wrong["attempt"], wrong["error"]), ("failed", 1, "the payload lacks to"))

    def test_an_end_is_reported_at_once_while_a_claim_waits(self) -> None:
        self.worker({"e-quick": lambda payload: None}, pool=4)
        begun = time.monotonic()
        for _ in range(5):
            self.done("e-quick")
        self.assertLess(time.monotonic() - begun, 5)

    def test_many_are_done_once_each_in_plain_and_async_handlers(self) -> None:
        ran: List[str] = []

        def plain(payload: int, context: Context) -> int:
            ran.append(context.id)
            return payload

        async def later(payload: int, context: Context) -> int:
            await asyncio.sleep(0)
            ran.append(context.id)
            return payload

        self.worker({"e-plain": plain, "e-async": later}, pool=16)
        kinds = ["e-plain", "e-async"]
        ids = [
            one["id"]
            for start in range(0, 400, 100)
            for one in self.client.submit_many(
                [{"kind": kinds[n % 2], "payload": n} for n in range(start, start + 100)]
            )
        ]
        until(lambda: len(ran) >= 400)
        for number, id in enumerate(ids):
            self.assertEqual(self.client.wait(id, timeout=DEADLINE)["result"], number)
        self.assertEqual(sorted(ran), sorted(ids))


class Contexts(WithServer):
    def test_a_handler_knows_its_task(self) -> None:
        seen: List[Context] = []
        worker = self.worker({"c-seen": lambda payload, context: seen.append(context)}, queues=["c-queue"])
        task = self.done("c-seen", 5, queue="c-queue", entity="user:7", tags=["t"], timeout_seconds=60, max_attempts=None)
        context = seen[0]
        self.assertEqual(
            (context.id, context.kind, context.queue, context.payload), (task["id"], "c-seen", "c-queue", 5)
        )
        self.assertEqual((context.attempt, context.max_attempts, context.lease), (1, None, 1))
        self.assertEqual((context.entity, context.tags, context.worker_id), ("user:7", ["t"], worker.id))
        self.assertEqual(
            (context.workflow_id, context.step, context.results, context.checkpoint), (None, None, {}, None)
        )
        self.assertTrue(context.deadline and 50 < (context.time_left() or 0) <= 60)
        self.assertFalse(context.cancelled.is_set())
        context.raise_if_cancelled()

    def test_a_step_knows_what_came_before(self) -> None:
        seen: List[Context] = []

        def handle(payload: Any, context: Context) -> Any:
            seen.append(context)
            return {"doubled": payload["n"] * 2}

        self.worker({"c-step": handle})
        steps = {
            "a": {"task": "c-step", "input": {"n": 2}},
            "b": {"task": "c-step", "needs": "a", "input": {"n": "${a.doubled}"}},
        }
        flow = self.client.wait_for_workflow(self.client.start(steps=steps)["id"], timeout=DEADLINE)
        self.assertEqual(flow["output"], {"b": {"doubled": 8}})
        self.assertEqual((seen[1].step, seen[1].workflow_id, seen[1].results), ("b", flow["id"], {"a": {"doubled": 4}}))

    def test_a_step_can_ask_what_came_long_before(self) -> None:
        def first(payload: Any, context: Context) -> Any:
            return {"ancestors": len(context.ancestors())}

        async def last(payload: Any, context: Context) -> Any:
            ancestors = await asyncio.to_thread(context.ancestors)
            return [[one["step"], one["distance"], one["result"]] for one in ancestors]

        self.worker({"c-first": first, "c-last": last})
        steps = {
            "a": {"task": "c-first"},
            "b": {"task": "c-first", "needs": "a"},
            "c": {"task": "c-last", "needs": "b", "map": {"over": [1]}},
        }
        flow = self.client.wait_for_workflow(self.client.start(steps=steps)["id"], timeout=DEADLINE)
        before = [["b", 1, {"ancestors": 1}], ["a", 2, {"ancestors": 0}]]
        self.assertEqual(flow["output"], {"c": [before]})
        lone = self.client.submit("c-first")["id"]
        self.assertEqual(self.client.wait(lone, timeout=DEADLINE)["result"], {"ancestors": 0})

    def test_what_a_handler_tells_is_kept(self) -> None:
        go_on = threading.Event()

        def handle(payload: Any, context: Context) -> Any:
            if context.attempt == 2:
                return context.checkpoint
            context.progress(3, 10, "loading")
            context.log("one\ntwo")
            context.save_checkpoint({"at": 3})
            go_on.wait(DEADLINE)
            context.log("three")
            raise RuntimeError("again")

        # With one place no claim waits when the handler ends: its end goes along with the next, after its notes.
        self.worker({"c-tell": handle}, pool=1)
        id = self.client.submit("c-tell", retry={"backoff": "none"})["id"]
        until(lambda: [attempt for attempt in self.client.task(id)["attempts"] if attempt["progress"]])
        progress = self.client.task(id)["attempts"][0]["progress"]
        self.assertEqual(progress, {"done": 3, "total": 10, "note": "loading"})
        go_on.set()
        self.assertEqual(self.client.wait(id, timeout=DEADLINE)["result"], {"at": 3})
        lines = self.client.log(id)["attempts"][0]["lines"]
        self.assertEqual([line["text"] for line in lines], ["one", "two", "three"])


class Interruptions(WithServer):
    def test_a_cancel_is_heard_at_once(self) -> None:
        heard: Dict[str, float] = {}

        begun = threading.Semaphore(0)

        def plain(payload: Any, context: Context) -> None:
            begun.release()
            context.cancelled.wait(DEADLINE)
            heard["plain"] = time.monotonic()
            context.raise_if_cancelled()

        async def later(payload: Any, context: Context) -> None:
            begun.release()
            try:
                await asyncio.sleep(DEADLINE)
            finally:
                heard["async"] = time.monotonic()

        self.worker({"i-plain": plain, "i-async": later})
        for name in ("plain", "async"):
            id = self.client.submit(f"i-{name}")["id"]
            # No heartbeat has named it yet.
            self.assertTrue(begun.acquire(timeout=DEADLINE))
            asked = time.monotonic()
            self.client.cancel(id, reason="enough")
            until(lambda: name in heard)
            self.assertLess(heard[name] - asked, 3, "the heartbeat would be ten seconds away")
            task = self.client.task(id)
            self.assertEqual((task["state"], task["history"][-1]["note"]), ("cancelled", "enough"))

    def test_an_attempt_that_takes_too_long_is_ended(self) -> None:
        async def later(payload: Any) -> None:
            await asyncio.sleep(DEADLINE)

        def plain(payload: Any, context: Context) -> str:
            context.cancelled.wait(DEADLINE)
            return "too late"

        self.worker({"i-late-plain": plain, "i-late-async": later})
        for kind in ("i-late-plain", "i-late-async"):
            task = self.done(kind, timeout_seconds=0.2, max_attempts=1)
            self.assertEqual((task["state"], task["error"]), ("dead_letter", "timed out after 0.2 s"))

    def test_a_handler_that_does_not_listen_is_given_up_and_its_place_stays_taken(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)

        def stubborn(payload: Any) -> str:
            release.wait(DEADLINE)
            return "much too late"

        with mock.patch("windlass.worker.worker.PATIENCE", 0.2):
            self.worker({"i-stubborn": stubborn, "i-other": lambda payload: 1}, pool=1)
            task = self.done("i-stubborn", timeout_seconds=0.2, max_attempts=1)
            self.assertEqual((task["state"], task["error"]), ("dead_letter", "timed out after 0.2 s"))
            id = self.client.submit("i-other")["id"]
            self.assertEqual(self.client.task(id)["state"], "pending")
            release.set()
            self.assertEqual(self.client.wait(id, timeout=DEADLINE)["state"], "completed")
            self.assertEqual(self.client.task(task["id"])["error"], "timed out after 0.2 s")

    def test_handlers_that_block_keep_their_leases(self) -> None:
        def busy(payload: float) -> str:
            ends_at = time.monotonic() + payload
            while time.monotonic() < ends_at:
                sum(range(1000))
            return "busy"

        async def blocking(payload: float) -> str:
            # The event loop is blocked; the heartbeat does not depend on it.
            time.sleep(payload)
            return "blocked"

        # Silent for one second, the worker would lose its tasks to the other.
        self.worker({"i-busy": busy, "i-block": blocking}, dead_after=1.0)
        ids = [self.client.submit(kind, 3.0)["id"] for kind in ("i-busy", "i-busy", "i-block")]
        until(lambda: all(self.client.task(id)["attempt"] == 1 for id in ids))
        self.worker({"i-busy": lambda payload: "stolen", "i-block": lambda payload: "stolen"})
        tasks = [self.client.wait(id, timeout=DEADLINE) for id in ids]
        self.assertEqual(
            [(task["result"], task["attempt"]) for task in tasks], [("busy", 1), ("busy", 1), ("blocked", 1)]
        )


class Stopping(WithServer):
    def test_handlers_may_finish_within_the_grace_and_then_are_told(self) -> None:
        finish, running = threading.Event(), threading.Semaphore(0)

        def good(payload: Any) -> str:
            running.release()
            finish.wait(DEADLINE)
            return "finished"

        def told(payload: Any, context: Context) -> None:
            running.release()
            context.cancelled.wait(DEADLINE)
            finish.set()
            context.raise_if_cancelled()

        worker = self.worker({"s-good": good, "s-told": told})
        ids = [self.client.submit(kind)["id"] for kind in ("s-good", "s-told")]
        for _ in ids:
            running.acquire(timeout=DEADLINE)
        id = worker.id
        worker.stop(grace=0.1)
        tasks = [self.client.task(one) for one in ids]
        self.assertEqual([task["state"] for task in tasks], ["completed", "pending"])
        self.assertEqual(tasks[1]["attempt"], 0, "to be interrupted costs no attempt")
        self.assertNotIn(id, [one["worker_id"] for one in self.client.workers()])
        self.assertIsNone(worker.id)
        for one in ids[1:]:
            self.client.cancel(one)

    def test_what_does_not_end_is_given_back(self) -> None:
        release, running = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def stubborn(payload: Any) -> str:
            running.set()
            release.wait(DEADLINE)
            return "too late"

        worker = self.worker({"s-stubborn": stubborn})
        id = self.client.submit("s-stubborn")["id"]
        running.wait(DEADLINE)
        with mock.patch("windlass.worker.worker.PATIENCE", 0.2):
            worker.stop(grace=0.0)
        task = self.client.task(id)
        self.assertEqual(
            (task["state"], task["attempt"], task["history"][-1]["note"]), ("pending", 0, "the worker stops")
        )
        self.client.cancel(id)

    def test_a_worker_that_waits_for_work_stops_at_once_and_can_start_again(self) -> None:
        worker = self.worker({"s-again": lambda payload: payload})
        self.assertEqual(self.done("s-again", 1)["result"], 1)
        first, begun = worker.id, time.monotonic()
        worker.stop()
        self.assertLess(time.monotonic() - begun, 5)
        worker.stop()
        with worker:
            self.assertNotEqual(worker.id, first)
            self.assertEqual(self.done("s-again", 2)["result"], 2)

    def test_a_worker_starts_when_the_server_comes(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        server.kill()
        client = server.client()
        worker = Worker(client)
        worker.handle("s-early", lambda payload: payload)
        starting = threading.Thread(target=worker.start)
        starting.start()
        server.start()
        starting.join(DEADLINE)
        self.assertFalse(starting.is_alive())
        self.assertEqual(client.wait(client.submit("s-early", 1)["id"], timeout=DEADLINE)["result"], 1)
        worker.stop()

    def test_mistakes_are_told(self) -> None:
        worker = Worker(self.client)
        with self.assertRaisesRegex(RuntimeError, "no handlers"):
            worker.start()
        worker.handle("s-x", lambda payload: payload)
        with self.assertRaisesRegex(ValueError, "a handler of 's-x' already"):
            worker.handle("s-x", lambda payload: payload)
        with worker:
            with self.assertRaisesRegex(RuntimeError, "before it is started"):
                worker.handle("s-y", lambda payload: payload)
            with self.assertRaisesRegex(RuntimeError, "runs already"):
                worker.start()
        with self.assertRaisesRegex(ValueError, "1 to 10000"):
            Worker(self.client, pool=0)
        bad = Worker(self.client)
        bad.handle("a b", lambda payload: payload)
        with self.assertRaisesRegex(Exception, "invalid_task"):
            bad.start()


if __name__ == "__main__":
    unittest.main()
