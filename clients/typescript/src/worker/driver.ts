/**
 * The loop of a worker: one question to the server at a time, which tells what has ended and asks for more.
 *
 * While a claim waits at the server, what ends is reported beside it at once. A claim that tells something does not wait, so that it is soon known to have been
 * heard. A claim whose answer was lost may have been given tasks: before the next one, when none is in progress, the server is told
 * everything that is worked on here and takes the rest back. There is no end to trying: a server that is away is asked again, and handlers go on meanwhile.
 */
import { setImmediate as soon } from "node:timers/promises";
import { ConnectionLostError, NotFoundError, RefusedError, UnauthorisedError, UnavailableError } from "../errors.js";
import { Backoff, sleep } from "../pause.js";
import type { ClaimedTask, Lease, NewWorker, RegisteredWorker, ReportedOutcome } from "../wire.js";
import { Attempt, type Desk } from "./attempt.js";
import type { News } from "./beat.js";
import { Bell } from "./bell.js";
import { keyOf, type Link, type Written } from "./link.js";
import { Outbox, type Parcel } from "./outbox.js";
import type { Pulse } from "./pulse.js";

/** How long a claim waits for work. */
const WAIT_SECONDS = 30;

/** The least time that a claim which waits takes: a server that is about to stop answers without waiting. */
const REST_SECONDS = 0.1;

/** How long a worker that stops tries to tell what there is to tell. */
const FAREWELL_SECONDS = 5;

/** What the loop asks of the worker. */
export interface Crew extends Omit<Desk, "ended" | "left"> {
  poolSize: number;
  /** How the worker registers: always with the same id, so that it may be said again. */
  self: NewWorker & { worker_id: string };
  /** Starts the heartbeat. */
  begin(registered: RegisteredWorker): Pulse;
  /** Runs the handler of an attempt. */
  run(attempt: Attempt): void;
  info(message: string): void;
}

export class Driver {
  /** Claims that the server may believe to be this worker's: until what became of them was heard, or they are lost. */
  readonly #claims = new Map<string, Attempt>();
  /** Attempts that take a place in the pool. */
  readonly #working = new Set<Attempt>();
  readonly #outbox = new Outbox();
  readonly #backoff = new Backoff();
  readonly #bell = new Bell();
  readonly #desk: Desk;
  /** Ends what the loop waits for. */
  #cut = new AbortController();
  #isStopping = false;
  #pulse: Pulse | undefined;
  #isRegistered = false;
  /** Whether the server may have given tasks that never arrived here. */
  #isUnsure = false;
  #isAway = false;
  /** Whether reports go by themselves, because no claim is going to take them along. */
  #isApart = false;
  #isDelivering = false;

  constructor(
    readonly link: Link,
    readonly crew: Crew,
  ) {
    const ended = (attempt: Attempt, outcome: Written) => this.#ended(attempt, outcome);
    const left = (attempt: Attempt) => {
      this.#working.delete(attempt);
      this.#bell.ring();
    };
    this.#desk = { ...crew, ended, left };
  }

  /** Registers. Comes when that is done, however long the server is away; a worker that is refused is an error. */
  async register(): Promise<void> {
    while (!this.#isRegistered && !this.#isStopping) {
      try {
        await this.#register();
      } catch (error) {
        if (error instanceof RefusedError || error instanceof UnauthorisedError) throw error;
        if (!this.#isStopping) await this.#failed(error);
      }
    }
  }

  /** Claims and reports until it is stopped. */
  async run(): Promise<void> {
    while (!this.#isStopping) {
      this.#cut = new AbortController();
      try {
        await this.#turn();
        this.#backoff.reset();
        this.#heard();
      } catch (error) {
        if (!this.#cut.signal.aborted) await this.#failed(error);
      }
    }
  }

  /** Claims no more: `run` ends. */
  stop(): void {
    this.#isStopping = true;
    this.#cut.abort();
    this.#bell.ring();
  }

  /** Lets what runs come to its end, gives back what does not, and takes leave. */
  async drain(graceSeconds: number): Promise<void> {
    this.#cut = new AbortController();
    if (this.#isRegistered && this.#isUnsure) await this.#settle(AbortSignal.timeout(FAREWELL_SECONDS * 1000)).catch(() => {});
    this.#isApart = true;
    this.#deliver();
    await this.#within(graceSeconds, () => this.#claims.size === 0);
    for (const attempt of this.#claims.values()) attempt.release("the worker stopped");
    await this.#within(FAREWELL_SECONDS, () => this.#claims.size === 0);
    this.#isApart = false;
    for (const attempt of this.#claims.values()) attempt.lose("the worker stopped and the server did not answer");
    for (const attempt of this.#working) attempt.leave();
    await this.#pulse?.stop();
    const { worker_id } = this.crew.self;
    if (this.#isRegistered) await this.link.deregister(worker_id, AbortSignal.timeout(FAREWELL_SECONDS * 1000)).catch(() => {});
    this.link.close();
  }

  /** The heartbeat has something to tell. */
  hear(news: News): void {
    switch (news.is) {
      case "pulse":
        news.lost.forEach((lease) => this.#lose(lease, "its lease was lost"));
        return news.cancelled.forEach((lease) => this.#lose(lease, "it was cancelled"));
      case "unknown":
        if (this.#isRegistered && !this.#isStopping) {
          this.#isRegistered = false;
          this.#cut.abort();
          this.#bell.ring();
        }
        return;
      case "away":
        return this.#unheard(news.why);
      case "back":
        return this.#heard();
    }
  }

  async #turn(): Promise<void> {
    if (!this.#isRegistered) await this.#register();
    if (this.#isUnsure) await this.#settle(this.#cut.signal);
    const free = this.crew.poolSize - this.#working.size;
    if (free > 0) return this.#claim(free);
    if (!this.#outbox.isEmpty) return this.#finish();
    await this.#bell.heard();
    // What ends together is told together.
    await soon();
  }

  async #register(): Promise<void> {
    const registered = await this.link.register(this.crew.self, this.#cut.signal);
    this.#isRegistered = this.#isUnsure = true;
    if (this.#pulse) {
      this.crew.info("the server had forgotten this worker, which has registered again");
      this.#pulse.registered();
    }
    this.#pulse ??= this.crew.begin(registered);
  }

  /** Tells everything that is worked on, so that the server takes back the rest. Not while a claim is in progress: its tasks would be taken back, too. */
  async #settle(signal: AbortSignal): Promise<void> {
    const running = [...this.#claims.values()].map(({ lease }) => lease);
    const { lost, cancel } = await this.link.heartbeat(this.crew.self.worker_id, { running, release_others: true }, signal);
    this.#isUnsure = false;
    const among = (ids: string[]) => running.filter(({ id }) => ids.includes(id));
    this.hear({ is: "pulse", lost: among(lost), cancelled: among(cancel) });
  }

  async #claim(limit: number): Promise<void> {
    const parcels = this.#outbox.take();
    const wait = parcels.length > 0 ? 0 : WAIT_SECONDS;
    const begun = performance.now();
    this.#isApart = wait > 0;
    try {
      const written = parcels.map((parcel) => parcel.written);
      const answer = await this.link.claim(this.crew.self.worker_id, limit, wait, written, this.#cut.signal);
      this.#outbox.answered(parcels, answer.outcomes);
      this.#begin(answer.tasks);
      const isHasty = wait > 0 && answer.tasks.length === 0 && performance.now() - begun < REST_SECONDS * 1000;
      if (isHasty) await sleep(REST_SECONDS, this.#cut.signal).catch(() => {});
    } catch (error) {
      this.#isUnsure ||= mayHaveBeenHeard(error);
      this.#outbox.returned(parcels, error);
      throw error;
    } finally {
      this.#isApart = false;
    }
  }

  #begin(tasks: ClaimedTask[]): void {
    const attempts = tasks.map((task) => new Attempt(task, this.#desk));
    for (const attempt of attempts) {
      const ids = [...this.#claims.values()].filter(({ lease }) => lease.id === attempt.lease.id);
      ids.forEach(({ lease }) => this.#lose(lease, "it was claimed anew"));
      this.#claims.set(keyOf(attempt.lease), attempt);
      this.#working.add(attempt);
    }
    // Known to the heartbeat before the first handler starts, which may not yield.
    if (attempts.length > 0) this.#pulse?.hold(attempts.map(({ lease }) => lease));
    for (const attempt of attempts) setImmediate(() => this.crew.run(attempt));
  }

  #ended(attempt: Attempt, written: Written): void {
    const answered = (answer: ReportedOutcome) => {
      if (answer.error) this.crew.warn(`what became of task ${answer.id} was not accepted: ${answer.error.detail} (${answer.error.code})`);
      this.#forget(attempt.lease);
    };
    this.#outbox.put({ lease: attempt.lease, written, answered });
    this.#deliver();
    this.#bell.ring();
  }

  async #finish(): Promise<void> {
    const parcels: Parcel[] = this.#outbox.take();
    try {
      const written = parcels.map((parcel) => parcel.written);
      this.#outbox.answered(parcels, await this.link.finish(this.crew.self.worker_id, written));
    } catch (error) {
      this.#outbox.returned(parcels, error);
      throw error;
    }
  }

  /** Reports what has ended while nothing else is going to. */
  #deliver(): void {
    if (this.#isDelivering || !this.#isApart) return;
    this.#isDelivering = true;
    const deliver = async () => {
      const backoff = new Backoff();
      await soon();
      while (this.#isApart && !this.#outbox.isEmpty) {
        await this.#finish().catch((error: unknown) => sleep(backoff.next(retryAfter(error))));
      }
    };
    void deliver().finally(() => (this.#isDelivering = false));
  }

  #lose(lease: Lease, why: string): void {
    this.#claims.get(keyOf(lease))?.lose(why);
    this.#forget(lease);
  }

  #forget(lease: Lease): void {
    this.#claims.delete(keyOf(lease));
    this.#pulse?.letGo(lease);
    this.#bell.ring();
  }

  /** Waits until something holds, but not for ever. */
  async #within(seconds: number, holds: () => boolean): Promise<void> {
    const late = new AbortController();
    const end = sleep(seconds, late.signal).then(() => false, () => true);
    for (let isInTime = true; isInTime && !holds(); ) isInTime = await Promise.race([this.#bell.heard().then(() => true), end]);
    late.abort();
    await end;
  }

  /** The server did not do what it was asked. */
  async #failed(error: unknown): Promise<void> {
    if (error instanceof NotFoundError && error.code === "worker_not_found") {
      this.#isRegistered = false;
    } else {
      this.#unheard(error instanceof Error ? error.message : String(error));
    }
    await sleep(this.#backoff.next(retryAfter(error)), this.#cut.signal).catch(() => {});
  }

  #unheard(why: string): void {
    if (!this.#isAway) this.crew.warn(`the server does not do its work, and is asked until it does: ${why}`);
    this.#isAway = true;
  }

  #heard(): void {
    if (this.#isAway) this.crew.info("the server works again");
    this.#isAway = false;
  }
}

/** Whether the server may have given tasks for a claim that failed so. */
function mayHaveBeenHeard(error: unknown): boolean {
  if (error instanceof ConnectionLostError) return error.sent;
  if (error instanceof UnavailableError) return !error.wasNotDone;
  return !(error instanceof NotFoundError || error instanceof RefusedError || error instanceof UnauthorisedError);
}

function retryAfter(error: unknown): number | undefined {
  return error instanceof UnavailableError ? error.retryAfter : undefined;
}
