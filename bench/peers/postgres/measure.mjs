// What is measured of a queue written for node: the same for each, so that only the queue differs.
// `open` prepares an empty queue and returns how to use it:
//   submit(payloads)  submits them in one call, durably
//   start(began)      starts the workers; each handler calls `began` and ends
//   completed()       how many tasks the database itself says are completed
//   submitOne()       submits a single task
//   close()           stops the workers and leaves nothing behind

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const BATCH = 1000;
// Two, so that the next batch is put together while the database stores the last.
const BATCHES_AT_ONCE = 2;
const SAMPLES = 300;
// Idle means idle: nothing is on its way and nobody is still awake from the last one.
const PAUSE_MS = 5;

export async function measure(peer, open) {
  const fail = (error) => {
    console.error(`${peer}: ${error?.message || error?.code || error}`);
    process.exit(1);
  };
  try {
    const { url, tasks, concurrency } = given();
    // A queue that lost a task would be waited for without end.
    const limit = 60_000 + 2 * tasks;
    setTimeout(() => fail(`not done after ${limit / 1000} s`), limit).unref();
    const queue = await open({ url, concurrency, fail });
    const figures = await run(queue, tasks);
    console.log(JSON.stringify({ peer, version: version(peer), tasks, ...figures }));
    await queue.close();
    process.exit(0);
  } catch (error) {
    fail(error);
  }
}

async function run(queue, tasks) {
  const payloads = Array.from({ length: tasks }, (_, n) => ({ n }));
  const submit = await seconds(() => submitAll(queue, payloads));

  const starts = new Starts();
  const drain = await seconds(async () => {
    await queue.start(() => starts.note());
    await starts.reached(tasks);
    // A handler that has ended says nothing yet: some of these queues complete their tasks later, together.
    while ((await queue.completed()) < tasks) await sleep(1);
  });

  const waits = [];
  for (let sample = 1; sample <= SAMPLES; sample++) {
    await sleep(PAUSE_MS);
    const begun = performance.now();
    await Promise.all([queue.submitOne(), starts.reached(tasks + sample)]);
    waits.push(starts.last - begun);
  }
  waits.sort((one, other) => one - other);
  const rank = (percent) => Number(waits[Math.ceil((SAMPLES * percent) / 100) - 1].toFixed(2));
  return {
    submit_per_s: Math.round(tasks / submit),
    drain_per_s: Math.round(tasks / drain),
    cycle_per_s: Math.round(tasks / (submit + drain)),
    p50_ms: rank(50),
    p99_ms: rank(99),
  };
}

async function submitAll(queue, payloads) {
  let next = 0;
  const submitter = async () => {
    while (next < payloads.length) {
      const from = next;
      next += BATCH;
      await queue.submit(payloads.slice(from, next));
    }
  };
  await Promise.all(Array.from({ length: BATCHES_AT_ONCE }, submitter));
}

// Counts handlers that have begun, and tells who waits for a number of them.
class Starts {
  #count = 0;
  #wanted = Infinity;
  #tell = () => {};
  last = 0;

  note() {
    this.#count += 1;
    if (this.#count >= this.#wanted) {
      this.last = performance.now();
      this.#tell();
    }
  }

  reached(count) {
    if (this.#count >= count) return Promise.resolve();
    this.#wanted = count;
    return new Promise((resolve) => (this.#tell = resolve));
  }
}

async function seconds(work) {
  const begun = performance.now();
  await work();
  return (performance.now() - begun) / 1000;
}

function given() {
  const { values } = parseArgs({
    options: { tasks: { type: "string", default: "20000" }, concurrency: { type: "string", default: "24" } },
  });
  const url = process.env.DATABASE_URL;
  if (!url) throw new Error("DATABASE_URL is not set");
  return { url, tasks: positive("tasks", values.tasks), concurrency: positive("concurrency", values.concurrency) };
}

function positive(name, text) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new Error(`--${name} ${text}: expected a number from 1 up`);
  return number;
}

function version(peer) {
  return JSON.parse(readFileSync(new URL(`node_modules/${peer}/package.json`, import.meta.url), "utf8")).version;
}
