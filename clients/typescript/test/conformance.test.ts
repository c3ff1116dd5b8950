/** The conformance script, as every client of Windlass runs it, on two stores. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { type Case, run } from "./conformance/script.js";
import { Server } from "./kit.js";

const script = new URL("../../conformance/script.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(script, "utf8")) as { cases: Case[] };

/** One after the other: a case that measures how long somebody is silent must not wait for others. */
async function runAll(t: TestContext, store: "sqlite" | "memory"): Promise<void> {
  const windlass = (await Server.start(t, store)).client();
  const alone = cases.filter(({ needs }) => needs === undefined);
  assert.ok(alone.length >= 20);
  for (const one of alone) await t.test(one.name, () => run(windlass, one, `r${randomBytes(4).toString("hex")}`));
}

test("the conformance script", { concurrency: true }, async (t) => {
  await Promise.all([t.test("on sqlite", (t) => runAll(t, "sqlite")), t.test("on memory", (t) => runAll(t, "memory"))]);
});
