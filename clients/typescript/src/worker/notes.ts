/**
 * What attempts tell about themselves while they run: progress, lines of a log, checkpoints. Gathered for a moment and sent together; kept and sent again
 * while the server is away.
 */
import { WindlassError } from "../errors.js";
import { Backoff, sleep } from "../pause.js";
import type { Lease, NewLine, NewProgress } from "../wire.js";
import { keyOf, type Link, type Written } from "./link.js";
import { takeBatch } from "./parcels.js";

/** How long what is told may wait for more. */
const GATHER_SECONDS = 0.1;

/** Lines that are kept until they are sent: of more, the newest. It is what a server keeps of an attempt. */
const LINES = 1_000;

/** Characters of a line. The server keeps as many bytes. */
const LINE_LENGTH = 4_096;

/** What one attempt has told and was not sent yet. */
interface Page {
  lease: Lease;
  progress?: NewProgress | undefined;
  checkpoint?: Written | undefined;
  lines: NewLine[];
  /** How many lines there were before these. */
  firstLine: number;
  /** Who waits until it is kept. */
  waiting: { resolve: () => void; reject: (error: unknown) => void }[];
}

export class Notes {
  readonly #pages = new Map<string, Page>();
  #sending: Promise<void> | undefined;
  #gathered = new AbortController();

  constructor(
    readonly link: Link,
    readonly worker: string,
    readonly warn: (message: string) => void,
  ) {}

  progress(lease: Lease, progress: NewProgress): void {
    this.#page(lease).progress = progress;
    this.#send();
  }

  line(lease: Lease, text: string): void {
    const page = this.#page(lease);
    page.lines.push({ at: new Date().toISOString(), text: text.slice(0, LINE_LENGTH) });
    if (page.lines.length > LINES) page.firstLine += page.lines.splice(0, page.lines.length - LINES).length;
    this.#send();
  }

  /** Comes when it is kept by the server. */
  async checkpoint(lease: Lease, value: unknown): Promise<void> {
    const checkpoint: Written | undefined = JSON.stringify(value);
    if (checkpoint === undefined) throw new TypeError(`a checkpoint cannot be a ${typeof value}; JSON is accepted`);
    this.#page(lease).checkpoint = checkpoint;
    await this.flush(lease);
  }

  /** Comes when everything that was told so far is kept. What is refused is told as an error; who does not wait need not care. */
  flush(lease: Lease): Promise<void> {
    const page = this.#pages.get(keyOf(lease));
    if (!page || isBlank(page)) return Promise.resolve();
    const kept = new Promise<void>((resolve, reject) => page.waiting.push({ resolve, reject }));
    kept.catch(() => {});
    this.#send();
    this.#gathered.abort();
    return kept;
  }

  /** The attempt is over, or not this worker's any more: what was not sent is dropped. */
  forget(lease: Lease, reason?: unknown): void {
    const page = this.#pages.get(keyOf(lease));
    this.#pages.delete(keyOf(lease));
    page?.waiting.forEach(({ reject }) => reject(reason));
  }

  #page(lease: Lease): Page {
    const key = keyOf(lease);
    const page = this.#pages.get(key) ?? { lease, lines: [], firstLine: 0, waiting: [] };
    this.#pages.set(key, page);
    return page;
  }

  #send(): void {
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = undefined));
  }

  /** Sends until there is nothing to send. */
  async #sendAll(): Promise<void> {
    const backoff = new Backoff();
    for (;;) {
      this.#gathered = new AbortController();
      const isUrgent = [...this.#pages.values()].some((page) => page.waiting.length > 0);
      if (!isUrgent) await sleep(GATHER_SECONDS, this.#gathered.signal).catch(() => {});
      const told = [...this.#pages.values()].filter((page) => !isBlank(page)).map((page) => ({ page, written: write(page) }));
      if (told.length === 0) return;
      const batch = takeBatch(told).map(({ page, written }) => ({ written, sent: tornOff(page), page }));
      try {
        const answers = await this.link.report(this.worker, batch.map(({ written }) => written));
        batch.forEach(({ sent }, index) => this.#answered(sent, answers[index]?.error?.detail));
        backoff.reset();
      } catch (error) {
        for (const { page, sent } of batch) {
          if (this.#pages.get(keyOf(page.lease)) === page) putBack(page, sent);
          else sent.waiting.forEach(({ reject }) => reject(error));
        }
        if (!this.#refused(batch.map(({ page }) => page), error)) await sleep(backoff.next());
      }
    }
  }

  #answered(sent: Page, refused: string | undefined): void {
    if (refused === undefined) return sent.waiting.forEach(({ resolve }) => resolve());
    sent.waiting.forEach(({ reject }) => reject(new Error(refused)));
  }

  /** Drops what the server says cannot be meant; whether that is what is wrong. */
  #refused(pages: Page[], error: unknown): boolean {
    if (!(error instanceof WindlassError) || ![400, 413, 422].includes(error.status)) return false;
    const bad = error.index === undefined ? pages : [pages[error.index]!];
    for (const page of bad) {
      this.warn(`what task ${page.lease.id} told was refused: ${error.detail}`);
      tornOff(page).waiting.forEach(({ reject }) => reject(error));
    }
    return true;
  }
}

function isBlank(page: Page): boolean {
  return page.progress === undefined && page.checkpoint === undefined && page.lines.length === 0;
}

function write({ lease, progress, checkpoint, lines, firstLine }: Page): Written {
  const head = JSON.stringify({ ...lease, progress, lines, first_line: firstLine });
  return checkpoint === undefined ? head : `${head.slice(0, -1)},"checkpoint":${checkpoint}}`;
}

/** What a page says, which it then says no more. */
function tornOff(page: Page): Page {
  const sent = { ...page };
  page.firstLine += page.lines.length;
  page.progress = page.checkpoint = undefined;
  page.lines = [];
  page.waiting = [];
  return sent;
}

/** Says again what was not heard; what was told since is newer. */
function putBack(page: Page, sent: Page): void {
  page.progress ??= sent.progress;
  page.checkpoint ??= sent.checkpoint;
  page.lines = [...sent.lines, ...page.lines];
  page.firstLine = sent.firstLine;
  page.waiting = [...sent.waiting, ...page.waiting];
}
