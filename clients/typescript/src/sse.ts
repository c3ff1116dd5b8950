/** Server-sent events, read from a stream of text. Knows the format and nothing of what is told. */

/** One event. Without data it only moves the id. */
export interface Frame {
  /** The id of the stream at this event, if one was ever said. */
  id: string | undefined;
  event: string;
  data: string | undefined;
}

/** Reads events that arrive in pieces. One that is not complete when the stream ends was never sent. */
export class FrameReader {
  #rest = "";
  #id: string | undefined;

  /** The events that are complete with this piece. */
  read(piece: string): Frame[] {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    const frames: Frame[] = [];
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line, frames);
    return frames;
  }

  #event = "";
  #data: string[] = [];
  #moved = false;

  #line(line: string, frames: Frame[]): void {
    if (line === "") {
      if (this.#moved || this.#data.length > 0) {
        const data = this.#data.length > 0 ? this.#data.join("\n") : undefined;
        frames.push({ id: this.#id, event: this.#event || "message", data });
      }
      [this.#event, this.#data, this.#moved] = ["", [], false];
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#event = value;
    if (name === "data") this.#data.push(value);
    if (name === "id") [this.#id, this.#moved] = [value, true];
  }
}
