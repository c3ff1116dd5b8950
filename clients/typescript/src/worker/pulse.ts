/** The heartbeat as the worker sees it: in a thread of its own, or in the worker's own loop where no thread can be had. */
import { Worker as Thread } from "node:worker_threads";
import type { Address } from "../connection.js";
import type { Lease } from "../wire.js";
import { Beat, type News } from "./beat.js";
import { keyOf, Link } from "./link.js";

/** What the thread is given. */
export interface Setting {
  address: Address;
  worker: string;
  secret: string;
  seconds: number;
}

/** What the thread is told. */
export type Order =
  | { do: "hold"; leases: readonly Lease[] }
  | { do: "let go"; lease: Lease }
  | { do: "registered" }
  | { do: "stop" };

/** What a worker asks of its heartbeat. */
export interface Pulse {
  hold(leases: readonly Lease[]): void;
  letGo(lease: Lease): void;
  registered(): void;
  /** Comes when nothing more is said. */
  stop(): Promise<void>;
}

/** A heartbeat in the worker's own loop. A handler that does not yield stops it. */
export function beatHere({ address, worker, secret, seconds }: Setting, tell: (news: News) => void): Pulse {
  const link = new Link(address, secret);
  const beat = new Beat(link, worker, seconds, tell);
  const done = beat.run();
  return {
    hold: (leases) => beat.hold(leases),
    letGo: (lease) => beat.letGo(lease),
    registered: () => beat.registered(),
    stop: async () => {
      beat.stop();
      await done;
      link.close();
    },
  };
}

/**
 * A heartbeat in a thread of its own. Should the thread not start or die, as it may where a bundler left its file out, the heartbeat goes on here, and
 * `warn` is told.
 */
export function beatApart(setting: Setting, tell: (news: News) => void, warn: (message: string) => void): Pulse {
  const held = new Map<string, Lease>();
  const thread = new Thread(new URL("./beat-thread.js", import.meta.url), { workerData: setting });
  // The worker's own requests keep the program alive, as long as it is to live.
  thread.unref();
  let here: Pulse | undefined;
  let isStopping = false;
  const gone = new Promise<void>((resolve) => {
    thread.on("exit", () => {
      resolve();
      if (isStopping || here) return;
      here = beatHere(setting, tell);
      here.hold([...held.values()]);
    });
  });
  thread.on("message", tell);
  thread.on("error", (error) => {
    warn(`the heartbeat has no thread of its own, and handlers that do not yield will stop it: ${String(error)}`);
  });
  const order = (order: Order) => thread.postMessage(order);
  return {
    hold: (leases) => {
      for (const lease of leases) held.set(keyOf(lease), lease);
      here ? here.hold(leases) : order({ do: "hold", leases });
    },
    letGo: (lease) => {
      held.delete(keyOf(lease));
      here ? here.letGo(lease) : order({ do: "let go", lease });
    },
    registered: () => (here ? here.registered() : order({ do: "registered" })),
    stop: async () => {
      isStopping = true;
      if (here) return here.stop();
      order({ do: "stop" });
      thread.ref();
      await gone;
    },
  };
}
