/**
 * One attempt: runs a handler on a claim, and sees to it that exactly one thing is told about it, or nothing if the claim is not the worker's any more.
 *
 * A handler cannot be stopped from outside, only asked to by its signal. So an attempt that is over for the server may have a handler that goes on;
 * whatever that returns is not heard.
 */
import { after } from "../pause.js";
import type { ClaimedTask, Lease } from "../wire.js";
import { Context, type AskAncestors } from "./context.js";
import { type Written } from "./link.js";
import type { Notes } from "./notes.js";
import { describe, isMeant, returned, thrown, written, type Ending } from "./outcome.js";

/** User code for a kind. */
export type Handler<Payload = unknown, Result = unknown> = (payload: Payload, context: Context) => Promise<Result> | Result;

/** What an attempt asks of the worker. */
export interface Desk {
  notes: Notes;
  ancestors: AskAncestors;
  /** This is to be told to the server. */
  ended(attempt: Attempt, outcome: Written): void;
  /** The handler works no more. */
  left(attempt: Attempt): void;
  warn(message: string): void;
  /** How long a handler that was asked to stop keeps its place in the pool. */
  patienceSeconds: number;
}

export class Attempt {
  readonly lease: Lease;
  readonly #controller = new AbortController();
  readonly #context: Context;
  readonly #startedAt = new Date().toISOString();
  /** Whether something was decided about it, and nothing else may be. */
  #isOver = false;
  #isLost = false;
  #hasLeft = false;
  readonly #timers: (() => void)[] = [];

  constructor(
    readonly task: ClaimedTask,
    readonly desk: Desk,
  ) {
    this.lease = { id: task.id, lease: task.lease };
    this.#context = new Context(task, this.#controller.signal, desk.notes, desk.ancestors);
  }

  /** Runs the handler. What it does never throws. */
  async run(handler: Handler): Promise<void> {
    const limit = this.task.timeout_seconds;
    if (limit) this.#timers.push(after(limit, () => this.#timeIsOver(limit)));
    let ending: Ending;
    try {
      ending = returned(await handler(this.task.payload, this.#context));
    } catch (error) {
      ending = thrown(error);
      this.#tellWhere(error);
    }
    await this.#end(ending);
    this.leave();
  }

  /** The claim is not this worker's any more: stop, and tell nothing. */
  lose(why: string): void {
    if (!this.#isOver) this.desk.warn(`task ${this.task.id} (${this.task.kind}): ${why}; its handler was asked to stop`);
    this.#isOver = this.#isLost = true;
    this.#stop(new DOMException(why, "AbortError"));
    this.desk.notes.forget(this.lease, this.#controller.signal.reason);
  }

  /** Gives the task back unfinished, without losing an attempt. */
  release(why: string): void {
    this.#stop(new DOMException(why, "AbortError"));
    void this.#end({ outcome: "released", error: why });
  }

  #timeIsOver(limit: number): void {
    const why = `timed out after ${limit} s`;
    this.#stop(new DOMException(why, "TimeoutError"));
    void this.#end({ outcome: "failed", error: why });
  }

  /** Says here where an error came from, which nobody expected: the server is only told what it says. */
  #tellWhere(error: unknown): void {
    if (this.#isOver || isMeant(error)) return;
    const where = error instanceof Error ? error.stack : undefined;
    this.desk.warn(`task ${this.task.id} (${this.task.kind}), attempt ${this.task.attempt}: ${where ?? describe(error)}`);
  }

  /** Asks the handler to stop. If it does not, its place is given to another after a while. */
  #stop(reason: DOMException): void {
    if (this.#hasLeft || this.#controller.signal.aborted) return;
    this.#controller.abort(reason);
    this.#timers.push(
      after(this.desk.patienceSeconds, () => {
        this.desk.warn(`task ${this.task.id} (${this.task.kind}): its handler goes on although it was asked to stop, and is ignored`);
        this.leave();
      }),
    );
  }

  /** Tells how it ended, after all that it told before. */
  async #end(ending: Ending): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    // If it is refused, the claim is lost, and what follows will be told so, too.
    await this.desk.notes.flush(this.lease).catch(() => {});
    this.desk.notes.forget(this.lease);
    if (!this.#isLost) this.desk.ended(this, written(this.lease, { ...ending, started_at: this.#startedAt }));
  }

  /** Its place is free, and nothing is waited for any more. */
  leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#timers.forEach((clear) => clear());
    this.desk.left(this);
  }
}
