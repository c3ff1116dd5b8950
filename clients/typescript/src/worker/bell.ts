/** A bell: whoever waits goes on when it rings. It remembers nothing, so look first, and wait without a pause in between. */
export class Bell {
  #ring: () => void = () => {};
  #rang: Promise<void>;

  constructor() {
    this.#rang = new Promise((resolve) => (this.#ring = resolve));
  }

  ring(): void {
    this.#ring();
    this.#rang = new Promise((resolve) => (this.#ring = resolve));
  }

  heard(): Promise<void> {
    return this.#rang;
  }
}
