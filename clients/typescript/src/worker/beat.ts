/**
 * The heartbeat: says again and again that a worker lives and what it works on, and hears what it must let go.
 *
 * Each one waits at the server until there is news or the next is due, so a cancel is heard at once. It needs nothing of the program around it, so
 * that it can run in a thread of its own (`beat-thread.ts`) and a handler that does not yield cannot stop it.
 */
import { NotFoundError } from "../errors.js";
import { Backoff, sleep } from "../pause.js";
import type { Lease } from "../wire.js";
import { keyOf, type Link } from "./link.js";

/** What the heartbeat has to tell. */
export type News =
  /** These claims are not the worker's any more. */
  | { is: "pulse"; lost: Lease[]; cancelled: Lease[] }
  /** The server does not know the worker. */
  | { is: "unknown" }
  /** The server does not answer; told once. */
  | { is: "away"; why: string }
  /** It answers again. */
  | { is: "back" };

/** What a claim is told about within: one that ends earlier costs no heartbeat. */
const SOON = 0.5;

/** The least time between two heartbeats: a server that is about to stop answers without waiting. */
const REST = 0.1;

export class Beat {
  readonly #held = new Map<string, Lease>();
  /** What the heartbeat under way speaks of. */
  #spoken = new Set<string>();
  #cut = new AbortController();
  #stop = new AbortController();
  #looks: NodeJS.Timeout | undefined;
  #isAway = false;

  constructor(
    readonly link: Link,
    readonly worker: string,
    readonly seconds: number,
    readonly tell: (news: News) => void,
  ) {}

  /** Speaks of these claims from now on. */
  hold(leases: readonly Lease[]): void {
    for (const lease of leases) this.#held.set(keyOf(lease), lease);
    this.#looks ??= setTimeout(() => this.#look(), Math.min(SOON, this.seconds / 2) * 1000);
  }

  /** Speaks of this claim no more. */
  letGo(lease: Lease): void {
    this.#held.delete(keyOf(lease));
  }

  /** The worker is registered anew. */
  registered(): void {
    this.#cut.abort();
  }

  stop(): void {
    clearTimeout(this.#looks);
    this.#stop.abort();
    this.#cut.abort();
  }

  /** Beats until it is stopped. */
  async run(): Promise<void> {
    const backoff = new Backoff(0.1, Math.min(5, this.seconds / 2));
    while (!this.#stop.signal.aborted) {
      this.#cut = new AbortController();
      const { signal } = this.#cut;
      try {
        await this.#once(signal);
        backoff.reset();
        this.#heard();
        await sleep(REST, signal);
      } catch (error) {
        if (signal.aborted) continue;
        if (error instanceof NotFoundError) this.tell({ is: "unknown" });
        else this.#unheard(error);
        await sleep(backoff.next(), signal).catch(() => {});
      }
    }
  }

  async #once(signal: AbortSignal): Promise<void> {
    const running = [...this.#held.values()];
    this.#spoken = new Set(this.#held.keys());
    const pulse = await this.link.heartbeat(this.worker, { running, wait_seconds: this.seconds }, signal);
    // The answer names tasks. Meant are the claims that were spoken of: a task may have been claimed anew meanwhile.
    const among = (ids: string[]) => running.filter(({ id }) => ids.includes(id));
    const [lost, cancelled] = [among(pulse.lost), among(pulse.cancel)];
    if (lost.length + cancelled.length === 0) return;
    [...lost, ...cancelled].forEach((lease) => this.letGo(lease));
    this.tell({ is: "pulse", lost, cancelled });
  }

  /** Begins anew if there are claims that the heartbeat under way does not speak of. */
  #look(): void {
    this.#looks = undefined;
    if ([...this.#held.keys()].some((key) => !this.#spoken.has(key))) this.#cut.abort();
  }

  #heard(): void {
    if (this.#isAway) this.tell({ is: "back" });
    this.#isAway = false;
  }

  #unheard(error: unknown): void {
    if (!this.#isAway) this.tell({ is: "away", why: error instanceof Error ? error.message : String(error) });
    this.#isAway = true;
  }
}
