/** A way to a server that breaks on purpose: it can lose an answer after the server has done its work, or cut what is open. */
import { once } from "node:events";
import { connect, createServer, type Server as TcpServer, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { atEnd } from "./kit.js";

export class Proxy {
  readonly #pairs = new Set<[Socket, Socket]>();
  #loses: ((request: string) => boolean) | undefined;
  #lost: (() => void) | undefined;
  #refuses = false;

  private constructor(
    readonly url: string,
    server: TcpServer,
    target: { host: string; port: number },
  ) {
    server.on("connection", (outer) => (this.#refuses ? outer.destroy() : this.#join(outer, connect(target))));
  }

  static async start(t: TestContext, target: string): Promise<Proxy> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const { hostname: host, port: to } = new URL(target);
    const proxy = new Proxy(`http://127.0.0.1:${port}`, server, { host, port: Number(to) });
    atEnd(t, async () => {
      proxy.cut();
      server.close();
    });
    return proxy;
  }

  /** The answer to the next request that contains these words is lost: the connection ends when it would be told. Comes when that has happened. */
  loseAnswer(...words: string[]): Promise<void> {
    this.#loses = (request) => words.every((word) => request.includes(word));
    return new Promise((resolve) => (this.#lost = resolve));
  }

  /** Cuts everything off, and lets nobody through until told otherwise. */
  refuse(refuses: boolean): void {
    this.#refuses = refuses;
    if (refuses) this.cut();
  }

  /** Ends everything that is open. */
  cut(): void {
    for (const [outer, inner] of this.#pairs) [outer, inner].forEach((socket) => socket.destroy());
  }

  #join(outer: Socket, inner: Socket): void {
    const pair: [Socket, Socket] = [outer, inner];
    this.#pairs.add(pair);
    let isDoomed = false;
    const end = () => {
      this.#pairs.delete(pair);
      pair.forEach((socket) => socket.destroy());
    };
    pair.forEach((socket) => socket.on("error", end).on("close", end));
    outer.on("data", (data) => {
      if (this.#loses?.(data.toString("latin1"))) {
        isDoomed = true;
        this.#loses = undefined;
      }
      inner.write(data);
    });
    inner.on("data", (data) => {
      if (!isDoomed) return void outer.write(data);
      end();
      this.#lost?.();
    });
  }
}
