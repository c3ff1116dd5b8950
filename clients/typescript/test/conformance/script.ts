/** Runs the cases of the conformance script against a server. What the script means is said in its own `about`. */
import { isDeepStrictEqual } from "node:util";
import { Client, type ClaimRequest, type Heartbeat, type NewTask, type NewWorker, type Outcome, WindlassError, Worker } from "windlass";
import { HANDLERS } from "./handlers.js";

interface Step {
  do: string;
  with?: Record<string, unknown>;
  save?: Record<string, string>;
  expect?: Record<string, unknown>;
  refused?: string;
  until?: boolean;
}

export interface Case {
  name: string;
  needs?: string;
  steps: Step[];
}

/** How long a step is repeated until it is as expected. */
const DEADLINE = 20_000;

/** Arguments of a step: data, which the server is to judge. */
type Given = Record<string, any>;

/** Operations, each one method of the client. */
const OPERATIONS: Record<string, (client: Client, given: Given) => Promise<unknown>> = {
  submit: (client, given) => client.submit(given as NewTask),
  submit_many: async (client, { tasks }) => ({ tasks: await client.submitMany(tasks) }),
  task: (client, { id }) => client.task(id),
  cancel: (client, { id, ...by }) => client.cancel(id, by),
  retry: (client, { id, ...how }) => client.retry(id, how),
  resolve: (client, { id, ...how }) => client.resolve(id, how),
  why: (client, { id }) => client.why(id),
  wait: (client, { id, timeout }) => client.wait(id, { timeoutSeconds: timeout }),
  define: (client, { name, text, definition }) => client.define(text ?? definition, { name }),
  start: (client, given) => client.start(given),
  workflow: (client, { id }) => client.workflow(id),
  wait_for_workflow: (client, { id, timeout }) => client.waitForWorkflow(id, { timeoutSeconds: timeout }),
  register: (client, { worker_secret: secret, ...given }) => client.register(given as NewWorker, { secret }),
  claim: (client, { worker, worker_secret: secret, ...request }) => client.claim(worker, request as ClaimRequest, { secret }),
  finish: async (client, { worker, worker_secret: secret, outcomes }) => ({
    outcomes: await client.finish(worker, outcomes as Outcome[], { secret }),
  }),
  heartbeat: (client, { worker, worker_secret: secret, ...beat }) => client.heartbeat(worker, beat as Heartbeat, { secret }),
  deregister: (client, { worker, worker_secret: secret }) => client.deregister(worker, { secret }),
};

/** Runs a case; an error says which step was not as it should be. */
export async function run(client: Client, { steps }: Case, word: string): Promise<void> {
  const known = new Map<string, unknown>([["run", word]]);
  const workers: Worker[] = [];
  try {
    for (const [index, step] of steps.entries()) {
      await runStep(client, step, known, workers).catch((error: unknown) => {
        throw new Error(`step ${index + 1} (${step.do}): ${error instanceof Error ? error.message : String(error)}`);
      });
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.stop(0)));
  }
}

async function runStep(client: Client, step: Step, known: Map<string, unknown>, workers: Worker[]): Promise<void> {
  const given = filled(step.with ?? {}, known) as Given;
  if (step.do === "work") return work(client, given, workers);
  if (step.do === "stop") return void (await Promise.all(workers.splice(0).map((worker) => worker.stop())));
  const operation = OPERATIONS[step.do];
  if (!operation) throw new Error(`there is no operation ${step.do}`);
  if (step.refused !== undefined) return refused(operation(client, given), String(filled(step.refused, known)));
  const end = Date.now() + DEADLINE;
  for (;;) {
    const answer = await operation(client, given);
    const wrong = mismatch(answer, filled(step.expect ?? {}, known) as Record<string, unknown>);
    if (wrong === undefined) {
      for (const [name, pointer] of Object.entries(step.save ?? {})) known.set(name, at(answer, pointer));
      return;
    }
    if (!step.until || Date.now() > end) throw new Error(`${wrong} in ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function work(client: Client, given: { handlers?: Record<string, string>; pool?: number }, workers: Worker[]): Promise<void> {
  const worker = new Worker(client, { poolSize: given.pool, logger: { info: () => {}, warn: () => {} } });
  for (const [kind, name] of Object.entries(given.handlers ?? {})) worker.handle(kind, HANDLERS[name]!);
  workers.push(worker);
  await worker.start();
}

async function refused(asked: Promise<unknown>, code: string): Promise<void> {
  const answer = await asked.catch((error: unknown) => {
    if (!(error instanceof WindlassError)) throw error;
    if (error.code === code) return REFUSED;
    throw new Error(`refused with ${error.code}, not ${code}: ${error.detail}`);
  });
  if (answer !== REFUSED) throw new Error(`not refused with ${code}: ${JSON.stringify(answer)}`);
}

const REFUSED = Symbol("refused");

/** What is not as expected, if anything. */
function mismatch(answer: unknown, expected: Record<string, unknown>): string | undefined {
  for (const [pointer, value] of Object.entries(expected)) {
    const seen = at(answer, pointer);
    if (value === "$any" ? seen === null : !isDeepStrictEqual(seen, value)) {
      return `${pointer} is ${JSON.stringify(seen)}, not ${JSON.stringify(value)}`;
    }
  }
  return undefined;
}

/** What a JSON pointer leads to; `null` if it leads nowhere. */
function at(value: unknown, pointer: string): unknown {
  const names = pointer.split("/").slice(1).map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
  return names.reduce<unknown>((inner, name) => (inner as Record<string, unknown> | null)?.[name] ?? null, value);
}

/** A value with variables replaced. */
function filled(value: unknown, known: Map<string, unknown>): unknown {
  if (typeof value === "string") {
    const whole = /^\$(\w+)$/.exec(value)?.[1];
    if (whole && known.has(whole)) return known.get(whole);
    return value.replace(/\$(\w+)/g, (text, name: string) => (known.has(name) ? String(known.get(name)) : text));
  }
  if (Array.isArray(value)) return value.map((one) => filled(one, known));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [filled(name, known), filled(one, known)]));
}
