/**
 * The program that shows that this client does what every client of Windlass must do alike:
 *
 *   run SCRIPT --server URL [--token T] [--both]                       runs the script
 *   work --server URL --prefix ts [--pool N] [--journal FILE] [--token T]   works on the standard kinds until SIGTERM
 */
import { randomBytes } from "node:crypto";
import { appendFileSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Client, type Handler, Worker } from "windlass";
import { HANDLERS } from "./handlers.js";
import { type Case, run } from "./script.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    server: { type: "string" },
    token: { type: "string" },
    both: { type: "boolean", default: false },
    prefix: { type: "string", default: "ts" },
    pool: { type: "string", default: "4" },
    journal: { type: "string" },
  },
});
const client = new Client({ server: values.server, token: values.token });
const [mode, file] = positionals;
if (mode === "run" && file) {
  await runAll(file);
} else if (mode === "work") {
  await work();
} else {
  console.error("usage: run SCRIPT --server URL [--token T] [--both], or work --server URL [--prefix ts] [--pool N] [--journal FILE]");
  process.exitCode = 2;
}

async function runAll(script: string): Promise<void> {
  const { cases } = JSON.parse(readFileSync(script, "utf8")) as { cases: Case[] };
  const word = `r${randomBytes(4).toString("hex")}`;
  let failed = 0;
  const chosen = cases.filter(({ needs }) => needs === undefined || (needs === "both" && values.both));
  for (const one of chosen) {
    try {
      await run(client, one, word);
      console.log(`ok      ${one.name}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${one.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  console.log(`${chosen.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

async function work(): Promise<void> {
  const worker = new Worker(client, { poolSize: Number(values.pool) });
  /** With a line in the journal for every run that ends. */
  const kept = (handler: Handler): Handler => async (payload, context) => {
    try {
      return await handler(payload, context);
    } finally {
      const { id, attempt, lease } = context;
      if (values.journal) appendFileSync(values.journal, `${JSON.stringify({ id, attempt, lease, worker: worker.id })}\n`);
    }
  };
  for (const [name, handler] of Object.entries(HANDLERS)) worker.handle(`${values.prefix}:${name}`, kept(handler));
  await worker.run(() => console.log("working"));
}
