import assert from "node:assert/strict";
import { test } from "node:test";
import { Cancel, Fail, Retry, Snooze, taskId, WindlassError, workflowId } from "windlass";
import { search } from "../dist/calls.js";
import { refusal } from "../dist/errors.js";
import { after, Backoff, sleep } from "../dist/pause.js";
import { FrameReader } from "../dist/sse.js";
import { Outbox, type Parcel } from "../dist/worker/outbox.js";
import { returned, thrown, written } from "../dist/worker/outcome.js";
import { takeBatch } from "../dist/worker/parcels.js";

test("ids are UUIDs of version 7 that grow with time", () => {
  const [one, two] = [taskId(1_000), taskId(2_000)];
  assert.match(one, /^00000000-03e8-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.ok(one < two && taskId() !== taskId());
});

test("no step of a workflow can have the id of a new task", () => {
  for (let n = 0; n < 1000; n++) {
    const bits = BigInt(`0x${taskId().replaceAll("-", "")}`);
    assert.equal((bits >> 31n) & 7n, 7n);
  }
});

test("ids of workflows leave their last 34 bits to their tasks", () => {
  for (let n = 0; n < 100; n++) {
    const bits = BigInt(`0x${workflowId().replaceAll("-", "")}`);
    assert.equal(bits & ((1n << 34n) - 1n), 0n);
  }
});

test("events are read however they are cut", () => {
  const text = "retry: 1000\nid: 1\nevent: ready\ndata: {}\n\nid: 2\r\nevent: task\r\ndata: {\"a\":\ndata: \"ü\"}\n\n: still here\nid: 3\n\n: nothing\n\nid: 4\nevent: task\ndata: half";
  const whole = new FrameReader().read(text);
  assert.deepEqual(whole, [
    { id: "1", event: "ready", data: "{}" },
    { id: "2", event: "task", data: '{"a":\n"ü"}' },
    { id: "3", event: "message", data: undefined },
  ]);
  for (let size = 1; size < 20; size++) {
    const reader = new FrameReader();
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, n) => text.slice(n * size, (n + 1) * size));
    assert.deepEqual(pieces.flatMap((piece) => reader.read(piece)), whole, `in pieces of ${size}`);
  }
});

test("pauses grow within bounds, and keep to what the server asks for", () => {
  const backoff = new Backoff(0.1, 5);
  const pauses = Array.from({ length: 50 }, () => backoff.next());
  assert.ok(pauses[0]! >= 0.05 && pauses[0]! <= 0.1 && pauses.every((pause) => pause <= 5));
  assert.ok(pauses.slice(10).every((pause) => pause >= 2.5));
  assert.ok(backoff.next(7) === 7 && backoff.next(1e9) === 60);
  backoff.reset();
  assert.ok(backoff.next() <= 0.1);
});

test("a timer may be longer than the platform's longest", async () => {
  const fired: string[] = [];
  const clear = after(60 * 24 * 3600, () => fired.push("too early"));
  await sleep(0.005);
  clear();
  assert.deepEqual(fired, []);
});

test("sleep ends with the signal's reason", async () => {
  const reason = new Error("enough");
  const controller = new AbortController();
  const asleep = sleep(60, controller.signal);
  controller.abort(reason);
  await assert.rejects(asleep, reason);
  await assert.rejects(sleep(60, controller.signal), reason);
});

test("a query leaves out what is absent", () => {
  assert.equal(search({ a: undefined, b: null }), "");
  assert.equal(search({ a: ["x", "y"], b: true, c: 0, d: "ä&=" }), "?a=x%2Cy&b=true&c=0&d=%C3%A4%26%3D");
});

test("what a handler returns is told as it was", () => {
  const told = (value: unknown) => JSON.parse(written({ id: "i", lease: 1 }, returned(value)));
  assert.deepEqual(told({ a: [1, "ü", null] }), { id: "i", lease: 1, outcome: "completed", result: { a: [1, "ü", null] } });
  assert.deepEqual(told(undefined), { id: "i", lease: 1, outcome: "completed" });
  assert.deepEqual(told(null).result, null);
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  for (const [value, why] of [[10n, /BigInt/], [circle, /circular/], [() => 1, /function/], [Symbol("x"), /symbol/]] as const) {
    const { outcome, retryable, error } = told(value);
    assert.deepEqual([outcome, retryable], ["failed", false]);
    assert.match(error, why);
    assert.match(error, /cannot be written as JSON/);
  }
});

test("what a handler throws says what is to become of the task", () => {
  assert.deepEqual(thrown(new Fail("never")), { outcome: "failed", retryable: false, error: "never" });
  assert.deepEqual(thrown(new Retry("later", 5)), { outcome: "failed", error: "later", delay_seconds: 5 });
  assert.deepEqual(thrown(new Snooze(3)), { outcome: "snoozed", delay_seconds: 3 });
  assert.deepEqual(thrown(new Cancel("pointless")), { outcome: "cancelled", error: "pointless" });
  assert.deepEqual(thrown(new TypeError("no", { cause: new Error("because") })), { outcome: "failed", error: "TypeError: no: because" });
  assert.equal(thrown("text").error, "text");
  assert.match(thrown({ a: 1 }).error ?? "", /no error: \{"a":1\}/);
  assert.equal(thrown(new Error("")).error, "Error");
});

test("a batch is bounded by number and by length, and never empty", () => {
  const line = (count: number, length: number) => Array.from({ length: count }, () => ({ written: "x".repeat(length) }));
  const many = line(1_200, 10);
  assert.deepEqual([takeBatch(many).length, takeBatch(many).length, takeBatch(many).length, takeBatch(many).length], [500, 500, 200, 0]);
  assert.deepEqual([takeBatch(line(10, 1 << 20)).length, takeBatch(line(2, 8 << 20)).length], [4, 1]);
});

test("of a batch that is refused, the one that is at fault is told as a failure, and the others go again", () => {
  const outbox = new Outbox();
  const answers: string[] = [];
  const parcel = (id: string): Parcel =>
    ({ lease: { id, lease: 1 }, written: `{"id":"${id}"}`, answered: (answer) => answers.push(answer.id) });
  ["a", "b", "c"].forEach((id) => outbox.put(parcel(id)));
  const first = outbox.take();
  outbox.returned(first, new WindlassError({ status: 422, code: "invalid_task", detail: "too long", index: 1 }));
  const second = outbox.take();
  assert.deepEqual(second.map(({ lease }) => lease.id), ["a", "b", "c"]);
  assert.deepEqual(JSON.parse(second[1]!.written), {
    id: "b", lease: 1, outcome: "failed", retryable: false, error: "what the handler returned was refused: too long",
  });
  outbox.returned(second, new WindlassError({ status: 413, code: "too_large", detail: "all of it" }));
  const third = outbox.take();
  assert.equal(third.length, 1, "none was named, so they go one by one");
  outbox.answered(third, [{ id: "a" }]);
  outbox.answered(outbox.take(), [{ id: "b" }]);
  outbox.answered(outbox.take(), []);
  assert.equal(outbox.isEmpty, false, "what was not answered goes again");
  outbox.answered(outbox.take(), [{ id: "c" }]);
  assert.deepEqual([answers, outbox.isEmpty], [["a", "b", "c"], true]);
});

test("refusals that are not the server's are told, too", () => {
  const error = refusal(502, "<html>bad gateway</html>");
  assert.deepEqual([error.name, error.code, error.status], ["UnavailableError", "http_502", 502]);
  assert.match(error.message, /bad gateway/);
});
