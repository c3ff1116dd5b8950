/** A handler that does not yield, and a worker that falls silent. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "windlass";
import { aborted, gate, Server, until, worker } from "./kit.js";
import { Proxy } from "./proxy.js";

/** Longer than a worker may be silent, and than the server takes to notice that one is. */
const BLOCKED_SECONDS = 5;

/** Tasks that come due one after the other: a server looks for workers that are silent whenever something is due, and else only every now and then. */
async function ringAlarms(windlass: Client): Promise<void> {
  const delays = Array.from({ length: 10 }, (_, n) => 0.5 + n / 2);
  await windlass.submitMany(delays.map((delay_seconds) => ({ kind: "alarm", delay_seconds })));
}

interface Told {
  state: string;
  result: unknown;
  history: string[];
  warnings: string[];
}

test("a handler that does not yield keeps its lease, as the heartbeat has a thread of its own", async (t) => {
  const server = await Server.start(t);
  await ringAlarms(server.client());
  const program = fileURLToPath(new URL("./blocker.js", import.meta.url));
  const blocked = async (heartbeat: string): Promise<Told> => {
    const words = [program, server.url, heartbeat, String(BLOCKED_SECONDS)];
    const { stdout } = await promisify(execFile)(process.execPath, words, { encoding: "utf8" });
    return JSON.parse(stdout) as Told;
  };
  const [thread, loop] = await Promise.all([blocked("thread"), blocked("loop")]);
  assert.deepEqual([thread.state, thread.result, thread.warnings], ["completed", 1, []]);
  assert.deepEqual(thread.history, ["pending", "claimed", "running", "completed"]);
  // The same in the program's own loop: the time was long enough to lose it.
  assert.deepEqual([loop.state, loop.result], ["dead_letter", null]);
});

test("a worker that was cut off for too long stops what it does not hold any more, and tells nothing", async (t) => {
  const server = await Server.start(t);
  const proxy = await Proxy.start(t, server.url);
  const windlass = server.client();
  const [began, stopped] = [gate(), gate<unknown>()];
  const cutOff = worker(t, new Client({ server: proxy.url }), { deadAfterSeconds: 1 }).handle("x", async (_, { signal }) => {
    began.open();
    stopped.open(await aborted(signal));
    return "stale";
  });
  await cutOff.start();
  const { id } = await windlass.submit({ kind: "x" });
  await began.opened;
  await ringAlarms(windlass);
  proxy.refuse(true);
  const other = worker(t, windlass).handle("x", () => "mine");
  await other.start();
  const done = await windlass.wait(id, { timeoutSeconds: 25 });
  assert.deepEqual([done.result, done.attempt], ["mine", 2]);
  proxy.refuse(false);
  assert.match(String(await stopped.opened), /lost/);
  const next = await windlass.submit({ kind: "x" });
  await until("it is done", async () => (await windlass.task(next.id)).state === "completed" || undefined);
  assert.deepEqual((await windlass.task(id)).result, "mine");
});
