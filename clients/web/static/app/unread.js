/** How many messages of a chat are unread: the server's count, corrected by what has arrived and was read since. */

export class Unread {
  #arrived = [];

  constructor() {
    this.count = 0;
    /** Everything up to here is read. */
    this.mark = 0;
  }

  /** The inbox was read: `mark` and `count` as the server had them when the chat's last entry was `last`. */
  onInbox({ last, mark, count }) {
    this.#arrived = this.#arrived.filter((sequence) => sequence > last);
    if (mark >= this.mark) this.count = count + this.#arrived.length;
    // The server has not seen the newer mark of this page yet.
    else if (this.mark >= last) this.count = this.#arrived.length;
    this.mark = Math.max(this.mark, mark);
  }

  /** A new message of somebody else arrived. */
  onMessage(sequence) {
    if (sequence <= this.mark) return;
    this.#arrived.push(sequence);
    this.count += 1;
  }

  /**
   * Everything up to `mark` was read, here or elsewhere. `last` is the chat's last entry; `unread` are the sequences of
   * the messages behind the mark, null if they are not known. Returns whether the count is certain.
   */
  moveTo(mark, { last, unread }) {
    if (mark <= this.mark) return true;
    this.mark = mark;
    this.#arrived = this.#arrived.filter((sequence) => sequence > mark);
    if (mark >= last) this.count = 0;
    else if (unread) this.count = unread.length;
    return mark >= last || unread !== null;
  }
}
