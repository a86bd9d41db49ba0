/** The followed chats: each one's entries in order, without gaps or duplicates, and the logs of the open ones. */

import { NamedTimers } from "./timers.js";
import { Timeline } from "./timeline.js";

const SYNC_LIMIT = 100;
const SYNC_RETRY_MS = 1_000;

/** `ask` sends a frame; `onEntry(entry)` gets each entry of a followed chat, `onGone(chatId)` a chat one has left. */
export class Streams {
  #timelines = new Map();
  #logs = new Map();
  #syncing = new Set();
  #timers = new NamedTimers();
  #connection;
  #onEntry;
  #onGone;

  constructor({ connection, onEntry, onGone }) {
    this.#connection = connection;
    this.#onEntry = onEntry;
    this.#onGone = onGone;
  }

  follow(chatId, lastSeen) {
    if (!this.#timelines.has(chatId)) this.#timelines.set(chatId, new Timeline(lastSeen));
    this.#sync(chatId);
  }

  unfollow(chatId) {
    this.#timelines.delete(chatId);
    this.#logs.delete(chatId);
    this.#syncing.delete(chatId);
  }

  lastSeen(chatId) {
    return this.#timelines.get(chatId)?.lastSeen;
  }

  log(chatId) {
    return this.#logs.get(chatId);
  }

  addLog(chatId, log) {
    this.#logs.set(chatId, log);
  }

  /** Sync the followed chats that are behind the inbox's `items`. */
  syncOutdated(items) {
    const latest = new Map(items.map((item) => [item.chat_id, item.last_sequence]));
    for (const [chatId, timeline] of this.#timelines) {
      // The inbox may lag behind a new chat. Only the sync tells whether a chat that it lacks is gone.
      if ((latest.get(chatId) ?? Infinity) > timeline.lastSeen) this.#sync(chatId);
    }
  }

  deliver(chatId, entries, { isSync = false } = {}) {
    const timeline = this.#timelines.get(chatId);
    for (const entry of timeline?.take(entries) ?? []) {
      this.#logs.get(chatId)?.apply(entry);
      this.#onEntry(entry);
    }
    if (timeline?.hasGap && !isSync) this.#sync(chatId);
  }

  onSyncBatch({ chat_id: chatId, messages, has_more: hasMore }) {
    this.#syncing.delete(chatId);
    const timeline = this.#timelines.get(chatId);
    if (!timeline) return;
    const before = timeline.next;
    this.deliver(chatId, messages, { isSync: true });
    const isBehind = hasMore || timeline.hasGap;
    if (isBehind && timeline.next > before) this.#sync(chatId);
    else if (isBehind) this.#syncAfter(chatId, SYNC_RETRY_MS);
  }

  /** An error that concerns no draft: perhaps the answer to a sync. */
  onError({ chat_id: chatId, code, retryable }, delay) {
    if (!this.#syncing.delete(chatId)) return;
    if (retryable) this.#syncAfter(chatId, delay);
    else if (code === "chat_not_found" && this.#timelines.has(chatId)) {
      this.unfollow(chatId);
      this.#onGone(chatId);
    }
  }

  onLost() {
    this.#syncing.clear();
    this.#timers.clear();
  }

  #syncAfter(chatId, milliseconds) {
    this.#timers.set(chatId, milliseconds, () => this.#sync(chatId));
  }

  #sync(chatId) {
    if (this.#connection.state !== "online" || this.#syncing.has(chatId) || !this.#timelines.has(chatId)) return;
    this.#syncing.add(chatId);
    const lastSeen = this.lastSeen(chatId);
    this.#connection.ask({
      type: "sync_request",
      chat_id: chatId,
      last_acked_sequence: lastSeen,
      limit: SYNC_LIMIT,
    });
  }
}
