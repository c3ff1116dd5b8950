/**
 * What became of attempts and is not known to have been heard. Each is kept until the server has answered it: everything in here may be said again.
 *
 * A batch is refused as a whole if one of it cannot be meant, such as a result that is too long. That one is then told as a failure, in the server's words.
 */
import { WindlassError } from "../errors.js";
import type { Lease, ReportedOutcome } from "../wire.js";
import type { Written } from "./link.js";
import { written } from "./outcome.js";
import { takeBatch } from "./parcels.js";

/** One outcome, and who wants to know what came of it. */
export interface Parcel {
  lease: Lease;
  written: Written;
  answered: (answer: ReportedOutcome) => void;
}

export class Outbox {
  #line: Parcel[] = [];
  /** After a refusal that names none of a batch they go one by one, until all have gone. */
  #oneByOne = false;

  get isEmpty(): boolean {
    return this.#line.length === 0;
  }

  put(parcel: Parcel): void {
    this.#line.push(parcel);
  }

  /** What goes with the next request. */
  take(): Parcel[] {
    const taken = takeBatch(this.#line, this.#oneByOne ? 1 : undefined);
    if (this.isEmpty) this.#oneByOne = false;
    return taken;
  }

  /** The server has answered. */
  answered(parcels: readonly Parcel[], answers: readonly ReportedOutcome[]): void {
    parcels.forEach((parcel, index) => {
      const answer = answers[index];
      if (answer) parcel.answered(answer);
      else this.put(parcel);
    });
  }

  /** It did not, or refused them: they go again, and first. */
  returned(parcels: Parcel[], error: unknown): void {
    if (error instanceof WindlassError && [400, 413, 422].includes(error.status)) this.#refused(parcels, error);
    this.#line = [...parcels, ...this.#line];
  }

  #refused(parcels: Parcel[], error: WindlassError): void {
    const index = error.index ?? (parcels.length === 1 ? 0 : undefined);
    const parcel = index === undefined ? undefined : parcels[index];
    if (!parcel) {
      this.#oneByOne = true;
      return;
    }
    const why = `what the handler returned was refused: ${error.detail}`;
    parcel.written = written(parcel.lease, { outcome: "failed", retryable: false, error: why });
  }
}
