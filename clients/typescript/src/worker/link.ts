/**
 * What a worker says to the server, each thing once. Who says it decides what to do when it was not heard: a worker goes on for ever, and what may be said
 * again differs from thing to thing.
 */
import { part, secretHeader } from "../calls.js";
import { Connection, type Address } from "../connection.js";
import type {
  ClaimResponse, Heartbeat, Lease, NewWorker, Pulse, RegisteredWorker, ReportedOutcome, ReportedOutcomes,
} from "../wire.js";

/** A piece of JSON that is already written. */
export type Written = string;

export class Link {
  readonly #connection: Connection;
  readonly #headers: Record<string, string> | undefined;

  /** For the worker that has this secret. */
  constructor(address: Address, secret: string) {
    this.#connection = new Connection(address);
    this.#headers = secretHeader(secret);
  }

  register(worker: NewWorker, signal: AbortSignal): Promise<RegisteredWorker> {
    return this.#post("/v1/workers", JSON.stringify(worker), 0, signal);
  }

  claim(worker: string, limit: number, wait: number, outcomes: Written[], signal: AbortSignal): Promise<ClaimResponse> {
    const body = `{"limit":${limit},"wait_seconds":${wait},"outcomes":[${outcomes.join(",")}]}`;
    return this.#post(`/v1/workers/${part(worker)}/claim`, body, wait, signal);
  }

  async finish(worker: string, outcomes: Written[], signal?: AbortSignal): Promise<ReportedOutcome[]> {
    const body = `{"outcomes":[${outcomes.join(",")}]}`;
    return (await this.#post<ReportedOutcomes>(`/v1/workers/${part(worker)}/finish`, body, 0, signal)).outcomes;
  }

  async report(worker: string, reports: Written[], signal?: AbortSignal): Promise<ReportedOutcome[]> {
    const body = `{"reports":[${reports.join(",")}]}`;
    return (await this.#post<ReportedOutcomes>(`/v1/workers/${part(worker)}/report`, body, 0, signal)).outcomes;
  }

  heartbeat(worker: string, beat: Heartbeat, signal?: AbortSignal): Promise<Pulse> {
    const path = `/v1/workers/${part(worker)}/heartbeat`;
    return this.#post(path, JSON.stringify(beat), beat.wait_seconds ?? 0, signal);
  }

  async deregister(worker: string, signal: AbortSignal): Promise<void> {
    await this.#connection.ask({ method: "DELETE", path: `/v1/workers/${part(worker)}`, headers: this.#headers, signal });
  }

  close(): void {
    this.#connection.close();
  }

  async #post<T>(path: string, body: Written, waitSeconds: number, signal?: AbortSignal): Promise<T> {
    return JSON.parse(await this.#connection.ask({ method: "POST", path, body, waitSeconds, headers: this.#headers, signal })) as T;
  }
}

/** What tells one claim from every other. */
export function keyOf({ id, lease }: Lease): string {
  return `${id}#${lease}`;
}
