/**
 * The way to a server: one request, one answer or one error, over connections that are kept open.
 *
 * It is made of `node:http` and not of `fetch`, because on Node 20 `fetch` cannot be given the certificate of one's own authority, and hides
 * whether a request that failed was sent. What it does not do: try again (`calls.ts`), or know what is asked.
 */
import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { ConnectionLostError, refusal } from "./errors.js";

/** Where a server is, and how to speak to it. Plain values only, so that it can be handed to a thread. */
export interface Address {
  /** Such as `https://tasks.example:7070`. */
  server: string;
  token?: string | undefined;
  /** Certificates of authorities to trust, in PEM, instead of those that Node knows. */
  ca?: string | undefined;
  /** How long an answer may take, beyond what the request asks the server to wait. */
  timeoutSeconds: number;
}

/** One request. */
export interface Request {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** With its query. */
  path: string;
  /** The text to send. */
  body?: string | undefined;
  /** What `body` is; JSON unless said. */
  type?: string | undefined;
  headers?: Record<string, string> | undefined;
  /** How long the server was asked to wait. */
  waitSeconds?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** How long to try to reach a server. */
const CONNECT_SECONDS = 10;

/** A connection that nobody uses is closed after so long: before the server does it, which could meet a request on its way. */
const IDLE_SECONDS = 4;

/** A stream on which nothing was said for so long is dead: the server says something every 15 s. */
const SILENCE_SECONDS = 45;

/** A certificate that was given as text, or as the name of a file with it. */
export function certificate(given: string): string {
  return given.includes("-----BEGIN") ? given : readFileSync(given, "utf8");
}

export class Connection {
  readonly #agent: http.Agent;
  readonly #base: URL;
  /** What comes before every path, if the server is not at the root of its host. */
  readonly #prefix: string;

  constructor(readonly address: Address) {
    const { server, ca } = address;
    this.#base = URL.canParse(server) ? new URL(server) : new URL("invalid:");
    const isTls = this.#base.protocol === "https:";
    if (!isTls && this.#base.protocol !== "http:") {
      throw new TypeError(`the server is ${JSON.stringify(server)}; an address such as http://127.0.0.1:7070 is accepted`);
    }
    this.#prefix = this.#base.pathname.replace(/\/+$/, "");
    const options = { keepAlive: true, timeout: IDLE_SECONDS * 1000 };
    this.#agent = isTls ? new https.Agent({ ...options, ...(ca && { ca }) }) : new http.Agent(options);
  }

  /** Sends a request and gives the body of the answer. */
  async ask(request: Request): Promise<string> {
    const limit = this.address.timeoutSeconds + (request.waitSeconds ?? 0);
    const answer = await this.#send(request, limit);
    return accepted(answer, await read(answer, limit, request.signal));
  }

  /** Sends a request whose answer does not end, and gives it part by part. */
  async *stream(request: Request): AsyncGenerator<string, void, void> {
    const answer = await this.#send(request, this.address.timeoutSeconds);
    if (answer.statusCode !== 200) accepted(answer, await read(answer, this.address.timeoutSeconds, request.signal));
    answer.setEncoding("utf8");
    answer.setTimeout(SILENCE_SECONDS * 1000, () => answer.destroy(new Error(`silent for ${SILENCE_SECONDS} s`)));
    try {
      for await (const part of answer) yield part as string;
    } catch (error) {
      throw request.signal?.aborted ? request.signal.reason : lost(error, true);
    } finally {
      answer.destroy();
    }
  }

  /** Closes connections that nobody uses. */
  close(): void {
    this.#agent.destroy();
  }

  #send(request: Request, limit: number): Promise<http.IncomingMessage> {
    const { method, path, body, signal } = request;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const headers: http.OutgoingHttpHeaders = { accept: "application/json", ...request.headers };
      if (this.address.token) headers["authorization"] = `Bearer ${this.address.token}`;
      if (body !== undefined) {
        headers["content-type"] = request.type ?? "application/json";
        headers["content-length"] = Buffer.byteLength(body);
      }
      let connected = false;
      const { request: begin } = this.#base.protocol === "https:" ? https : http;
      const asked = begin(new URL(this.#prefix + path, this.#base), { method, headers, agent: this.#agent });
      const give = (error: unknown) => asked.destroy(error as Error);
      const connecting = setTimeout(() => give(new Error(`not reached within ${CONNECT_SECONDS} s`)), CONNECT_SECONDS * 1000);
      const answering = setTimeout(() => give(new Error(`no answer within ${limit} s`)), limit * 1000);
      const abort = () => give(signal?.reason);
      const done = () => {
        clearTimeout(connecting);
        clearTimeout(answering);
      };
      asked.on("socket", (socket) => {
        const reached = () => {
          connected = true;
          clearTimeout(connecting);
        };
        if (!socket.connecting) return reached();
        socket.once(this.#base.protocol === "https:" ? "secureConnect" : "connect", reached);
      });
      asked.on("error", (error) => {
        done();
        signal?.removeEventListener("abort", abort);
        reject(signal?.aborted ? signal.reason : lost(error, connected));
      });
      asked.on("response", (answer) => {
        done();
        // Whoever aborts while the answer is read cuts that short, too.
        const end = () => signal?.removeEventListener("abort", abort);
        answer.once("close", end);
        resolve(answer);
      });
      signal?.addEventListener("abort", abort, { once: true });
      asked.end(body);
    });
  }
}

/** All of a body. */
async function read(answer: http.IncomingMessage, limit: number, signal?: AbortSignal): Promise<string> {
  const late = setTimeout(() => answer.destroy(new Error(`the answer did not end within ${limit} s`)), limit * 1000);
  try {
    answer.setEncoding("utf8");
    let text = "";
    for await (const part of answer) text += part as string;
    return text;
  } catch (error) {
    throw signal?.aborted ? signal.reason : lost(error, true);
  } finally {
    clearTimeout(late);
  }
}

/** The body of an answer that is none of refusal. */
function accepted(answer: http.IncomingMessage, body: string): string {
  const status = answer.statusCode ?? 0;
  if (status >= 200 && status < 300) return body;
  const seconds = Number(answer.headers["retry-after"]);
  throw refusal(status, body, Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined);
}

function lost(error: unknown, sent: boolean): ConnectionLostError {
  if (error instanceof ConnectionLostError) return error;
  const told = error instanceof Error ? error.message || ("code" in error ? String(error.code) : error.name) : String(error);
  const what = sent ? "the connection to the server was lost" : "the server could not be reached";
  return new ConnectionLostError(`${what}: ${told}`, sent, { cause: error });
}
