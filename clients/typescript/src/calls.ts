/**
 * Calls: requests with JSON in and out, repeated while the server is away, as far as that is safe.
 *
 * A request that cannot have arrived, or that the server did not begin, may always be sent again. One that may have arrived is sent again only if the
 * caller says that it may be `repeated`: it changes nothing, or does the same again. After a bounded number of tries the error is the caller's.
 */
import { certificate, Connection, type Address, type Request } from "./connection.js";
import { ConnectionLostError, UnavailableError } from "./errors.js";
import { Backoff, sleep } from "./pause.js";

/** How a client is set up. */
export interface ClientOptions {
  /** The server; `WINDLASS_SERVER` unless said, else `http://127.0.0.1:7070`. */
  server?: string | undefined;
  /** The access token; `WINDLASS_TOKEN` unless said. */
  token?: string | undefined;
  /** Certificates of authorities to trust instead of those that Node knows: PEM, or the name of a file with it. */
  ca?: string | undefined;
  /** Whose tasks, workflows and schedules are meant; `default` unless said. Listings of tasks and workflows show all, unless they are told. */
  namespace?: string | undefined;
  /** How long an answer may take, beyond what the request asks the server to wait; 30 unless said. */
  timeoutSeconds?: number | undefined;
  /** How often a call is tried while the server is away, as far as that is safe; 6 unless said, which takes about 4 s. */
  tries?: number | undefined;
}

/** What a request needs beside its path. */
export interface CallOptions {
  /** What is sent, as JSON; nothing if it is absent. */
  body?: unknown;
  query?: Query | undefined;
  /** Whether it may be sent again when it is not known what came of it; requests of `GET`, `PUT` and `DELETE` may, unless said. */
  repeated?: boolean | undefined;
  /** Told when it is sent again although it may have arrived. */
  onRepeat?: (() => void) | undefined;
  /** How often it is tried at most; as often as the client's options say, unless said. */
  tries?: number | undefined;
  /** How long the server was asked to wait. */
  waitSeconds?: number | undefined;
  /** What goes with it beside what goes with every request. */
  headers?: Record<string, string> | undefined;
  signal?: AbortSignal | undefined;
}

/** What comes after the `?`; what is absent is left out. Several words are joined by commas. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export class Calls {
  readonly #connection: Connection;
  readonly #tries: number;
  /** @internal */
  readonly namespace: string | undefined;

  constructor(options: ClientOptions = {}) {
    const { timeoutSeconds = 30, tries = 6 } = options;
    if (!(timeoutSeconds > 0)) throw new RangeError(`timeoutSeconds is ${timeoutSeconds}; more than 0 is accepted`);
    if (!(tries >= 1)) throw new RangeError(`tries is ${tries}; 1 or more is accepted`);
    this.#connection = new Connection({
      server: options.server ?? process.env["WINDLASS_SERVER"] ?? "http://127.0.0.1:7070",
      token: options.token ?? process.env["WINDLASS_TOKEN"],
      ca: options.ca === undefined ? undefined : certificate(options.ca),
      timeoutSeconds,
    });
    this.#tries = tries;
    this.namespace = options.namespace;
  }

  /** Where the server is. */
  get server(): string {
    return this.#connection.address.server;
  }

  /** Asks any route, for those that have no method here, such as `GET /v1/analytics`. */
  async call<Answer>(method: Request["method"], path: string, options: CallOptions = {}): Promise<Answer> {
    const text = options.body === undefined ? undefined : JSON.stringify(options.body);
    return JSON.parse(await this.text(method, path, options, text)) as Answer;
  }

  /** Closes connections that nobody uses. What is under way goes on. */
  close(): void {
    this.#connection.close();
  }

  /** How to reach the same server, for a worker and its thread. @internal */
  get address(): Address {
    return this.#connection.address;
  }

  /** Asks, and gives the text of the answer. */
  protected async text(
    method: Request["method"],
    path: string,
    options: CallOptions,
    body?: string,
    type?: string,
  ): Promise<string> {
    const { signal, waitSeconds, headers, repeated = method !== "POST", tries = this.#tries } = options;
    const request = { method, path: path + search(options.query), body, type, headers, signal, waitSeconds };
    const backoff = new Backoff();
    for (let tried = 1; ; tried++) {
      try {
        return await this.#connection.ask(request);
      } catch (error) {
        if (tried >= tries || !mayRepeat(error, repeated)) throw error;
        if (!wasNotDone(error)) options.onRepeat?.();
        await sleep(backoff.next(error instanceof UnavailableError ? error.retryAfter : undefined), signal);
      }
    }
  }

  /** Asks once for an answer that does not end. */
  protected stream(path: string, query: Query, headers: Record<string, string>, signal?: AbortSignal): AsyncGenerator<string> {
    const accept = { accept: "text/event-stream", ...headers };
    return this.#connection.stream({ method: "GET", path: path + search(query), headers: accept, signal });
  }
}

/** Whether nothing can have come of a request that failed so. */
function wasNotDone(error: unknown): boolean {
  return error instanceof ConnectionLostError ? !error.sent : error instanceof UnavailableError && error.wasNotDone;
}

/** Whether a request that failed so may be sent again. A fault of the server (500) would only happen again. */
function mayRepeat(error: unknown, repeated: boolean): boolean {
  if (wasNotDone(error)) return true;
  const isAway = error instanceof ConnectionLostError || (error instanceof UnavailableError && error.status !== 500);
  return repeated && isAway;
}

/** A query as it is written, with its `?`. */
export function search(query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  if (given.length === 0) return "";
  return `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`;
}

/** The header by which a worker proves that it is itself. */
export function secretHeader(secret: string | undefined): Record<string, string> | undefined {
  return secret === undefined ? undefined : { "windlass-worker-secret": secret };
}

/** A part of a path. */
export const part = encodeURIComponent;
