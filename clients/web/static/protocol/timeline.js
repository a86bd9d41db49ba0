const MAX_BUFFERED = 1_000;

/**
 * The reorder buffer of one chat: returns each message once, in order, without gaps. No network, no clock. Buffers at
 * most `MAX_BUFFERED` messages behind a gap; the sync that fills the gap brings the others again.
 */
export class Timeline {
  #buffer = new Map();

  constructor(lastSeen = 0) {
    this.next = lastSeen + 1;
  }

  get lastSeen() {
    return this.next - 1;
  }

  /** A message beyond `next` has arrived, so `next` is missing. */
  get hasGap() {
    return this.#buffer.size > 0;
  }

  /** Add messages; return those that are ready to deliver, in ascending order. */
  take(messages) {
    for (const message of messages) {
      const isWaiting = message.sequence > this.next && this.#buffer.size < MAX_BUFFERED;
      if (isWaiting || message.sequence === this.next) this.#buffer.set(message.sequence, message);
    }
    const ready = [];
    for (let message; (message = this.#buffer.get(this.next)) !== undefined; this.next += 1) {
      this.#buffer.delete(this.next);
      ready.push(message);
    }
    return ready;
  }
}
