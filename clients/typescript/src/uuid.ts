/** Ids that callers choose: UUIDs of version 7, so that those made later are greater. */
import { randomBytes } from "node:crypto";

/** A new id for a task. The first three of its last 34 bits are ones: no step of a workflow has such an id. */
export function taskId(now = Date.now()): string {
  const made = bytes(now);
  made[11]! |= 0x03;
  made[12]! |= 0x80;
  return written(made);
}

/** A new secret for a worker: what proves to the server that a caller is that worker. */
export function workerSecret(): string {
  return `wlw_${randomBytes(32).toString("hex")}`;
}

/** A new id for a workflow. Its last 34 bits are 0: they number its tasks. */
export function workflowId(now = Date.now()): string {
  const made = bytes(now);
  made[11]! &= 0xfc;
  made.fill(0, 12);
  return written(made);
}

function bytes(now: number): Buffer {
  const made = randomBytes(16);
  made.writeUIntBE(now, 0, 6);
  made[6] = (made[6]! & 0x0f) | 0x70;
  made[8] = (made[8]! & 0x3f) | 0x80;
  return made;
}

function written(made: Buffer): string {
  const hex = made.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
