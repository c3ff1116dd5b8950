/** Batches of written JSON: how many go into one request. */
import type { Written } from "./link.js";

/** So many at most: the server takes 1,000. */
const MOST = 500;

/** Bytes of one request, about: far less than the 16 MiB that a server takes, unless it was told otherwise. */
const BYTES = 4 << 20;

/** Takes from the front of a line what may go into one request: one at least. */
export function takeBatch<T extends { written: Written }>(line: T[], most = MOST): T[] {
  let [count, bytes] = [0, 0];
  for (const { written } of line) {
    bytes += written.length;
    if (count > 0 && (count >= most || bytes > BYTES)) break;
    count++;
  }
  return line.splice(0, count);
}
