import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Cancel, type Client, type Context, Fail, RefusedError, Retry, Snooze } from "windlass";
import { aborted, gate, Server, until, worker } from "./kit.js";

const wait = { timeoutSeconds: 20 };

test("a handler ends in every way", async (t) => {
  const windlass = (await Server.start(t)).client();
  const busy = worker(t, windlass);
  const thrown: Record<string, unknown> = {
    plain: new Error("oh"), fail: new Fail("never"), retry: new Retry("later", 3600), snooze: new Snooze(3600), cancel: new Cancel("pointless"),
  };
  for (const [kind, error] of Object.entries(thrown)) {
    busy.handle(kind, () => {
      throw error;
    });
  }
  busy.handle("nothing", () => {}).handle("bigint", () => ({ n: 1n })).handle("long", () => "x".repeat(2 << 20)).handle("nul", () => "a\u0000b");
  await busy.start();
  const submit = async (kind: string, more: object = {}) => (await windlass.submit({ kind, ...more })).id;
  const seen = async (id: string, state: string) =>
    until(`${state}, not ${(await windlass.task(id)).state}`, async () => {
      const task = await windlass.task(id);
      return task.state === state && task;
    });
  const hour = (due: string | null | undefined) => Math.abs(Date.parse(due ?? "") - Date.now() - 3600_000) < 60_000;
  assert.equal((await seen(await submit("plain", { max_attempts: 1 }), "dead_letter")).error, "oh");
  assert.match(busy.said.warn.join(), /plain.*attempt 1: Error: oh\n +at .*worker\.test/s, "where it came from is said here");
  assert.equal((await seen(await submit("fail"), "failed")).error, "never");
  assert.equal(busy.said.warn.length, 1, "what is meant needs no warning");
  const retried = await seen(await submit("retry"), "waiting_for_retry");
  assert.ok(retried.error === "later" && hour(retried.due_at));
  const snoozed = await seen(await submit("snooze"), "scheduled");
  assert.ok(snoozed.attempt === 0 && hour(snoozed.due_at));
  assert.equal((await seen(await submit("cancel"), "cancelled")).history.at(-1)?.note, "pointless");
  assert.equal((await seen(await submit("nothing"), "completed")).result, null);
  assert.match((await seen(await submit("bigint"), "failed")).error ?? "", /cannot be written as JSON.*BigInt/);
  // What is too long is refused with everything that is told beside it; the rest is not hindered by that.
  const ids = await windlass.submitMany([{ kind: "nothing" }, { kind: "long" }, { kind: "nothing" }]);
  assert.match((await seen(ids[1]!.id, "failed")).error ?? "", /refused.*result/);
  await Promise.all([seen(ids[0]!.id, "completed"), seen(ids[2]!.id, "completed")]);
  const nul = await windlass.wait(await submit("nul"), wait);
  assert.ok(nul.state === "failed" || nul.result === "a\u0000b", "either way it ends");
});

test("a handler knows what it works on, and tells how far it is", async (t) => {
  const windlass = (await Server.start(t)).client();
  const [told, opened] = [gate<Context>(), gate()];
  const busy = worker(t, windlass, { queues: ["mail"] }).handle<{ to: string }, string>("mail:send", async (payload, context) => {
    context.log("begun");
    context.log("going on");
    context.progress(3, 10, "packing");
    if (context.attempt === 1) {
      await context.saveCheckpoint({ page: 3 });
      told.open(context);
      await opened.opened;
      context.log("at the end");
      throw new Error("once more");
    }
    return `${payload.to} ${JSON.stringify(context.checkpoint)}`;
  });
  await busy.start();
  const { id } = await windlass.submit({
    kind: "mail:send", payload: { to: "ada" }, queue: "mail", entity: "user:7", tags: ["t"], timeout_seconds: 600, max_attempts: 5,
    retry: { backoff: "none" },
  });
  const context = await told.opened;
  assert.deepEqual(
    [context.id, context.kind, context.queue, context.attempt, context.maxAttempts, context.lease, context.entity, context.tags],
    [id, "mail:send", "mail", 1, 5, 1, "user:7", ["t"]],
  );
  assert.deepEqual([context.workflowId, context.step, context.results, context.checkpoint, context.traceparent], [null, null, {}, null, null]);
  assert.ok(context.deadline && context.deadline.getTime() > Date.now() && !context.cancelled);
  assert.deepEqual((await windlass.task(id)).attempts[0]?.progress, { done: 3, total: 10, note: "packing" });
  opened.open();
  const done = await windlass.wait(id, wait);
  assert.deepEqual([done.result, done.attempt], ['ada {"page":3}', 2]);
  const logs = (await windlass.log(id)).attempts.map(({ lines }) => lines.map(({ text }) => text));
  assert.deepEqual(logs, [["begun", "going on", "at the end"], ["begun", "going on"]]);
});

test("a checkpoint that is refused is the handler's error, and nobody else's", async (t) => {
  const windlass = (await Server.start(t)).client();
  const busy = worker(t, windlass);
  busy.handle("awaited", async (_, context) => context.saveCheckpoint("x".repeat(2 << 20)).catch((error: Error) => error.name));
  busy.handle("unawaited", (_, context) => {
    void context.saveCheckpoint(1n);
    void context.saveCheckpoint("x".repeat(2 << 20));
    return "went on";
  });
  await busy.start();
  const [one, two] = await windlass.submitMany([{ kind: "awaited" }, { kind: "unawaited" }]);
  assert.equal((await windlass.wait(one!.id, wait)).result, "RefusedError");
  assert.equal((await windlass.wait(two!.id, wait)).result, "went on");
});

test("no more handlers run at once than the pool has places", async (t) => {
  const windlass = (await Server.start(t)).client();
  let [running, most, ended] = [0, 0, 0];
  const busy = worker(t, windlass, { poolSize: 3 }).handle("x", async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 1));
    running--;
    ended++;
  });
  await busy.start();
  await windlass.submitMany(Array.from({ length: 100 }, () => ({ kind: "x" })));
  await until("all are done", async () => (await windlass.stats()).states["completed"] === 100);
  assert.deepEqual([most, ended], [3, 100]);
});

test("a handler that takes too long is asked to stop, and its task is tried again", async (t) => {
  const windlass = (await Server.start(t)).client();
  const reasons: unknown[] = [];
  const busy = worker(t, windlass, { poolSize: 1, graceSeconds: 0.05 }).handle("x", async (_, context) => {
    if (context.attempt === 2) return "in time";
    reasons.push(await aborted(context.signal));
    await new Promise(() => {});
  });
  await busy.start();
  const { id } = await windlass.submit({ kind: "x", timeout_seconds: 0.1, retry: { backoff: "none" } });
  const done = await windlass.wait(id, wait);
  assert.deepEqual([done.result, done.attempt], ["in time", 2], "even from a handler that never ends its place is taken back");
  assert.match(String(reasons[0]), /TimeoutError: timed out after 0.1 s/);
  assert.equal(done.history.find(({ reason }) => reason === "failed")?.note, "timed out after 0.1 s");
  assert.match(busy.said.warn.join(), /goes on although it was asked to stop/);
});

test("a cancel reaches a running handler at once, and nothing is told about it", async (t) => {
  const windlass = (await Server.start(t)).client();
  const [began, ended] = [gate(), gate<unknown>()];
  const busy = worker(t, windlass).handle("x", async (_, { signal }) => {
    began.open();
    ended.open(await aborted(signal));
    return "too late";
  });
  await busy.start();
  const { id } = await windlass.submit({ kind: "x" });
  await began.opened;
  await until("a heartbeat speaks of it", async () => (await windlass.task(id)).state === "running");
  const asked = Date.now();
  await windlass.cancel(id);
  assert.match(String(await ended.opened), /cancelled/);
  assert.ok(Date.now() - asked < 5_000, `heard after ${Date.now() - asked} ms, long before the next heartbeat is due`);
  assert.deepEqual((await windlass.task(id)).result, null);
});

test("steps get what their parents returned", async (t) => {
  const windlass = (await Server.start(t)).client();
  const busy = worker(t, windlass).handle<{ n: number } | null>("x", (payload, { results, step, workflowId }) => {
    return { n: (payload?.n ?? 0) + Object.keys(results).length, step, hasWorkflow: workflowId !== null };
  });
  await busy.start();
  const { id } = await windlass.start({ steps: { a: { task: "x" }, b: { task: "x" }, c: { task: "x", needs: ["a", "b"], input: { n: 40 } } } });
  assert.deepEqual((await windlass.waitForWorkflow(id, wait)).output, { c: { n: 42, step: "c", hasWorkflow: true } });
});

test("a step can ask what came long before", async (t) => {
  const windlass = (await Server.start(t)).client();
  const busy = worker(t, windlass).handle("x", async (_, context) => {
    return (await context.ancestors()).map(({ step, distance, result }) => [step, distance, result]);
  });
  await busy.start();
  const { id } = await windlass.start({ steps: { a: { task: "x" }, b: { task: "x", needs: ["a"] }, c: { task: "x", needs: ["b"], map: { over: [1] } } } });
  const before = [["b", 1, [["a", 1, []]]], ["a", 2, []]];
  assert.deepEqual((await windlass.waitForWorkflow(id, wait)).output, { c: [before] });
  const lone = await windlass.submit({ kind: "x" });
  assert.deepEqual((await windlass.wait(lone.id, wait)).result, []);
});

/** A worker with one task that runs and one that can be let go on. */
async function busyWith(windlass: Client, handler: (context: Context) => unknown, busy: ReturnType<typeof worker>): Promise<string> {
  const began = gate();
  busy.handle("x", (_, context) => {
    began.open();
    return handler(context);
  });
  await busy.start();
  const { id } = await windlass.submit({ kind: "x", max_attempts: 1 });
  await began.opened;
  return id;
}

test("a worker that stops lets its handlers end, and takes no more", async (t) => {
  const windlass = (await Server.start(t)).client();
  const open = gate();
  const busy = worker(t, windlass, { poolSize: 2 });
  const id = await busyWith(windlass, () => open.opened.then(() => "finished"), busy);
  const stopping = busy.stop(20);
  const next = await windlass.submit({ kind: "x" });
  open.open();
  await stopping;
  assert.equal((await windlass.task(id)).result, "finished");
  assert.deepEqual([(await windlass.task(next.id)).state, (await windlass.task(next.id)).attempt], ["pending", 0]);
  assert.deepEqual((await windlass.workers()).filter(({ worker_id }) => worker_id === busy.id), [], "it has taken leave");
});

test("what does not end in time is given back without losing an attempt", async (t) => {
  const windlass = (await Server.start(t)).client();
  const stopped = gate<unknown>();
  const busy = worker(t, windlass);
  const id = await busyWith(windlass, async ({ signal }) => stopped.open(await aborted(signal)), busy);
  await busy.stop(0.05);
  const task = await windlass.task(id);
  assert.deepEqual([task.state, task.attempt, task.history.at(-1)?.note], ["pending", 0, "the worker stopped"]);
  assert.match(String(await stopped.opened), /the worker stopped/);
});

test("a worker stops even if the server is gone", async (t) => {
  const server = await Server.start(t);
  const busy = worker(t, server.client());
  await busyWith(server.client(), ({ signal }) => aborted(signal), busy);
  await server.kill();
  await busy.stop(0);
});

test("mistakes in setting up a worker are told at once", async (t) => {
  const windlass = (await Server.start(t, "memory")).client();
  await assert.rejects(worker(t, windlass).start(), /no handlers/);
  assert.throws(() => worker(t, windlass, { poolSize: 0 }), /poolSize is 0/);
  assert.throws(() => worker(t, windlass).handle("x", () => 1).handle("x", () => 2), /already/);
  const busy = worker(t, windlass).handle("x", () => 1);
  await busy.start();
  assert.throws(() => busy.handle("y", () => 1), /too late/);
  await assert.rejects(busy.start(), /starts once/);
  const bad = worker(t, windlass).handle("a b", () => 1);
  await assert.rejects(bad.start(), (error) => error instanceof RefusedError && /a b/.test(error.detail));
});

/** A worker that is a program of its own. */
function spawned(url: string) {
  const program = fileURLToPath(new URL("./conformance/main.js", import.meta.url));
  const child = spawn(process.execPath, [program, "work", "--server", url, "--prefix", "ts"], { stdio: ["ignore", "pipe", "inherit"] });
  const ready = once(createInterface({ input: child.stdout }), "line");
  return { child, ready, ended: once(child, "exit") as Promise<[number | null, string | null]> };
}

test("a program that works ends when it is asked to, and at once when it is asked twice", async (t) => {
  const server = await Server.start(t);
  const windlass = server.client();
  const [idle, busy] = [spawned(server.url), spawned(server.url)];
  t.after(() => [idle, busy].forEach(({ child }) => child.kill("SIGKILL")));
  assert.deepEqual([await idle.ready, await busy.ready], [["working"], ["working"]]);
  idle.child.kill("SIGTERM");
  assert.deepEqual(await idle.ended, [0, null]);
  const { id } = await windlass.submit({ kind: "ts:until_cancelled" });
  await until("it runs", async () => (await windlass.task(id)).state === "running");
  busy.child.kill("SIGINT");
  await until("it is gone", () => {
    busy.child.kill("SIGINT");
    return busy.child.signalCode ?? undefined;
  });
  assert.deepEqual(await busy.ended, [null, "SIGINT"], "long before its handler has ended");
});
