"""The client for asyncio: the same calls, waits that hinder nobody, and clean cancellation."""

from __future__ import annotations

import asyncio
import inspect
import time
import unittest
import urllib.request
from typing import List

from kit import DEADLINE, Server, windlass
from windlass import AsyncClient, Client, Disconnected, Event, NotFound, WaitTimeout


class Asyncio(unittest.IsolatedAsyncioTestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    async def asyncSetUp(self) -> None:
        self.client = AsyncClient(self.server.url)

    async def asyncTearDown(self) -> None:
        await self.client.close()

    def waiting(self) -> int:
        """How many claims wait at the server."""
        with urllib.request.urlopen(f"{self.server.url}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("windlass_http_waiting_claims "):
                    return int(float(line.split()[1]))
        return 0

    async def until_waiting(self, many: int) -> None:
        ends_at = time.monotonic() + DEADLINE
        while await asyncio.get_running_loop().run_in_executor(None, self.waiting) != many:
            self.assertLess(time.monotonic(), ends_at)
            await asyncio.sleep(0.005)

    async def test_tasks_and_workflows_go_their_way(self) -> None:
        submitted = await self.client.submit("a-x", {"n": 1}, tags=["t"])
        self.assertTrue(submitted["created"])
        self.assertEqual((await self.client.task(submitted["id"]))["payload"], {"n": 1})
        many = await self.client.submit_many([{"kind": "a-many"} for _ in range(7)])
        listed = [task["id"] async for task in self.client.tasks(kind="a-many", limit=3)]
        self.assertEqual(listed, [one["id"] for one in many][::-1])
        with self.assertRaises(NotFound):
            await self.client.task("01900000-0000-7000-8000-000000000000")
        with self.assertRaises(WaitTimeout):
            await self.client.wait(submitted["id"], timeout=0.05)
        await self.client.cancel(submitted["id"])
        self.assertEqual((await self.client.wait(submitted["id"], timeout=5))["state"], "cancelled")
        flow = await self.client.start("a-flow", steps={"a": {"task": "a-step"}})
        await self.client.resolve_step(flow["id"], "a", result=5)
        over = await self.client.wait_for_workflow(flow["id"], timeout=5)
        self.assertEqual((over["state"], over["output"]), ("complete", {"a": 5}))
        self.assertEqual([one["id"] async for one in self.client.workflows(definition="a-flow")], [flow["id"]])
        self.assertIn("<svg", await self.client.graph(flow["id"]))

    async def test_waits_do_not_hinder_short_calls_and_end_cleanly_when_cancelled(self) -> None:
        worker = (await self.client.register(["a-none"]))["worker_id"]
        waits = [asyncio.ensure_future(self.client.claim(worker, wait_seconds=60)) for _ in range(200)]
        await self.until_waiting(200)
        begun = time.monotonic()
        await asyncio.gather(*(self.client.submit("a-short") for _ in range(50)))
        self.assertLess(time.monotonic() - begun, 5)
        for wait in waits:
            wait.cancel()
        ended = await asyncio.gather(*waits, return_exceptions=True)
        self.assertTrue(all(isinstance(one, asyncio.CancelledError) for one in ended))
        # The server knows that nobody waits any more.
        await self.until_waiting(0)
        await self.client.deregister(worker)

    async def test_events_go_on_after_a_restart(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        direct = server.client()
        async with AsyncClient(server.url) as client:
            events = client.events(state="pending")
            first = asyncio.ensure_future(events.__anext__())
            loop, ids, heard = (
                asyncio.get_running_loop(),
                [],
                [],
            )  # type: asyncio.AbstractEventLoop, List[str], List[Event]
            while not first.done():
                # It is connected when the first event is asked for, so some of these come too early.
                ids.append(await loop.run_in_executor(None, lambda: direct.submit("x")["id"]))
                await asyncio.sleep(0.01)
            heard.append(await first)
            ids = ids[ids.index(heard[0].data["id"]) :]
            await loop.run_in_executor(None, server.kill)
            await loop.run_in_executor(None, server.start)
            ids += [await loop.run_in_executor(None, lambda: direct.submit("x")["id"]) for _ in range(3)]
            while len(heard) < len(ids):
                heard.append(await asyncio.wait_for(events.__anext__(), DEADLINE))
            self.assertEqual([event.data["id"] for event in heard], ids)
            await events.aclose()

    async def test_nobody_there_is_told(self) -> None:
        server = Server(store="memory")
        server.kill()
        self.addCleanup(server.close)
        async with AsyncClient(server.url, tries=2) as client:
            with self.assertRaises(Disconnected) as refused:
                await client.stats()
            self.assertFalse(refused.exception.sent)


class Likeness(unittest.TestCase):
    def test_both_clients_have_the_same_methods(self) -> None:
        def names(of: type) -> List[str]:
            return sorted(name for name in dir(of) if not name.startswith("_"))

        self.assertEqual(names(Client), names(AsyncClient))
        for name in ("submit", "start", "claim", "set_schedule"):
            one, other = getattr(Client, name), getattr(AsyncClient, name)
            self.assertEqual(
                str(inspect.signature(one)).replace("Client", ""), str(inspect.signature(other)).replace("Client", "")
            )
            self.assertTrue(one.__doc__ and one.__doc__ == other.__doc__)
            self.assertTrue(inspect.iscoroutinefunction(other))
        self.assertIn("kind", inspect.signature(windlass.Client("http://127.0.0.1:1").submit).parameters)


if __name__ == "__main__":
    unittest.main()
