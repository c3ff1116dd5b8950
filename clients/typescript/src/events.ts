/**
 * Changes as they happen, and waiting for one of them.
 *
 * `events` goes on by itself after a lost connection, from the last event that was handed out: nothing is missed and nothing is told twice, unless the
 * server says so (`reset`).
 */
import { Calls, type Query } from "./calls.js";
import { ConnectionLostError, UnavailableError, WaitTimeoutError, WindlassError } from "./errors.js";
import { after, Backoff, sleep } from "./pause.js";
import { FrameReader, type Frame } from "./sse.js";
import type { TaskState, WorkflowState } from "./wire.js";

/** A change of a task. */
export interface TaskEvent {
  type: "task";
  /** Where the stream is with this event: what `after` takes. */
  eventId: string;
  id: string;
  namespace: string;
  queue: string;
  kind: string;
  /** Where it is then. */
  state: TaskState;
  attempt: number;
  workflow_id: string | null;
  at: string;
}

/** A change of a workflow. */
export interface WorkflowEvent {
  type: "workflow";
  eventId: string;
  id: string;
  namespace: string;
  definition: string;
  /** Where it is then. */
  state: WorkflowState;
  at: string;
}

/** Some changes were missed and are not known any more: look at everything anew. */
export interface ResetEvent {
  type: "reset";
  eventId: string;
  reason: string;
}

export type WindlassEvent = TaskEvent | WorkflowEvent | ResetEvent;

/** Which changes. Everything that is said must hold. */
export interface EventFilter {
  task?: string | undefined;
  /** Of this workflow and its steps. */
  workflow?: string | undefined;
  namespace?: string | undefined;
  queue?: string | undefined;
  kind?: string | undefined;
  definition?: string | undefined;
  /** To one of these states. */
  state?: TaskState | WorkflowState | readonly (TaskState | WorkflowState)[] | undefined;
}

export interface EventOptions {
  /** Go on after the event with this `eventId`; from now on unless said. */
  after?: string | undefined;
  /** Ends the iteration, with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Told when the stream is open, also each time it was lost and is open again. */
  onOpen?: (() => void) | undefined;
}

export interface WaitOptions {
  /** After how long to give up with a `WaitTimeoutError`; never unless said. */
  timeoutSeconds?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** So many streams are open for waiting at once; who else waits asks again and again. */
const STREAMS = 16;

/** How long to rest between such questions: at first, and at most. */
const [FIRST_LOOK, LAST_LOOK] = [0.05, 2];

export class EventCalls extends Calls {
  /** Changes of tasks and workflows as they happen, for ever: leave the loop, or abort the signal, to end it. */
  async *events(filter: EventFilter = {}, options: EventOptions = {}): AsyncGenerator<WindlassEvent, void, void> {
    const { signal, onOpen } = options;
    const backoff = new Backoff();
    let last = options.after;
    for (;;) {
      let pause: number | undefined;
      try {
        for await (const frame of this.#frames(filter, last, signal)) {
          if (frame.event === "ready") {
            backoff.reset();
            onOpen?.();
          }
          // Before it is handed out: who is asked for the next one has been given this one.
          last = frame.id ?? last;
          const event = read(frame);
          if (event) yield event;
        }
      } catch (error) {
        if (!isAway(error)) throw error;
        pause = error instanceof UnavailableError ? error.retryAfter : undefined;
      }
      await sleep(backoff.next(pause), signal);
    }
  }

  #streams = 0;

  /** Looks until what is looked at is `over`. By a stream of its own, so that it comes at once; by asking, if there are many or the server has no room for it. */
  protected async until<T>(
    what: string,
    filter: EventFilter,
    look: (signal: AbortSignal) => Promise<T>,
    over: (seen: T) => boolean,
    { timeoutSeconds, signal }: WaitOptions,
  ): Promise<T> {
    const late = new WaitTimeoutError(`${what} is not over after ${timeoutSeconds} s; it goes on`);
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    const forget = timeoutSeconds === undefined ? undefined : after(timeoutSeconds, () => controller.abort(late));
    try {
      const rest = new Backoff(FIRST_LOOK, LAST_LOOK);
      for (;;) {
        const seen = (await this.#glimpse(look, over, controller.signal)) ?? (await this.#listen(filter, look, over, controller.signal));
        if (seen !== undefined) return seen;
        await sleep(rest.next(), controller.signal);
      }
    } finally {
      forget?.();
      signal?.removeEventListener("abort", abort);
    }
  }

  /** What is looked at, if it is over; nothing if it is not, or the server is away. */
  async #glimpse<T>(
    look: (signal: AbortSignal) => Promise<T>,
    over: (seen: T) => boolean,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    try {
      const seen = await look(signal);
      return over(seen) ? seen : undefined;
    } catch (error) {
      if (isAway(error)) return undefined;
      throw error;
    }
  }

  /** Looks at every event of a stream; nothing if it is lost, or there is no room for it. */
  async #listen<T>(
    filter: EventFilter,
    look: (signal: AbortSignal) => Promise<T>,
    over: (seen: T) => boolean,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    if (this.#streams >= STREAMS) return undefined;
    this.#streams++;
    try {
      for await (const frame of this.#frames(filter, undefined, signal)) {
        if (frame.data === undefined) continue;
        const seen = await this.#glimpse(look, over, signal);
        if (seen !== undefined) return seen;
      }
    } catch (error) {
      const mayNotListen = error instanceof WindlassError && error.status === 403;
      if (!isAway(error) && !mayNotListen) throw error;
    } finally {
      this.#streams--;
    }
    return undefined;
  }

  /** One connection's events, until it is lost. */
  async *#frames(filter: EventFilter, last: string | undefined, signal?: AbortSignal): AsyncGenerator<Frame> {
    const headers: Record<string, string> = last === undefined ? {} : { "last-event-id": last };
    const reader = new FrameReader();
    for await (const piece of this.stream("/v1/events", { ...filter } as Query, headers, signal)) yield* reader.read(piece);
  }
}

/** Whether the server may be there again later. A fault of it (500) would only happen again. */
function isAway(error: unknown): boolean {
  return error instanceof ConnectionLostError || (error instanceof UnavailableError && error.status !== 500);
}

/** What a frame tells, if anything. */
function read({ id = "", event, data }: Frame): WindlassEvent | undefined {
  if (data === undefined || !["task", "workflow", "reset"].includes(event)) return undefined;
  return { type: event, eventId: id, ...(JSON.parse(data) as object) } as WindlassEvent;
}
