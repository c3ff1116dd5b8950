/** A program with a worker whose handler does not yield for a while: `blocker URL thread|loop SECONDS`. It tells how it went. */
import { Client, Worker } from "windlass";

const [, , server, heartbeat, seconds] = process.argv;
const client = new Client({ server });
const warnings: string[] = [];
const logger = { info: () => {}, warn: (message: string) => void warnings.push(message) };
const worker = new Worker(client, { poolSize: 1, deadAfterSeconds: 1, heartbeat: heartbeat as "thread" | "loop", logger });
worker.handle(`block:${heartbeat}`, (_, context) => {
  // Nothing of this thread goes on meanwhile, as in a long computation; but it leaves the machine to others.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(seconds) * 1000);
  return context.attempt;
});
await worker.start();
const { id } = await client.submit({ kind: `block:${heartbeat}`, max_attempts: 1 });
const { state, result, history } = await client.wait(id, { timeoutSeconds: 60 + Number(seconds) });
await worker.stop();
console.log(JSON.stringify({ state, result, history: history.map(({ to }) => to), warnings }));
