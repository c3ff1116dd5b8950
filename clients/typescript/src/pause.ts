/** Pauses: sleeping that can be cut short, and how long to rest between tries. Nothing here is about tasks. */

/** The longest that a timer of this platform can wait. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Comes after so many seconds; at once, with the signal's reason, if it is aborted. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clear();
      reject(signal?.reason);
    };
    const clear = after(seconds, () => {
      signal?.removeEventListener("abort", stop);
      resolve();
    });
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Does something after so many seconds, however many; what it returns prevents that. */
export function after(seconds: number, act: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (left: number) => {
    const now = Math.min(left, LONGEST_TIMER);
    timer = setTimeout(() => (left > now ? arm(left - now) : act()), now);
  };
  arm(Math.max(0, seconds * 1000));
  return () => clearTimeout(timer);
}

/** How long to rest between tries of something that failed: longer each time, within bounds, and never in step with others. */
export class Backoff {
  #failures = 0;

  constructor(
    readonly first = 0.1,
    readonly most = 5,
  ) {}

  /** It went well. */
  reset(): void {
    this.#failures = 0;
  }

  /** How many seconds to rest now. A time that the server asked for is kept, within bounds. */
  next(asked?: number): number {
    const span = Math.min(this.most, this.first * 2 ** Math.min(this.#failures++, 30));
    const pause = span * (0.5 + Math.random() / 2);
    return asked === undefined ? pause : Math.min(Math.max(asked, pause), 60);
  }
}
