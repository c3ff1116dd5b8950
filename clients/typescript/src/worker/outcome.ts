/** How a handler ends: what it throws, and what is told about what it returned or threw. */
import type { Lease, Outcome } from "../wire.js";
import type { Written } from "./link.js";

/** The attempt failed, and so would every other: the task is not tried again. */
export class Fail extends Error {
  override name = "Fail";
}

/** The attempt failed; try again after this delay instead of the one that the task's policy says, if attempts are left. */
export class Retry extends Error {
  override name = "Retry";

  constructor(
    message: string,
    /** The policy's unless said. */
    readonly delaySeconds?: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Not now: come back after this delay. Costs no attempt. */
export class Snooze extends Error {
  override name = "Snooze";

  constructor(readonly delaySeconds: number) {
    super(`come back in ${delaySeconds} s`);
  }
}

/** The task should not be done. */
export class Cancel extends Error {
  override name = "Cancel";
}

/** What is told about an attempt, beside whose it is. The result is already written: it stays what it was when the handler returned it. */
export type Ending = Omit<Outcome, "id" | "lease" | "result"> & { result?: Written };

/** What is told, as it is sent. */
export function written({ id, lease }: Lease, { result, ...rest }: Ending): Written {
  const head = JSON.stringify({ id, lease, ...rest });
  return result === undefined ? head : `${head.slice(0, -1)},"result":${result}}`;
}

/** The handler returned this. Nothing counts as `null`; what is no JSON is a failure that would happen again. */
export function returned(value: unknown): Ending {
  if (value === undefined) return { outcome: "completed" };
  const refuse = (why: string): Ending =>
    ({ outcome: "failed", retryable: false, error: `the handler's result cannot be written as JSON: ${why}` });
  try {
    const result: string | undefined = JSON.stringify(value);
    return result === undefined ? refuse(`it is a ${typeof value}`) : { outcome: "completed", result };
  } catch (error) {
    return refuse(describe(error));
  }
}

/** The handler threw this. */
export function thrown(error: unknown): Ending {
  if (error instanceof Fail) return { outcome: "failed", retryable: false, error: describe(error) };
  if (error instanceof Retry) return { outcome: "failed", error: describe(error), delay_seconds: error.delaySeconds };
  if (error instanceof Snooze) return { outcome: "snoozed", delay_seconds: error.delaySeconds };
  if (error instanceof Cancel) return { outcome: "cancelled", error: describe(error) };
  return { outcome: "failed", error: describe(error) };
}

/** Whether a handler threw it to say how it ends, and not because something went wrong in it. */
export function isMeant(error: unknown): boolean {
  return [Fail, Retry, Snooze, Cancel].some((meant) => error instanceof meant);
}

/** An error in words, with its causes, outermost first. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return typeof error === "string" ? error : `something was thrown that is no error: ${printed(error)}`;
  const name = isMeant(error) || error.name === "Error" ? "" : error.name;
  const words = [name, error.message].filter((word) => word !== "").join(": ") || "Error";
  return error.cause === undefined || error.cause === error ? words : `${words}: ${describe(error.cause)}`;
}

function printed(value: unknown): string {
  try {
    return String(JSON.stringify(value) ?? value);
  } catch {
    return String(value);
  }
}
