/** A real server for tests, which can be killed and started again on the same port and store; and waiting for conditions. */
import { spawn, execFileSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { Client, type ClientOptions, Worker, type WorkerOptions } from "windlass";

/** Longer than anything takes. */
export const DEADLINE = 20_000;

/** The server's program. */
export function program(): string {
  const given = process.env["WINDLASS_BIN"];
  if (!given) throw new Error("WINDLASS_BIN is not set; name the server's program with it, such as target/debug/windlass");
  return given;
}

export class Server {
  readonly folder = mkdtempSync(join(tmpdir(), "windlass-"));
  readonly #store: string;
  #process: ChildProcess | undefined;
  url = "";

  private constructor(
    store: "sqlite" | "memory",
    readonly flags: readonly string[],
  ) {
    this.#store = store === "sqlite" ? `sqlite:${join(this.folder, "tasks.db")}` : "memory:";
  }

  /** A server that ends with the test. */
  static async start(t: TestContext, store: "sqlite" | "memory" = "sqlite", ...flags: string[]): Promise<Server> {
    const server = new Server(store, flags);
    atEnd(t, () => server.end());
    await server.up();
    return server;
  }

  /** Starts it: the first time on any port, then on the same. */
  async up(): Promise<void> {
    const listen = this.url === "" ? "127.0.0.1:0" : new URL(this.url).host;
    const flags = ["serve", "--store", this.#store, "--listen", listen, ...this.flags];
    const started = spawn(program(), flags, { stdio: ["ignore", "ignore", "pipe"] });
    this.#process = started;
    const said: string[] = [];
    for await (const line of createInterface({ input: started.stderr! })) {
      said.push(line);
      const url = /serving (https?:\/\/\S+)/.exec(line)?.[1];
      if (!url) continue;
      this.url = url;
      started.stderr!.resume();
      return;
    }
    throw new Error(`the server did not start:\n${said.join("\n")}`);
  }

  /** Stops it in good order. */
  stop(): Promise<void> {
    return this.kill("SIGTERM");
  }

  /** Kills it, as a crash would. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const killed = this.#process;
    if (!killed || killed.exitCode !== null || killed.signalCode !== null) return;
    killed.kill(signal);
    await once(killed, "exit");
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The answer of a command on its store. */
  command(...words: string[]): string {
    return execFileSync(program(), [...words, "--store", this.#store], { encoding: "utf8" });
  }

  client(options: ClientOptions = {}): Client {
    return new Client({ server: this.url, ...options });
  }
}

/** What a worker has said. */
export interface Said {
  info: string[];
  warn: string[];
}

/** A worker that stops with the test, and what it says. */
export function worker(t: TestContext, client: Client, options: WorkerOptions = {}): Worker & { said: Said } {
  const said: Said = { info: [], warn: [] };
  const logger = { info: (text: string) => said.info.push(text), warn: (text: string) => said.warn.push(text) };
  const made = new Worker(client, { logger, graceSeconds: 1, ...options });
  atEnd(t, () => made.stop(0));
  return Object.assign(made, { said });
}

const endings = new WeakMap<TestContext, (() => Promise<void>)[]>();

/** Does something when the test ends: what was begun last is ended first. */
export function atEnd(t: TestContext, act: () => Promise<void>): void {
  const known = endings.get(t);
  if (known) return void known.unshift(act);
  const acts = [act];
  endings.set(t, acts);
  t.after(async () => {
    for (const one of acts) await one();
  });
}

/** Looks until there is something, and gives it. */
export async function until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + DEADLINE;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    if (Date.now() > end) throw new Error(`not within ${DEADLINE / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Something that happens once, and can be waited for. */
export function gate<T = void>(): { opened: Promise<T>; open: (value: T) => void } {
  let open: (value: T) => void = () => {};
  const opened = new Promise<T>((resolve) => (open = resolve));
  return { opened, open };
}

/** Comes when a signal is aborted. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  if (signal.aborted) return Promise.resolve(signal.reason);
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason), { once: true }));
}
