/** How far each member of a chat is, who types, and who is online. */

export const TYPING_MS = 6_000;

export class Marks {
  #receipts = new Map();
  #typing = new Map();
  #presence = new Map();
  #now;

  constructor({ now = Date.now } = {}) {
    this.#now = now;
  }

  /** A chat's marks by user id: `{delivered, read}`; `read` is undefined where the person hides it. */
  receipts(chatId) {
    return this.#receipts.get(chatId) ?? new Map();
  }

  /** Marks never move back, in whatever order they arrive. */
  addReceipts(chatId, marks) {
    const known = this.receipts(chatId);
    for (const { user_id: userId, last_acked_sequence: acked, last_read_sequence: seen } of marks) {
      const before = known.get(userId) ?? { delivered: 0 };
      const read = seen === undefined || seen === null ? before.read : Math.max(seen, before.read ?? 0);
      known.set(userId, { delivered: Math.max(before.delivered, acked, read ?? 0), read });
    }
    this.#receipts.set(chatId, known);
  }

  /**
   * Forget the read marks that `marks`, an answer of the API, no longer has: they are hidden now. `before` is what was
   * known when it was asked for: what has arrived since is kept.
   */
  hideReads(chatId, marks, before) {
    const known = this.receipts(chatId);
    for (const { user_id: userId, last_read_sequence: seen } of marks) {
      const { delivered, read } = known.get(userId);
      const isHidden = (seen === undefined || seen === null) && read === before.get(userId)?.read;
      if (isHidden) known.set(userId, { delivered, read: undefined });
    }
  }

  /** Who types now, in the order they began. A typist who is not heard of again is forgotten after six seconds. */
  typing(chatId) {
    const typists = this.#typing.get(chatId) ?? new Map();
    return [...typists].filter(([, until]) => until > this.#now()).map(([userId]) => userId);
  }

  setTyping(chatId, userId, active) {
    const typists = this.#typing.get(chatId) ?? new Map();
    if (active) typists.set(userId, this.#now() + TYPING_MS);
    else typists.delete(userId);
    this.#typing.set(chatId, typists);
  }

  /** `{status, last_seen?}` of a watched person; undefined while it is not known. */
  presence(userId) {
    return this.#presence.get(userId);
  }

  setPresence({ user_id: userId, status, last_seen }) {
    this.#presence.set(userId, { status, last_seen });
  }

  /** The person is no longer watched. */
  forgetPresence(userId) {
    this.#presence.delete(userId);
  }

  /** Without a connection nobody is known to type or to be online. */
  clearLive() {
    this.#typing.clear();
    this.#presence.clear();
  }
}
