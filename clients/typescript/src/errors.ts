/**
 * What can go wrong when a server is asked: one class for each thing that a caller may want to do about it.
 *
 * `code` is the server's stable word and tells them apart more finely. Errors that end a handler are elsewhere, in `worker/outcome.ts`.
 */
import type { Mistake, Problem } from "./wire.js";

/** What all errors of this package have. */
export class WindlassError extends Error {
  override name = "WindlassError";
  /** A word that never changes its meaning, such as `task_not_found`. */
  readonly code: string;
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** What was wrong, and what would be accepted. */
  readonly detail: string;
  /** Which one of a batch it is about, from 0. */
  readonly index: number | undefined;
  /** The mistakes of a definition, one by one. */
  readonly problems: readonly Mistake[];

  constructor(problem: Pick<Problem, "code" | "status" | "detail" | "index" | "problems">, options?: ErrorOptions) {
    super(`${problem.detail} (${problem.code})`, options);
    this.code = problem.code;
    this.status = problem.status;
    this.detail = problem.detail;
    this.index = problem.index ?? undefined;
    this.problems = problem.problems ?? [];
  }
}

/** There is no such thing. */
export class NotFoundError extends WindlassError {
  override name = "NotFoundError";
}

/** It is in a state that does not allow this. */
export class ConflictError extends WindlassError {
  override name = "ConflictError";
}

/** What was sent cannot be meant. Sending it again makes no sense. */
export class RefusedError extends WindlassError {
  override name = "RefusedError";
}

/** No token, one that is not known, or one that does not allow this. */
export class UnauthorisedError extends WindlassError {
  override name = "UnauthorisedError";
}

/** The server is there and cannot do it now: too much to do, or its store does not answer. */
export class UnavailableError extends WindlassError {
  override name = "UnavailableError";
  /** After how many seconds to try again, if the server said so. */
  readonly retryAfter: number | undefined;

  constructor(problem: ConstructorParameters<typeof WindlassError>[0], retryAfter?: number) {
    super(problem);
    this.retryAfter = retryAfter;
  }

  /** Whether nothing can have come of it. */
  get wasNotDone(): boolean {
    return this.code === "overloaded" || this.status === 429;
  }
}

/** The server could not be reached, or did not answer. */
export class ConnectionLostError extends WindlassError {
  override name = "ConnectionLostError";
  /** Whether the request may have arrived, so that something may have come of it. */
  readonly sent: boolean;

  constructor(detail: string, sent: boolean, options?: ErrorOptions) {
    super({ code: "connection_lost", status: 0, detail }, options);
    this.sent = sent;
  }
}

/** What was waited for did not happen in time. It may happen yet. */
export class WaitTimeoutError extends WindlassError {
  override name = "WaitTimeoutError";

  constructor(detail: string) {
    super({ code: "wait_timeout", status: 0, detail });
  }
}

/** The error for an answer that is a refusal. */
export function refusal(status: number, body: string, retryAfter?: number): WindlassError {
  const problem = read(status, body);
  switch (status) {
    case 401:
    case 403:
      return new UnauthorisedError(problem);
    case 404:
      return new NotFoundError(problem);
    case 409:
      return new ConflictError(problem);
    case 408:
    case 429:
      return new UnavailableError(problem, retryAfter);
    default:
      return status >= 500 ? new UnavailableError(problem, retryAfter) : new RefusedError(problem);
  }
}

/** The problem in a body; something like one, if who answered is not the server but something in between. */
function read(status: number, body: string): Problem {
  try {
    const problem = JSON.parse(body) as Partial<Problem> | null;
    if (typeof problem?.code === "string" && typeof problem.detail === "string") {
      return { ...problem, status } as Problem;
    }
  } catch {
    // It is no JSON, and told as it is.
  }
  const told = body.slice(0, 200).trim();
  return { status, code: `http_${status}`, title: "", detail: `answered with ${status}${told && `: ${told}`}` };
}
