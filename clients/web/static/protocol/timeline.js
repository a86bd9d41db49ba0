/** The reorder buffer of one chat: returns each message once, in order, without gaps. No network, no clock. */
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
      if (message.sequence >= this.next) this.#buffer.set(message.sequence, message);
    }
    const ready = [];
    for (let message; (message = this.#buffer.get(this.next)) !== undefined; this.next += 1) {
      this.#buffer.delete(this.next);
      ready.push(message);
    }
    return ready;
  }
}
