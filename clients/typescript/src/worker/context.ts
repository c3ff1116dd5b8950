/** What a handler knows about the attempt it makes, and what it may tell while it makes it. */
import type { Ancestor, ClaimedTask } from "../wire.js";
import type { Notes } from "./notes.js";

/** Asks the server for the steps that come before one. */
export type AskAncestors = (workflow: string, step: string) => Promise<Ancestor[]>;

export class Context {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** How many there may be; `null` for no limit. */
  readonly maxAttempts: number | null;
  /** The number of the claim: with `id`, what tells this attempt from every other. */
  readonly lease: number;
  /** When the attempt must be over, if it has a limit. */
  readonly deadline: Date | null;
  /** What the task acts on, written `type:id`. */
  readonly entity: string | null;
  readonly tags: readonly string[];
  /** The workflow that it is a step of. */
  readonly workflowId: string | null;
  /** The name of the step, with the number of the item if it is one. */
  readonly step: string | null;
  /** What the steps that it needs have returned, by name. */
  readonly results: Readonly<Record<string, unknown>>;
  /** What an earlier attempt left to go on from; `null` if none did. */
  readonly checkpoint: unknown;
  /** W3C trace context of who submitted it. */
  readonly traceparent: string | null;
  /** Aborted when the attempt is to stop: its task was cancelled or lost, its time is over, or the worker stops. Hand it on to whatever takes one. */
  readonly signal: AbortSignal;
  readonly #notes: Notes;
  readonly #ancestors: AskAncestors;

  /** @internal */
  constructor(task: ClaimedTask, signal: AbortSignal, notes: Notes, ancestors: AskAncestors) {
    this.signal = signal;
    this.id = task.id;
    this.kind = task.kind;
    this.queue = task.queue;
    this.attempt = task.attempt;
    this.maxAttempts = task.max_attempts ?? null;
    this.lease = task.lease;
    this.deadline = task.deadline ? new Date(task.deadline) : null;
    this.entity = task.entity ?? null;
    this.tags = task.tags;
    this.workflowId = task.workflow_id ?? null;
    this.step = task.step ?? null;
    this.results = task.results;
    this.checkpoint = task.checkpoint ?? null;
    this.traceparent = task.traceparent ?? null;
    this.#notes = notes;
    this.#ancestors = ancestors;
  }

  /** Whether the attempt is to stop. */
  get cancelled(): boolean {
    return this.signal.aborted;
  }

  /** Throws why, if the attempt is to stop. */
  throwIfCancelled(): void {
    this.signal.throwIfAborted();
  }

  /** Asks the server for all steps that come before this one, nearest first, with what they have returned; none if the task is not a step. */
  async ancestors(): Promise<Ancestor[]> {
    return this.workflowId === null || this.step === null ? [] : await this.#ancestors(this.workflowId, this.step);
  }

  /** Tells how far it is. */
  progress(done: number, total?: number, note?: string): void {
    if (!this.cancelled) this.#notes.progress(this.#lease, { done, total, note });
  }

  /** Adds a line to the attempt's log. */
  log(line: string): void {
    if (!this.cancelled) this.#notes.line(this.#lease, String(line));
  }

  /** Leaves something for a next attempt to go on from. Comes when it is durable; without waiting for that, it is sent before the attempt's end is. */
  saveCheckpoint(value: unknown): Promise<void> {
    const saved = this.cancelled ? Promise.reject(this.signal.reason) : this.#notes.checkpoint(this.#lease, value);
    // Who does not wait for it is not ended by it.
    saved.catch(() => {});
    return saved;
  }

  get #lease() {
    return { id: this.id, lease: this.lease };
  }
}
