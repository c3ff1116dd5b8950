/** The worker: handlers by kind, a pool, and how it starts and stops. The loop itself is in `driver.ts`. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { workerSecret } from "../uuid.js";
import type { Client } from "../client.js";
import { VERSION } from "../version.js";
import type { RegisteredWorker } from "../wire.js";
import type { Attempt, Handler } from "./attempt.js";
import { Driver, type Crew } from "./driver.js";
import { Link } from "./link.js";
import { Notes } from "./notes.js";
import { beatApart, beatHere } from "./pulse.js";

export interface WorkerOptions {
  /** How many handlers run at once; 10 unless said. */
  poolSize?: number | undefined;
  /** The queues it takes from; `default` unless said. */
  queues?: string[] | undefined;
  /** Whose tasks it takes; the client's namespace unless said. */
  namespace?: string | undefined;
  /** What the list of workers shows; the version of this package unless said. */
  version?: string | undefined;
  /** How long it may be silent before others take its tasks; 30 unless said. */
  deadAfterSeconds?: number | undefined;
  /** How long handlers may go on when it stops; 30 unless said. A handler that was asked to stop keeps its place as long, too. */
  graceSeconds?: number | undefined;
  /** Whether it also starts steps that are workflows, which takes no handler; so it is unless said. */
  startsWorkflows?: boolean | undefined;
  /** Where the heartbeat runs: in a thread of its own (unless said), or in the program's loop, where a handler that does not yield stops it. */
  heartbeat?: "thread" | "loop" | undefined;
  /** Where it says what an operator may want to know; warnings go to the console unless said. */
  logger?: { info(message: string): void; warn(message: string): void } | undefined;
}

/** Signals that ask a program to end. */
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export class Worker {
  /** Its identity: fresh for every worker, never a mere name. */
  readonly id = `${hostname()}-${process.pid}-${randomBytes(6).toString("hex")}`;
  readonly #client: Client;
  /** What proves to the server that it is this worker. */
  readonly #secret = workerSecret();
  readonly #options: WorkerOptions;
  readonly #handlers = new Map<string, Handler>();
  #driver: Driver | undefined;
  #running: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(client: Client, options: WorkerOptions = {}) {
    const { poolSize = 10, graceSeconds = 30 } = options;
    if (!(Number.isInteger(poolSize) && poolSize >= 1 && poolSize <= 1000)) {
      throw new RangeError(`poolSize is ${poolSize}; a whole number from 1 to 1000 is accepted`);
    }
    if (!(graceSeconds >= 0)) throw new RangeError(`graceSeconds is ${graceSeconds}; 0 or more is accepted`);
    this.#client = client;
    this.#options = options;
  }

  /** Gives the handler for a kind. What it returns is the task's result; what it throws is a failure that is tried again: see `Fail`, `Retry`, `Snooze` and `Cancel`. */
  handle<Payload = unknown, Result = unknown>(kind: string, handler: Handler<Payload, Result>): this {
    if (this.#driver) throw new Error(`a handler for ${JSON.stringify(kind)} comes too late: the worker has started`);
    if (this.#handlers.has(kind)) throw new Error(`there is a handler for ${JSON.stringify(kind)} already`);
    this.#handlers.set(kind, handler as Handler);
    return this;
  }

  /** Starts to work. Comes when it is registered, however long the server is away; an error says that the server refuses it. */
  async start(): Promise<void> {
    if (this.#driver) throw new Error("a worker starts once; make another");
    if (this.#handlers.size === 0) throw new Error("the worker has no handlers; give it some with `handle`");
    const link = new Link(this.#client.address, this.#secret);
    const driver = new Driver(link, this.#crew(link));
    this.#driver = driver;
    try {
      await driver.register();
    } catch (error) {
      link.close();
      throw error;
    }
    this.#running = driver.run();
  }

  /** Claims no more, lets handlers end within the grace period, gives back the rest, takes leave. */
  stop(graceSeconds = this.#options.graceSeconds ?? 30): Promise<void> {
    this.#stopped ??= this.#stop(graceSeconds);
    return this.#stopped;
  }

  /** Works until SIGTERM or SIGINT, then stops as `stop` does. A second signal ends the program at once. `onReady` is told when it is registered. */
  async run(onReady: () => void = () => {}): Promise<void> {
    let asked: () => void = () => {};
    const isAsked = new Promise<void>((resolve) => (asked = resolve));
    let signals = 0;
    const hear = (signal: NodeJS.Signals) => {
      if (++signals === 1) return asked();
      forget();
      process.kill(process.pid, signal);
    };
    const forget = () => SIGNALS.forEach((signal) => process.off(signal, hear));
    SIGNALS.forEach((signal) => process.on(signal, hear));
    try {
      const started = this.start().then(() => this.#stopped ?? onReady());
      // Asked to stop while the server is away, it has not started, and need not.
      await Promise.race([started, isAsked]);
      await isAsked;
      await this.stop();
      await started;
    } finally {
      forget();
    }
  }

  async #stop(graceSeconds: number): Promise<void> {
    this.#driver?.stop();
    await this.#running;
    await this.#driver?.drain(graceSeconds);
  }

  #crew(link: Link): Crew {
    const { poolSize = 10, graceSeconds = 30, namespace = this.#client.namespace, queues, version, logger } = this.#options;
    const { deadAfterSeconds: dead_after_seconds, startsWorkflows: starts_workflows } = this.#options;
    const warn = (message: string) => (logger ? logger.warn(message) : console.warn(`windlass: ${message}`));
    const crew: Crew = {
      poolSize,
      patienceSeconds: graceSeconds,
      self: {
        worker_id: this.id, kinds: [...this.#handlers.keys()], queues, namespace, pool_size: poolSize, version: version ?? `typescript ${VERSION}`,
        hostname: hostname(), dead_after_seconds, starts_workflows,
      },
      notes: new Notes(link, this.id, warn),
      ancestors: (workflow, step) => this.#client.ancestors(workflow, step),
      begin: (registered) => this.#begin(registered, warn),
      run: (attempt) => this.#run(attempt),
      info: (message) => logger?.info(message),
      warn,
    };
    return crew;
  }

  #begin(registered: RegisteredWorker, warn: (message: string) => void) {
    const { worker_id: worker, heartbeat_seconds: seconds } = registered;
    const setting = { address: this.#client.address, worker, secret: this.#secret, seconds };
    const hear: Parameters<typeof beatHere>[1] = (news) => this.#driver?.hear(news);
    return this.#options.heartbeat === "loop" ? beatHere(setting, hear) : beatApart(setting, hear, warn);
  }

  #run(attempt: Attempt): void {
    const handler = this.#handlers.get(attempt.task.kind);
    if (handler) void attempt.run(handler);
    else attempt.release(`this worker has no handler for ${attempt.task.kind}`);
  }
}
