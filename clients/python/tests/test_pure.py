"""What needs no server: ids, JSON, pauses, waits, events, payloads, verdicts, notes."""

from __future__ import annotations

import dataclasses
import math
import sys
import threading
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Dict, List, Optional, TypedDict

from kit import DEADLINE, windlass
from windlass import codec, ids, patience
from windlass.address import Address
from windlass.errors import Disconnected, InvalidInput, Unavailable, WaitTimeout, refusal
from windlass.sse import Event, Listener
from windlass.waiting import Looks
from windlass.worker.handlers import Handler
from windlass.worker.notes import LINES, Notes
from windlass.worker.payload import WrongPayload, decoder
from windlass.worker.reporter import in_parts
from windlass.worker.timers import Timers
from windlass.worker.verdict import completed, interrupted, raised


class Ids(unittest.TestCase):
    def test_are_uuids_of_version_7_in_order_of_time(self) -> None:
        made = [uuid.UUID(ids.task_id()) for _ in range(1000)]
        self.assertEqual(len(set(made)), 1000)
        for one in made:
            self.assertEqual((one.version, one.variant), (7, uuid.RFC_4122))
        moments = [one.int >> 80 for one in made]
        self.assertEqual(moments, sorted(moments))

    def test_of_tasks_are_never_those_of_steps(self) -> None:
        self.assertTrue(all(uuid.UUID(ids.task_id()).int >> 31 & 7 == 7 for _ in range(1000)))

    def test_of_workflows_leave_room_for_their_tasks(self) -> None:
        made = {uuid.UUID(ids.workflow_id()).int for _ in range(1000)}
        self.assertEqual(len(made), 1000)
        self.assertTrue(all(one & (1 << 34) - 1 == 0 for one in made))

    def test_of_workers_are_never_the_same(self) -> None:
        self.assertNotEqual(ids.worker_id(), ids.worker_id())


class Json(unittest.TestCase):
    def test_dataclasses_are_written_as_their_fields(self) -> None:
        @dataclasses.dataclass
        class Point:
            x: int
            y: List[int]

        self.assertEqual(codec.encode({"at": Point(1, [2])}), b'{"at":{"x":1,"y":[2]}}')

    def test_what_is_not_json_is_told(self) -> None:
        ring: List[Any] = []
        ring.append(ring)
        for bad in (math.nan, math.inf, {1, 2}, object(), b"x", ring, {("a", 1): 2}):
            with self.assertRaises(ValueError):
                codec.encode(bad)

    def test_lone_surrogates_and_large_numbers_survive(self) -> None:
        for odd in ("\ud800", "\0", 10**30, "ü€"):
            self.assertEqual(codec.decode(codec.encode(odd)), odd)

    def test_moments_need_a_time_zone(self) -> None:
        at = datetime(2030, 1, 31, 12, tzinfo=timezone(timedelta(hours=1)))
        self.assertEqual(codec.moment(at), "2030-01-31T12:00:00+01:00")
        with self.assertRaisesRegex(ValueError, "no time zone"):
            codec.moment(datetime(2030, 1, 31))


class Addresses(unittest.TestCase):
    def test_are_read(self) -> None:
        address = Address.parse("http://[::1]:7070/behind/", "secret", None)
        self.assertEqual((address.host, address.port, address.prefix), ("::1", 7070, "/behind"))
        self.assertEqual((str(address), address.authority), ("http://[::1]:7070/behind", "[::1]:7070"))
        self.assertEqual(address.headers()["authorization"], "Bearer secret")
        self.assertNotIn("secret", repr(address))
        self.assertEqual(Address.parse("https://queue.example", None, None).port, 443)

    def test_that_cannot_be_meant_are_refused(self) -> None:
        for bad in ("queue.example:7070", "ftp://x", "http://", "http://x:port", "http://x?y=1", "http://user@x"):
            with self.assertRaisesRegex(ValueError, "expected http://HOST:PORT"):
                Address.parse(bad, None, None)
        with self.assertRaisesRegex(ValueError, "https:// only"):
            Address.parse("http://x", None, "ca.pem")


class Patience(unittest.TestCase):
    def test_pauses_double_up_to_a_bound_and_vary(self) -> None:
        longest = [patience.pause(tried, roll=lambda: 1.0) for tried in range(1, 9)]
        self.assertEqual(longest, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
        self.assertEqual(patience.pause(3, roll=lambda: 0.0), 0.2)
        self.assertEqual(patience.pause(10**6, roll=lambda: 1.0), 5.0)

    def test_the_server_may_ask_for_a_longer_one(self) -> None:
        busy = refusal(503, {"code": "overloaded", "detail": ""}, 7.0)
        self.assertEqual(patience.pause(1, busy), 7.0)
        self.assertEqual(patience.pause(1, refusal(429, {}, 1e9)), patience.LONGEST_ASKED)

    def test_only_what_is_safe_is_sent_again(self) -> None:
        lost, unsent = Disconnected("", sent=True), Disconnected("", sent=False)
        self.assertTrue(patience.may_repeat(lost, repeatable=True))
        self.assertFalse(patience.may_repeat(lost, repeatable=False))
        self.assertTrue(patience.may_repeat(unsent, repeatable=False))
        self.assertFalse(patience.may_repeat(Disconnected("", sent=False, hopeless=True), repeatable=True))
        down = refusal(503, {"code": "unavailable"})
        self.assertTrue(patience.may_repeat(down, True) and not patience.may_repeat(down, False))
        self.assertTrue(patience.may_repeat(refusal(429, {"code": "rate_limited"}), False))
        self.assertFalse(patience.may_repeat(refusal(409, {"code": "not_final"}), True))

    def test_refusals_have_their_classes(self) -> None:
        for status, expected in (
            (400, windlass.InvalidInput),
            (401, windlass.Unauthorised),
            (403, windlass.Unauthorised),
            (404, windlass.NotFound),
            (409, windlass.Conflict),
            (413, windlass.InvalidInput),
            (422, windlass.InvalidInput),
            (429, windlass.Unavailable),
            (500, windlass.Unavailable),
            (503, windlass.Unavailable),
        ):
            error = refusal(status, {"code": "c", "detail": "d", "index": 3})
            self.assertIs(type(error), expected)
            self.assertEqual(
                (error.code, error.status, error.detail, error.index, str(error)), ("c", status, "d", 3, "c: d")
            )

    def test_waits_look_ever_more_rarely_and_end_in_time(self) -> None:
        now = [0.0]
        looks, found = Looks(10.0, lambda: now[0]), 0
        with self.assertRaisesRegex(WaitTimeout, "task x is pending after 10 s"):
            while True:
                pause = looks.next("task x is pending")
                self.assertLessEqual(pause, max(0.02, now[0] * 0.1))
                now[0] += pause
                found += 1
        self.assertAlmostEqual(now[0], 10.0)
        self.assertLess(found, 60)


class Events(unittest.TestCase):
    def take(self, listener: Listener, text: str) -> List[Event]:
        taken = [listener.take(line) for line in text.encode().splitlines(keepends=True)]
        return [event for event in taken if event is not None]

    def test_are_read_and_remembered(self) -> None:
        listener = Listener()
        self.assertNotIn("last-event-id", listener.headers())
        self.assertEqual(self.take(listener, "retry: 1000\nid: e1\nevent: ready\ndata: {}\n\n"), [])
        self.assertEqual(listener.heard, "e1")
        told = self.take(listener, 'id: e2\nevent: task\ndata: {"id": "t"}\n\nid: e9\n: still here\n\n')
        self.assertEqual(told, [Event("e2", "task", {"id": "t"})])
        self.assertEqual(listener.headers()["last-event-id"], "e9")

    def test_half_of_one_is_forgotten_with_its_connection(self) -> None:
        listener = Listener("e1")
        self.assertEqual(self.take(listener, 'id: e2\nevent: task\ndata: {"id"'), [])
        self.assertEqual(listener.headers()["last-event-id"], "e1")
        told = self.take(listener, 'id: e2\nevent: task\ndata: {"id": "t"}\n\n')
        self.assertEqual([event.id for event in told], ["e2"])


@dataclasses.dataclass
class Mail:
    to: str
    copies: int = 1
    weight: Optional[float] = None
    parts: List[str] = dataclasses.field(default_factory=list)


class Place(TypedDict):
    city: str
    at: Dict[str, float]


if TYPE_CHECKING:
    from decimal import Decimal as Seal


@dataclasses.dataclass
class Odd:
    """Before Python 3.10 nobody can say what `copies` is, and nobody ever what `seal` is."""

    to: str
    copies: int | None
    seal: Seal


class OddPlace(TypedDict):
    to: str
    copies: int | None
    seal: Seal


class Payloads(unittest.TestCase):
    def test_dataclasses_are_made(self) -> None:
        decode = decoder(Mail)
        assert decode is not None
        self.assertEqual(decode({"to": "ada", "weight": 2}), Mail("ada", 1, 2))
        for bad, told in (
            ({}, "lacks to"),
            ({"to": "ada", "cc": "bob"}, "has cc, which nobody knows; expected copies, parts, to, weight"),
            ({"to": 1}, "to is 1; expected a text"),
            ({"to": "ada", "copies": True}, "copies is True; expected a whole number"),
            ({"to": "ada", "copies": 1.5}, "copies is 1.5"),
            ({"to": "ada", "weight": "x"}, "weight is 'x'"),
            ({"to": "ada", "parts": {}}, "expected a list"),
            (["ada"], "expected an object with"),
            (None, "the payload is None"),
        ):
            with self.assertRaisesRegex(WrongPayload, told):
                decode(bad)

    def test_typed_dictionaries_are_checked(self) -> None:
        decode = decoder(Place)
        assert decode is not None
        place = {"city": "x", "at": {}}
        self.assertIs(decode(place), place)
        with self.assertRaisesRegex(WrongPayload, "lacks at"):
            decode({"city": "x"})

    def test_annotations_that_this_python_cannot_read_are_not_looked_at(self) -> None:
        for wanted in (Odd, OddPlace):
            decode = decoder(wanted)
            assert decode is not None
            decode({"to": "ada", "copies": None, "seal": object()})
            with self.assertRaisesRegex(WrongPayload, "to is 1; expected a text"):
                decode({"to": 1, "copies": 1, "seal": 1})
            with self.assertRaisesRegex(WrongPayload, "lacks seal"):
                decode({"to": "ada", "copies": 1})
        if sys.version_info >= (3, 10):
            decode = decoder(Odd)
            assert decode is not None
            with self.assertRaisesRegex(WrongPayload, "copies is 'x'"):
                decode({"to": "ada", "copies": "x", "seal": 1})

    def test_other_types_are_not_looked_at(self) -> None:
        for other in (dict, Dict[str, Any], int, None, Any):
            self.assertIsNone(decoder(other))


class HandlersOfAllForms(unittest.TestCase):
    def test_are_told_apart(self) -> None:
        class Callable:
            async def __call__(self, payload: Any) -> None: ...

        async def both(payload: Mail, context: Any) -> None: ...

        self.assertEqual(Handler.of("k", lambda payload: 1).arguments, 1)
        self.assertEqual(Handler.of("k", lambda payload, context=None: 1).arguments, 2)
        self.assertEqual(Handler.of("k", lambda *both: 1).arguments, 2)
        self.assertTrue(Handler.of("k", Callable()).is_async)
        handler = Handler.of("k", both)
        self.assertTrue(handler.is_async and handler.decode is not None)

    def test_that_cannot_be_called_are_refused(self) -> None:
        for bad in (lambda: 1, lambda a, b, c: 1, 5):
            with self.assertRaises(TypeError):
                Handler.of("k", bad)  # type: ignore[arg-type]


class Verdicts(unittest.TestCase):
    def test_of_what_is_raised(self) -> None:
        for error, expected in (
            (windlass.Fail("no"), {"outcome": "failed", "error": "no", "retryable": False}),
            (
                windlass.Retry("later", 5),
                {"outcome": "failed", "error": "later", "retryable": True, "delay_seconds": 5},
            ),
            (windlass.Retry("soon"), {"outcome": "failed", "error": "soon", "retryable": True}),
            (windlass.Snooze(3), {"outcome": "snoozed", "delay_seconds": 3}),
            (windlass.Cancel("why"), {"outcome": "cancelled", "error": "why"}),
            (ValueError("x"), {"outcome": "failed", "error": "ValueError: x", "retryable": True}),
            (KeyboardInterrupt(), {"outcome": "failed", "error": "KeyboardInterrupt", "retryable": True}),
            (WrongPayload("lacks to"), {"outcome": "failed", "error": "lacks to", "retryable": False}),
        ):
            self.assertEqual(raised(error), expected)

    def test_of_results(self) -> None:
        self.assertEqual(completed([1]), {"outcome": "completed", "result": [1]})
        bad = completed({1, 2})
        self.assertEqual((bad["outcome"], bad["retryable"]), ("failed", False))
        self.assertIn("a value of type set is not JSON", bad["error"])

    def test_an_end_that_the_worker_drove_to_costs_nothing(self) -> None:
        self.assertEqual(interrupted(raised(ValueError()), "stop")["outcome"], "released")
        self.assertEqual(interrupted(raised(windlass.Fail("x")), "stop")["outcome"], "failed")
        self.assertEqual(interrupted(completed(1), "stop")["outcome"], "completed")


class NotesOfAnAttempt(unittest.TestCase):
    def setUp(self) -> None:
        self.written = 0
        self.notes = Notes("t", 1, self.count)

    def count(self) -> None:
        self.written += 1

    def test_what_was_told_is_forgotten_and_what_came_since_is_not(self) -> None:
        self.assertIsNone(self.notes.take())
        self.notes.progress(1, 2, None)
        self.notes.log("a\nb")
        self.notes.checkpoint({"at": 1})
        report = self.notes.take()
        assert report is not None
        self.assertEqual(
            (report["progress"], report["first_line"], report["checkpoint"]), ({"done": 1, "total": 2}, 0, {"at": 1})
        )
        self.notes.log("c")
        self.notes.checkpoint({"at": 2})
        self.notes.told(report)
        more = self.notes.take()
        assert more is not None
        self.assertNotIn("progress", more)
        self.assertEqual(
            (more["first_line"], [line["text"] for line in more["lines"]], more["checkpoint"]), (2, ["c"], {"at": 2})
        )
        self.notes.told(more)
        self.assertTrue(self.notes.is_empty)
        self.assertEqual(self.written, 5)

    def test_only_the_newest_lines_are_kept(self) -> None:
        for number in range(LINES + 5):
            self.notes.log(str(number))
        report = self.notes.take()
        assert report is not None
        self.assertEqual((report["first_line"], len(report["lines"]), report["lines"][0]["text"]), (5, LINES, "5"))
        self.notes.log("new")
        self.notes.told(report)
        rest = self.notes.take()
        assert rest is not None
        self.assertEqual((rest["first_line"], rest["lines"][0]["text"]), (LINES + 5, "new"))

    def test_a_checkpoint_must_be_json(self) -> None:
        with self.assertRaises(ValueError):
            self.notes.checkpoint({1})
        self.assertTrue(self.notes.is_empty)


class TimersOfAWorker(unittest.TestCase):
    def test_fire_in_order_unless_they_are_cancelled(self) -> None:
        timers, fired, all_fired = Timers(), [], threading.Event()  # type: Timers, List[int], threading.Event
        self.addCleanup(timers.stop)
        timers.after(0.03, all_fired.set)
        timers.after(0.02, lambda: fired.append(2))
        timers.after(0.015, lambda: fired.append(9)).cancel()
        timers.after(0.01, lambda: fired.append(1))
        self.assertTrue(all_fired.wait(DEADLINE))
        self.assertEqual(fired, [1, 2])

    def test_that_were_cancelled_do_not_gather(self) -> None:
        timers = Timers()
        self.addCleanup(timers.stop)
        kept = timers.after(3600, lambda: None)
        for _ in range(10_000):
            timers.after(3600, lambda: None).cancel()
        self.assertLess(len(timers), 3_000)
        self.assertFalse(kept.is_over)

    def test_one_that_fails_does_not_stop_the_others(self) -> None:
        timers, fired = Timers(), threading.Event()
        self.addCleanup(timers.stop)
        timers.after(0.0, lambda: [][0])
        timers.after(0.01, fired.set)
        self.assertTrue(fired.wait(DEADLINE))


class Parts(unittest.TestCase):
    def test_what_the_server_does_not_take_hinders_nothing_else(self) -> None:
        sent: List[int] = []

        def send(part: List[List[int]]) -> None:
            for index, item in enumerate(part):
                if item[0] < 0:
                    error = InvalidInput("invalid_task", "negative", 422)
                    error.index = index
                    raise error
            if sum(item[0] for item in part) > 20:
                raise InvalidInput("too_large", "", 413)
            sent.extend(item[0] for item in part)

        def spoil(item: List[int], error: InvalidInput) -> bool:
            if item[0] > 0:
                return False
            item[0] = 0
            return True

        in_parts([[3], [-1], [9], [50], [8], [-2], [7]], send, spoil)
        self.assertEqual(sent, [3, 0, 9, 8, 0, 7])


class Unavailables(unittest.TestCase):
    def test_know_how_long_to_wait(self) -> None:
        error = refusal(503, {"code": "overloaded"}, 2.0)
        assert isinstance(error, Unavailable)
        self.assertEqual(error.retry_after, 2.0)


if __name__ == "__main__":
    unittest.main()
