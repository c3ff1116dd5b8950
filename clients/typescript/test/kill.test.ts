/** The server is killed again and again while workers work: nothing is lost and nothing is finished twice. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { atEnd, Server, until } from "./kit.js";

const KILLS = Number(process.env["WINDLASS_KILLS"] ?? 8);

interface Run {
  id: string;
  lease: number;
}

test("nothing is lost and nothing is finished twice", async (t) => {
  const server = await Server.start(t);
  const windlass = server.client({ tries: 30 });
  const program = fileURLToPath(new URL("./conformance/main.js", import.meta.url));
  const journals = [0, 1].map((n) => join(server.folder, `journal-${n}`));
  const workers = journals.map((journal) => {
    const words = [program, "work", "--server", server.url, "--pool", "8", "--journal", journal];
    return spawn(process.execPath, words, { stdio: ["ignore", "pipe", "ignore"] });
  });
  atEnd(t, async () => workers.forEach((child) => child.kill("SIGKILL")));
  await Promise.all(workers.map((child) => once(createInterface({ input: child.stdout! }), "line")));
  const journal = () =>
    journals.filter((file) => existsSync(file)).flatMap((file) => readFileSync(file, "utf8").trim().split("\n").filter(Boolean));

  const acknowledged = new Map<string, number>();
  let isOver = false;
  const submitting = (async () => {
    for (let n = 0; !isOver; n++) {
      // None that fails: what waits for a retry waits for a leader, and a server that was killed leads again only after 30 s.
      const many = Array.from({ length: 5 }, (_, m) => ({ kind: "ts:echo", payload: n * 5 + m }));
      (await windlass.submitMany(many)).forEach(({ id }, m) => acknowledged.set(id, n * 5 + m));
    }
  })();
  for (let kill = 0; kill < KILLS; kill++) {
    const before = journal().length;
    await until("work goes on", () => journal().length > before + 20);
    await server.kill();
    await server.up();
  }
  isOver = true;
  await submitting;
  const total = acknowledged.size;
  let states = {};
  await until("all are done", async () => {
    const stats = await windlass.stats();
    states = stats.states;
    return stats.tasks >= total && stats.states["completed"] === stats.tasks;
  }).catch((error: unknown) => assert.fail(`${String(error)}: of ${total} tasks, ${JSON.stringify(states)}`));
  assert.equal((await windlass.stats()).tasks, total, "what was submitted once is there once");
  const ran = new Map<string, Set<number>>();
  for (const line of journal()) {
    const { id, lease } = JSON.parse(line) as Run;
    const leases = ran.get(id) ?? new Set();
    assert.ok(!leases.has(lease), `task ${id} ran twice with lease ${lease}`);
    ran.set(id, leases.add(lease));
  }
  for (const [id, payload] of acknowledged) {
    const task = await windlass.task(id);
    assert.deepEqual([task.state, task.payload], ["completed", payload]);
    assert.equal(task.result, payload);
    assert.equal(task.history.filter(({ to }) => to === "completed").length, 1);
    assert.ok(ran.has(id) && task.attempt <= 3, `task ${id} ran, in ${task.attempt} attempts`);
  }
  t.diagnostic(`${KILLS} kills, ${total} tasks, ${journal().length} runs`);
  const asked = Date.now();
  workers.forEach((child) => child.kill("SIGTERM"));
  assert.deepEqual((await Promise.all(workers.map((child) => once(child, "exit")))).map(([code]) => code as number), [0, 0]);
  assert.ok(Date.now() - asked < 10_000, "nothing keeps a worker that has nothing to do");
});
