"""The stream of changes: filtered, resumed without gaps and repeats, ended from elsewhere."""

from __future__ import annotations

import threading
import unittest
from typing import List

from kit import DEADLINE, Server
from windlass import Event, EventStream, InvalidInput, Unavailable


class Reading(threading.Thread):
    """Reads a stream until it is closed."""

    def __init__(self, events: EventStream) -> None:
        super().__init__(daemon=True)
        self._events = events
        self.heard: List[Event] = []
        self._changed = threading.Condition()
        self.start()

    def run(self) -> None:
        for event in self._events:
            with self._changed:
                self.heard.append(event)
                self._changed.notify_all()

    def wait_for(self, many: int) -> List[str]:
        """The tasks of the first events, once there are so many."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.heard) >= many, DEADLINE):
                raise AssertionError(f"{len(self.heard)} of {many} events were heard")
            return [event.data["id"] for event in self.heard]


class Streams(unittest.TestCase):
    def test_changes_are_told_as_they_happen(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client = server.client()
        with client.events() as everything, client.events(kind="b", state=["cancelled", "failed"]) as some:
            first, second = client.submit("a")["id"], client.submit("b")["id"]
            client.cancel(second)
            told = [next(everything) for _ in range(3)]
            self.assertEqual([event.data["id"] for event in told], [first, second, second])
            self.assertEqual([event.data["state"] for event in told], ["pending", "pending", "cancelled"])
            self.assertEqual((told[0].type, told[0].data["kind"]), ("task", "a"))
            self.assertEqual(next(some), told[2])
            flow = client.start(steps={"only": {"task": "c"}})["id"]
            while True:
                event = next(everything)
                if event.type == "workflow":
                    break
            self.assertEqual((event.data["id"], event.data["definition"]), (flow, "ad-hoc"))
        with client.events(last_event_id=told[0].id) as later:
            self.assertEqual([next(later), next(later)], told[1:])

    def test_a_stream_outlives_servers_without_gaps_and_repeats(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client = server.client()
        events = client.events(state="pending")
        reading = Reading(events)
        ids: List[str] = []
        for _ in range(4):
            ids += [client.submit("x")["id"] for _ in range(5)]
            reading.wait_for(len(ids))
            # These may or may not have been told when the server dies.
            ids += [client.submit("x")["id"] for _ in range(5)]
            server.kill()
            server.start()
        ids.append(client.submit("x")["id"])
        self.assertEqual(reading.wait_for(len(ids)), ids)
        self.assertEqual(len({event.id for event in reading.heard}), len(ids))
        events.close()
        reading.join(DEADLINE)
        self.assertFalse(reading.is_alive())
        self.assertEqual(events.last_event_id, reading.heard[-1].id)

    def test_who_was_away_too_long_is_told_so(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        with server.client().events(last_event_id="e0-7fffffff") as events:
            self.assertEqual(next(events).type, "reset")

    def test_mistakes_are_told_at_once(self) -> None:
        server = Server(store="memory", arguments=["--max-waiting", "1"])
        self.addCleanup(server.close)
        client = server.client(tries=2)
        with self.assertRaisesRegex(TypeError, "no filter 'tasks'; expected one of task, workflow"):
            client.events(tasks="x")
        with self.assertRaises(InvalidInput):
            client.events(state="done")
        with client.events():
            with self.assertRaises(Unavailable) as refused:
                client.events()
            self.assertEqual(refused.exception.code, "overloaded")


if __name__ == "__main__":
    unittest.main()
