/** Answers that are lost, and servers that are gone: what is asked once happens once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, ConnectionLostError, type TaskEvent } from "windlass";
import { aborted, gate, Server, until, worker } from "./kit.js";
import { Proxy } from "./proxy.js";

async function count(windlass: Client, kind: string): Promise<number> {
  let found = 0;
  for await (const _ of windlass.tasks({ kind })) found++;
  return found;
}

test("a submit whose answer was lost is sent again, and submitted once", async (t) => {
  const server = await Server.start(t);
  const proxy = await Proxy.start(t, server.url);
  const windlass = new Client({ server: proxy.url });
  for (const more of [{}, { idempotency_key: "a" }, { idempotency_key: "b", on_conflict: "reject" as const }]) {
    const kind = `kind-${more.idempotency_key ?? "none"}`;
    const lost = proxy.loseAnswer("POST /v1/tasks ");
    const submitted = await windlass.submit({ kind, payload: { a: 1 }, ...more });
    await lost;
    assert.equal(submitted.created, true);
    assert.deepEqual([await count(windlass, kind), (await windlass.task(submitted.id)).kind], [1, kind]);
  }
  const lost = proxy.loseAnswer("POST /v1/tasks/batch");
  const batch = [{ kind: "many", idempotency_key: "a" }, { kind: "many", idempotency_key: "a" }, { kind: "many" }];
  const submitted = await windlass.submitMany(batch);
  await lost;
  assert.deepEqual([submitted[0]?.created, submitted[1]?.id === submitted[0]?.id, submitted[2]?.created], [true, true, true]);
  assert.equal(await count(windlass, "many"), 2);
});

test("a workflow whose start was not answered is started once", async (t) => {
  const server = await Server.start(t);
  const proxy = await Proxy.start(t, server.url);
  const windlass = new Client({ server: proxy.url });
  for (const more of [{}, { idempotency_key: "a", on_conflict: "reject" as const }]) {
    const lost = proxy.loseAnswer("POST /v1/workflows ");
    const definition = `ad-hoc-${more.idempotency_key ?? "none"}`;
    const started = await windlass.start({ definition, steps: { a: { task: "x" } }, ...more });
    await lost;
    assert.equal(started.created, true);
    const found = [];
    for await (const workflow of windlass.workflows({ definition })) found.push(workflow.id);
    assert.deepEqual(found, [started.id]);
  }
});

test("what may not be said twice is not, and the caller is told", async (t) => {
  const server = await Server.start(t);
  const proxy = await Proxy.start(t, server.url);
  const windlass = new Client({ server: proxy.url });
  const { id } = await windlass.submit({ kind: "x" });
  await windlass.cancel(id);
  const lost = proxy.loseAnswer(`POST /v1/tasks/${id}/retry`);
  await assert.rejects(windlass.retry(id), (error) => error instanceof ConnectionLostError && error.sent);
  await lost;
  assert.deepEqual((await windlass.task(id)).history.map(({ to }) => to), ["pending", "cancelled", "pending"], "it was heard, once");
});

test("calls wait for a server that starts again", async (t) => {
  const server = await Server.start(t);
  const windlass = server.client({ tries: 20 });
  const { id } = await windlass.submit({ kind: "x" });
  const waiting = windlass.wait(id, { timeoutSeconds: 30 });
  await server.kill();
  const submitting = windlass.submit({ kind: "y" });
  const retrying = assert.rejects(
    windlass.retry("01900000-0000-7000-8000-000000000000"),
    { code: "task_not_found" },
    "even what may not be repeated is sent again, as it never arrived",
  );
  await server.up();
  assert.equal((await submitting).created, true);
  await retrying;
  await windlass.cancel(id);
  assert.equal((await waiting).state, "cancelled");
});

test("events go on after every loss, without gaps and without repeats", async (t) => {
  const server = await Server.start(t);
  const proxy = await Proxy.start(t, server.url);
  const [near, far] = [server.client({ tries: 20 }), new Client({ server: proxy.url })];
  const controller = new AbortController();
  let opened = 0;
  const heard: TaskEvent[] = [];
  const listening = (async () => {
    const options = { signal: controller.signal, onOpen: () => opened++ };
    for await (const event of far.events({ kind: "x", state: ["pending", "cancelled"] }, options)) {
      assert.equal(event.type, "task");
      if (event.type === "task") heard.push(event);
    }
  })();
  const ended = assert.rejects(listening, { name: "AbortError" });
  await until("it listens", () => opened > 0);
  const ids: string[] = [];
  for (let n = 0; n < 60; n++) {
    if (n % 20 === 5) proxy.cut();
    if (n === 40) {
      await server.kill();
      await server.up();
    }
    const { id } = await near.submit({ kind: "x" });
    if (n % 3 === 0) await near.cancel(id);
    ids.push(id);
  }
  const expected = ids.flatMap((id, n) => (n % 3 === 0 ? [`${id} pending`, `${id} cancelled`] : [`${id} pending`]));
  await until("all of it is heard", () => heard.length >= expected.length);
  assert.deepEqual(heard.map(({ id, state }) => `${id} ${state}`), expected);
  assert.ok(opened >= 3, `opened ${opened} times`);
  controller.abort();
  await ended;
  const again: string[] = [];
  for await (const event of near.events({ kind: "x" }, { after: heard.at(-3)!.eventId })) {
    if (event.type === "task") again.push(`${event.id} ${event.state}`);
    if (again.length === 2) break;
  }
  assert.deepEqual(again, expected.slice(-2), "also when asked to go on");
});

test("a claim whose answer was lost costs no attempt and little time", async (t) => {
  const server = await Server.start(t);
  const proxy = await Proxy.start(t, server.url);
  const windlass = server.client();
  const runs: number[] = [];
  const busy = worker(t, new Client({ server: proxy.url }), { poolSize: 2 });
  busy.handle("slow", (_, { signal }) => aborted(signal)).handle("x", (_, context) => void runs.push(context.lease));
  await busy.start();
  const slow = await windlass.submit({ kind: "slow" });
  await until("it runs", async () => (await windlass.task(slow.id)).state === "running");
  // The claim that waits was sent before: its answer is not lost, but that of the next one that waits.
  const lost = proxy.loseAnswer("/claim", '"wait_seconds":30');
  const first = await windlass.submit({ kind: "x" });
  await windlass.wait(first.id, { timeoutSeconds: 20 });
  const second = await windlass.submit({ kind: "x" });
  await lost;
  const done = await windlass.wait(second.id, { timeoutSeconds: 20 });
  assert.deepEqual([done.state, done.attempt, done.lease], ["completed", 1, 2]);
  assert.deepEqual(done.history.map(({ to }) => to), ["pending", "claimed", "pending", "claimed", "running", "completed"]);
  assert.deepEqual(runs, [1, 2], "a handler ran once for each");
  assert.ok((await windlass.task(slow.id)).attempt === 1 && (await windlass.task(slow.id)).state === "running", "what it works on stays its own");
});

test("a report whose answer was lost is told again, and changes nothing", async (t) => {
  const server = await Server.start(t);
  const proxy = await Proxy.start(t, server.url);
  const windlass = server.client();
  const busy = worker(t, new Client({ server: proxy.url }), { poolSize: 2 });
  const start = gate();
  const opened = gate();
  busy.handle("x", async () => {
    start.open();
    await opened.opened;
    return 7;
  });
  await busy.start();
  const { id } = await windlass.submit({ kind: "x" });
  await start.opened;
  const lost = proxy.loseAnswer("/finish");
  opened.open();
  await lost;
  const done = await windlass.wait(id, { timeoutSeconds: 20 });
  assert.deepEqual([done.result, done.attempt], [7, 1]);
  const next = await windlass.submit({ kind: "x" });
  assert.equal((await windlass.wait(next.id, { timeoutSeconds: 20 })).result, 7, "and the worker goes on");
  assert.equal((await windlass.task(id)).history.filter(({ to }) => to === "completed").length, 1);
});

test("what runs while the server is gone goes on, and is reported afterwards", async (t) => {
  const server = await Server.start(t);
  const windlass = server.client({ tries: 30 });
  const [began, open, ended] = [gate(), gate(), gate()];
  const busy = worker(t, windlass, { poolSize: 2 }).handle("x", async (payload, context) => {
    if (payload !== "slow") return "quick";
    began.open();
    await open.opened;
    context.log("while it was gone");
    ended.open();
    return context.cancelled;
  });
  await busy.start();
  const { id } = await windlass.submit({ kind: "x", payload: "slow" });
  await began.opened;
  await server.kill();
  await until("it was missed", () => busy.said.warn.length > 0);
  open.open();
  await ended.opened;
  await server.up();
  const done = await windlass.wait(id, { timeoutSeconds: 20 });
  assert.deepEqual([done.result, done.attempt, done.lease], [false, 1, 1]);
  assert.deepEqual((await windlass.log(id)).attempts[0]?.lines.map(({ text }) => text), ["while it was gone"]);
  const next = await windlass.submit({ kind: "x", payload: "quick" });
  assert.equal((await windlass.wait(next.id, { timeoutSeconds: 20 })).result, "quick");
  assert.equal(busy.said.warn.length, 1, "it is told once that the server is gone");
});

test("a server that is stopped and started again takes up where it was", async (t) => {
  const server = await Server.start(t);
  const windlass = server.client({ tries: 30 });
  const [began, open] = [gate(), gate()];
  const busy = worker(t, windlass, { poolSize: 2 }).handle("x", async () => {
    began.open();
    await open.opened;
    return "done";
  });
  await busy.start();
  const { id } = await windlass.submit({ kind: "x" });
  await began.opened;
  await server.stop();
  await server.up();
  open.open();
  const done = await windlass.wait(id, { timeoutSeconds: 20 });
  assert.deepEqual([done.result, done.attempt], ["done", 1]);
  const { id: next } = await windlass.submit({ kind: "x" });
  assert.equal((await windlass.wait(next, { timeoutSeconds: 20 })).result, "done");
});

test("a worker that the server has forgotten registers again with its id", async (t) => {
  const server = await Server.start(t, "memory");
  const windlass = server.client({ tries: 20 });
  const busy = worker(t, windlass, { poolSize: 2, deadAfterSeconds: 3 });
  const stopped = gate<unknown>();
  busy.handle("held", async (_, { signal }) => stopped.open(await aborted(signal))).handle("x", () => "done");
  await busy.start();
  const { id } = await windlass.submit({ kind: "held" });
  await until("it is held", async () => (await windlass.task(id)).attempt === 1);
  await server.kill();
  await server.up();
  assert.equal((await windlass.stats()).tasks, 0, "everything is forgotten");
  const next = await windlass.submit({ kind: "x" });
  assert.equal((await windlass.wait(next.id, { timeoutSeconds: 20 })).result, "done");
  assert.match(String(await stopped.opened), /lost/, "what it worked on is not there any more");
  assert.deepEqual((await windlass.workers()).map(({ worker_id }) => worker_id).filter((id) => id === busy.id), [busy.id]);
});

test("a worker waits for a server that is not there yet", async (t) => {
  const server = await Server.start(t);
  await server.kill();
  const windlass = server.client();
  const busy = worker(t, windlass).handle("x", () => "done");
  const starting = busy.start();
  await until("it has tried", () => busy.said.warn.length > 0);
  await server.up();
  await starting;
  const { id } = await windlass.submit({ kind: "x" });
  assert.equal((await windlass.wait(id, { timeoutSeconds: 20 })).result, "done");
  assert.match(busy.said.warn[0]!, /could not be reached/);
});
