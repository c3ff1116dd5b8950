/** The standard handlers of the conformance script, by name. */
import { type Context, Fail, type Handler, Snooze } from "windlass";

export const HANDLERS: Record<string, Handler> = {
  echo: (payload) => payload,
  fail_once: (_, context) => {
    if (context.attempt === 1) throw new Error("not at the first attempt");
    return context.attempt;
  },
  fail: () => {
    throw new Fail("never");
  },
  until_cancelled: (_, { signal }) =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve("stopped");
      signal.addEventListener("abort", () => resolve("stopped"), { once: true });
    }),
  sum: (payload, context) => (numbers(payload) ?? 0) + fromParents(context),
  snooze_once: (_, context) => {
    if (context.lease === 1) throw new Snooze(0.05);
    return context.lease;
  },
  checkpoint: async (_, context) => {
    if (context.attempt > 1) return context.checkpoint;
    await context.saveCheckpoint({ at: 7 });
    throw new Error("only the checkpoint is left");
  },
};

function numbers(payload: unknown): number | undefined {
  return (payload as { n?: number } | null)?.n;
}

function fromParents({ results }: Context): number {
  const all = Object.values(results).flat();
  return all.reduce((sum: number, one) => sum + (typeof one === "number" ? one : 0), 0);
}
