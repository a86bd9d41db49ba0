/**
 * The Parley protocol for browsers: no DOM, no dependency.
 *
 * Delivers each followed chat in order, without gaps or duplicates: it keeps `next` per chat; an entry with
 * `sequence === next` is delivered, a lower one is a duplicate, a higher one triggers a `sync_request` from `next - 1`
 * and is buffered until the gap is filled. It keeps the log of each open chat: its messages as edits, deletions and
 * reactions leave them. It reconnects with backoff and jitter, resends unacknowledged drafts under the same
 * `client_message_id`, and refreshes its tokens.
 *
 *     import { Parley, Session } from "/static/parley/parley.js";
 *
 *     const session = new Session({ storage: localStorage });
 *     await session.requestCode("+14155550123");
 *     await session.verify({ phoneNumber: "+14155550123", code: "123456", deviceId: "my page" });
 *
 *     const parley = new Parley({ session });
 *     parley.addEventListener("entry", ({ detail }) => console.log(parley.log(detail.chat_id).timeline));
 *     parley.start();
 *     await parley.open(chatId);
 *     parley.send(chatId, "hello", { replyTo: 7 });
 *     parley.react(chatId, 7, "👍");
 *
 * Events of `Parley`, each a CustomEvent with this `detail`:
 *
 * | type         | detail                               | when                                                       |
 * | ------------ | ------------------------------------ | ---------------------------------------------------------- |
 * | `state`      | `{state}`                            | `connecting`, `online`, `offline` or `ended`               |
 * | `chats`      | `{items}`                            | the inbox, read after each connect and on `resync`         |
 * | `entry`      | an entry of any kind                 | the next one of a followed chat, after its log applied it  |
 * | `message`    | a message                            | the same, for entries of kind `message` only               |
 * | `activity`   | an entry                             | one of any chat, for lists; may skip some                  |
 * | `pending`    | a draft                              | a draft was queued: `{clientMessageId, chatId, type, …}`   |
 * | `sent`       | `{clientMessageId, chatId, entry}`   | the server has stored it; `entry` null: nothing changed    |
 * | `failed`     | a draft with `error`                 | rejected, or out of attempts; `retry` sends it again       |
 * | `discarded`  | `{clientMessageId, chatId}`          | `discard` removed it from the outbox                       |
 * | `receipts`   | `{chatId, marks}`                    | somebody's marks moved: see `marks.receipts(chatId)`       |
 * | `typing`     | `{chatId, userId}`                   | somebody began or stopped: see `marks.typing(chatId)`      |
 * | `presence`   | `{userId}`                           | a watched person came or went: see `marks.presence(id)`    |
 * | `chat_created`, `membership_changed` | the frame    | as the server pushed it                                    |
 * | `resync`     | `{}`                                 | pushes may have been lost: read the open chat's receipts   |
 * | `left`       | `{chatId}`                           | the user is no longer a member of a followed chat          |
 * | `ended`      | `{reason}`                           | the session is over; log in again                          |
 *
 * `Session` emits `tokens` when they change and `ended` when the session is over.
 */

import { Close, Connection, pauseBefore } from "./protocol/connection.js";
import { ChatLog, changed, kindOf } from "./protocol/log.js";
import { Marks, TYPING_MS } from "./protocol/marks.js";
import { Outbox } from "./protocol/outbox.js";
import { ParleyError, Session } from "./protocol/session.js";
import { Streams } from "./protocol/streams.js";
import { Timeline } from "./protocol/timeline.js";
import { NamedTimers } from "./protocol/timers.js";

export { ChatLog, Close, Marks, Outbox, ParleyError, Session, Timeline, changed, kindOf, pauseBefore };

const MARK_DELAY_MS = 200;
const TYPING_INTERVAL_MS = 3_000;
/** Within two seconds of a start the server forwards no other, not even after an end. */
const TYPING_PAUSE_MS = 2_500;
const WATCH_PAUSE_MS = 100;

/** The connection, the chats and the drafts of one user. One per page. */
export class Parley extends EventTarget {
  #connection;
  #streams;
  #random;
  #maxAttempts;
  #hasMarks = null;
  #countsFromRead = false;
  #isRefreshing = false;
  #refreshRequested = false;
  #waitingMarks = new Map();
  #typing = new Map();
  #watched = new Map();
  #waitingWatches = new Set();
  #timers = new NamedTimers();

  /**
   * `answerWithin`: milliseconds without any frame after a request, before the connection counts as dead.
   * `mostAttempts`: how often a draft is sent before it fails. `WebSocket` and `random` are for tests.
   */
  constructor({ session, outbox, WebSocket, random = Math.random, answerWithin = 10_000, mostAttempts = 6 }) {
    super();
    this.session = session;
    this.outbox = outbox ?? new Outbox();
    this.marks = new Marks();
    this.userId = null;
    this.#random = random;
    this.#maxAttempts = mostAttempts;
    this.#connection = new Connection({
      session,
      WebSocket,
      random,
      answerWithin,
      onOpen: (hello) => this.#onOpen(hello),
      onFrame: (frame) => this.#onFrame(frame),
      onLost: () => this.#onLost(),
      onState: (state) => this.#emit("state", { state }),
    });
    this.#streams = new Streams({
      connection: this.#connection,
      onEntry: (entry) => this.#onEntry(entry),
      onGone: (chatId) => this.#emit("left", { chatId }),
    });
    session.addEventListener("ended", ({ detail }) => this.#emit("ended", detail));
  }

  get state() {
    return this.#connection.state;
  }

  /** How many connections there have been. */
  get connections() {
    return this.#connection.count;
  }

  /** Connect, and reconnect until `stop` or the end of the session. */
  start() {
    this.#connection.start();
  }

  /** Disconnect. Queued drafts stay in the outbox. */
  stop() {
    this.#connection.stop();
  }

  /** Reconnect now, or check the connection with a heartbeat: the page woke up, or the network is back. */
  nudge() {
    this.#connection.nudge();
  }

  /** The browser reports that the network is gone: disconnect without waiting for a missed heartbeat. */
  lostNetwork() {
    this.#connection.drop();
  }

  // Reading

  /** Deliver a chat's entries after `lastSeen`: stored ones are fetched, new ones are pushed. */
  follow(chatId, lastSeen) {
    this.#streams.follow(chatId, lastSeen);
  }

  unfollow(chatId) {
    this.#streams.unfollow(chatId);
    this.#watched.delete(chatId);
    this.#waitingWatches.delete(chatId);
  }

  /** The last delivered sequence of a followed chat; undefined for other chats. */
  lastSeen(chatId) {
    return this.#streams.lastSeen(chatId);
  }

  /** The log of an open chat; undefined for other chats. */
  log(chatId) {
    return this.#streams.log(chatId);
  }

  /**
   * Read the newest entries, follow the chat from there and keep its log, which is returned. A chat that is open already
   * is not read again.
   */
  async open(chatId, { limit = 50 } = {}) {
    if (this.log(chatId)) return this.log(chatId);
    const log = new ChatLog();
    await this.#loadPage(chatId, log, `limit=${limit}`);
    if (this.log(chatId)) return this.log(chatId);
    this.#streams.addLog(chatId, log);
    this.follow(chatId, log.last);
    return log;
  }

  /** Read the pins of an open chat into its log. */
  async loadPins(chatId) {
    const log = this.log(chatId);
    await this.#load(log, `/api/chats/${chatId}/pins`, (read, { items }) => log.endPins(read, items));
  }

  /** Read the page before the oldest entry of an open chat. */
  async loadOlder(chatId, { limit = 50 } = {}) {
    const log = this.log(chatId);
    if (log?.hasOlder) await this.#loadPage(chatId, log, `before_sequence=${log.first}&limit=${limit}`);
  }

  /** Read one message of an open chat, which may be older than its timeline: for quotes. */
  async loadMessage(chatId, sequence) {
    const log = this.log(chatId);
    await this.#load(log, `/api/chats/${chatId}/messages/${sequence}`, (read, message) => log.endRead(read, [message]));
    return log.find(sequence);
  }

  async #loadPage(chatId, log, query) {
    const path = `/api/chats/${chatId}/messages?${query}`;
    const page = await this.#load(log, path, (read, { messages }) => log.endPage(read, messages));
    log.hasOlder = page.has_more;
  }

  async #load(log, path, end) {
    for (;;) {
      const read = log.beginRead();
      try {
        const answer = await this.session.request("GET", path);
        if (end(read, answer)) return answer;
      } finally {
        log.cancelRead(read);
      }
    }
  }

  /**
   * Read the inbox and sync the followed chats that are behind it: one request for many chats keeps a mass reconnect
   * cheap. Retries until it succeeds. Calls during a refresh are coalesced into one more refresh.
   */
  async refresh() {
    this.#refreshRequested = true;
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    while (this.#refreshRequested) {
      this.#refreshRequested = false;
      await this.#readInbox();
    }
    this.#isRefreshing = false;
  }

  async #readInbox() {
    const { socket } = this.#connection;
    try {
      const items = await this.listAll("/api/chats");
      if (socket !== this.#connection.socket) return;
      this.#learn(items);
      this.#emit("chats", { items });
      this.flush();
      this.#streams.syncOutdated(items);
    } catch {
      const delay = pauseBefore(3, { random: this.#random });
      if (this.#connection.isCurrent(socket)) this.#timers.set("refresh", delay, () => this.refresh());
    }
  }

  /**
   * A server of an earlier version, which may run beside, refuses the frames of read marks, typing and presence, or
   * counts unread messages from what has arrived. The inbox tells: `#hasMarks` is null until it was read on this
   * connection.
   */
  #learn(items) {
    const hadMarks = this.#hasMarks;
    this.#hasMarks = items.every((item) => item.last_read_sequence !== undefined);
    this.#countsFromRead = items.every((item) => item.unread_after !== undefined);
    if (this.#hasMarks && !hadMarks) for (const chatId of this.#watched.keys()) this.#sendWatch(chatId);
  }

  /** The items of all pages of a list. */
  async listAll(path) {
    const items = [];
    let cursor = null;
    do {
      const query = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
      const page = await this.session.request("GET", `${path}?limit=200${query}`);
      items.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor);
    return items;
  }

  // Writing

  /**
   * Queue a message and return its `client_message_id`. It is sent as soon as there is a connection and resent after
   * every reconnect, always under the same id, so that the server stores it once. The changes below do the same.
   */
  send(chatId, content, { replyTo, mentions, clientMessageId } = {}) {
    return this.#post("send_message", chatId, { content, reply_to: replyTo, mentions }, clientMessageId);
  }

  edit(chatId, target, content, { mentions } = {}) {
    return this.#post("edit_message", chatId, { target, content, mentions });
  }

  delete(chatId, target) {
    return this.#post("delete_message", chatId, { target });
  }

  react(chatId, target, emoji, action = "add") {
    return this.#post("react", chatId, { target, emoji, action });
  }

  pin(chatId, target, action = "add") {
    return this.#post("pin", chatId, { target, action });
  }

  /** Send a failed draft again under the same id. */
  retry(clientMessageId) {
    const draft = this.outbox.get(clientMessageId);
    if (!draft) return;
    Object.assign(draft, { state: "sending", attempts: 0 });
    this.#emit("pending", draft);
    this.#sendDraft(draft);
  }

  /** Remove a failed draft. */
  discard(clientMessageId) {
    const draft = this.outbox.get(clientMessageId);
    if (!draft) return;
    this.outbox.remove(clientMessageId);
    this.#emit("discarded", { clientMessageId, chatId: draft.chatId });
  }

  #post(type, chatId, fields, clientMessageId = crypto.randomUUID()) {
    const draft = this.outbox.add({ clientMessageId, chatId, type, fields, queuedAt: Date.now() });
    this.#emit("pending", draft);
    this.#sendDraft(draft);
    return clientMessageId;
  }

  #sendDraft(draft) {
    if (this.state === "online") this.#connection.ask(Outbox.frame(draft));
  }

  #onAck(ack) {
    const draft = this.outbox.get(ack.client_message_id);
    if (!draft) return;
    if (ack.sequence === null) this.#finish(draft, null);
    else this.#deliver(draft.chatId, [Outbox.entry(draft, ack, this.userId)]);
  }

  /** Either its `ack` or a pushed copy shows that a draft is stored. */
  #markSent(entry) {
    const draft = this.outbox.get(entry.client_message_id);
    if (draft && entry.sender_id === this.userId) this.#finish(draft, entry);
  }

  #finish({ clientMessageId, chatId }, entry) {
    this.outbox.remove(clientMessageId);
    this.#emit("sent", { clientMessageId, chatId, entry });
  }

  #onError(frame) {
    const delay = ((frame.retry_after ?? 0.5) + this.#random()) * 1_000;
    const draft = this.outbox.get(frame.client_message_id);
    if (!draft) return this.#streams.onError(frame, delay);
    draft.attempts += 1;
    const resend = () => this.outbox.get(draft.clientMessageId) && this.#sendDraft(draft);
    if (frame.retryable && draft.attempts < this.#maxAttempts) {
      this.#timers.set(`send ${draft.clientMessageId}`, delay, resend);
    } else {
      draft.state = "failed";
      this.#emit("failed", { ...draft, error: new ParleyError(frame) });
    }
  }

  // Marks

  /**
   * Everything up to `sequence` has arrived. Calls are coalesced into one frame, which the server does not answer.
   * `isRead` is false where no read mark is known: unread messages then do not count from what has arrived.
   */
  acknowledge(chatId, sequence, { isRead = true } = {}) {
    this.#mark("ack", chatId, sequence, isRead ? {} : { read: false });
  }

  /** The person has seen everything up to `sequence`. If the connection loses it, the next `chats` event tells. */
  markRead(chatId, sequence) {
    this.#mark("read", chatId, sequence);
  }

  #mark(type, chatId, sequence, fields = {}) {
    const key = `${type} ${chatId}`;
    const furthest = Math.max(sequence, this.#waitingMarks.get(key)?.sequence ?? 0);
    this.#waitingMarks.set(key, { type, chat_id: chatId, sequence: furthest, ...fields });
    if (!this.#timers.has("marks")) this.#timers.set("marks", MARK_DELAY_MS, () => this.flush());
  }

  /** Send the waiting marks at once: the page is about to close. */
  flush() {
    if (this.#hasMarks === null) return;
    for (const mark of this.#waitingMarks.values())
      if (this.#countsFromRead || mark.read !== false)
        this.#connection.write(this.#hasMarks ? mark : { ...mark, type: "ack" });
    this.#waitingMarks.clear();
  }

  /** Read the marks of all members; later ones arrive by themselves in chats of at most 100 members. */
  async loadReceipts(chatId) {
    const before = new Map(this.marks.receipts(chatId));
    const marks = await this.listAll(`/api/chats/${chatId}/receipts`);
    this.marks.addReceipts(chatId, marks);
    this.marks.hideReads(chatId, marks, before);
    this.#emit("receipts", { chatId, marks });
  }

  #onReceipts(chatId, marks) {
    this.marks.addReceipts(chatId, marks);
    this.#emit("receipts", { chatId, marks });
  }

  /** Call at each keystroke with true, and with false when the text is gone. Sends no more often than needed. */
  setTyping(chatId, active) {
    const { startedAt, isActive } = this.#typing.get(chatId) ?? { startedAt: -Infinity, isActive: false };
    const now = Date.now();
    if (active ? now - startedAt < (isActive ? TYPING_INTERVAL_MS : TYPING_PAUSE_MS) : !isActive) return;
    this.#typing.set(chatId, { startedAt: active ? now : startedAt, isActive: active });
    if (this.#hasMarks) this.#connection.write({ type: "typing", chat_id: chatId, active });
  }

  #onTyping(chatId, userId, active) {
    this.marks.setTyping(chatId, userId, active);
    const emit = () => this.#emit("typing", { chatId, userId });
    this.#timers.cancel(`typing ${chatId} ${userId}`);
    if (active) this.#timers.set(`typing ${chatId} ${userId}`, TYPING_MS, emit);
    emit();
  }

  /** Watch the presence of these members of a chat, in place of an earlier list. At most 200 people in all. */
  watchPresence(chatId, userIds) {
    const former = this.#watched.get(chatId) ?? [];
    if (String(former) === String(userIds)) return;
    this.#watched.set(chatId, userIds);
    this.#sendWatch(chatId);
    if (!userIds.length) this.#watched.delete(chatId);
    const watched = new Set([...this.#watched.values()].flat());
    for (const userId of former) if (!watched.has(userId)) this.#forgetPresence(userId);
  }

  #forgetPresence(userId) {
    this.marks.forgetPresence(userId);
    this.#emit("presence", { userId });
  }

  #sendWatch(chatId) {
    if (!this.#hasMarks) return;
    this.#waitingWatches.add(chatId);
    if (!this.#timers.has("watches")) this.#sendNextWatch();
  }

  /** One after the other, at random distances: many clients may have connected at once. */
  #sendNextWatch() {
    const [chatId] = this.#waitingWatches;
    if (chatId === undefined) return;
    this.#waitingWatches.delete(chatId);
    this.#connection.write({ type: "watch_presence", chat_id: chatId, user_ids: this.#watched.get(chatId) ?? [] });
    this.#timers.set("watches", WATCH_PAUSE_MS * (0.5 + this.#random()), () => this.#sendNextWatch());
  }

  // Frames

  #onOpen({ user_id: userId }) {
    this.userId = userId;
    for (const draft of this.outbox.list()) if (draft.state === "sending") this.#sendDraft(draft);
    this.refresh();
  }

  #onLost() {
    this.#streams.onLost();
    this.#timers.clear();
    this.#typing.clear();
    this.#waitingWatches.clear();
    this.#hasMarks = null;
    this.marks.clearLive();
  }

  #onFrame(frame) {
    const { type, ...fields } = frame;
    switch (type) {
      case "message":
        return this.#deliver(frame.chat_id, [fields]);
      case "message_batch":
        return this.#deliver(frame.chat_id, frame.messages);
      case "sync_batch":
        this.#noteArrived(frame.chat_id, frame.messages);
        return this.#streams.onSyncBatch(frame);
      case "ack":
        return this.#onAck(frame);
      case "error":
        return this.#onError(frame);
      case "resync":
        this.#emit("resync", {});
        return this.refresh();
      case "receipts":
        return this.#onReceipts(frame.chat_id, frame.marks);
      case "typing":
        return this.#onTyping(frame.chat_id, frame.user_id, frame.active);
      case "presence":
        this.marks.setPresence(frame);
        return this.#emit("presence", { userId: frame.user_id });
      case "chat_created":
      case "membership_changed":
        return this.#emit(type, frame);
    }
  }

  #deliver(chatId, entries) {
    this.#noteArrived(chatId, entries);
    this.#streams.deliver(chatId, entries);
  }

  #noteArrived(chatId, entries) {
    for (const entry of entries) {
      this.#markSent(entry);
      if (kindOf(entry) === "message") this.marks.setTyping(chatId, entry.sender_id, false);
      this.#emit("activity", entry);
    }
  }

  #onEntry(entry) {
    this.#emit("entry", entry);
    if (kindOf(entry) === "message") this.#emit("message", entry);
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
