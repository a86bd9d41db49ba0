/**
 * The Parley protocol for browsers: one file, no DOM, no dependency.
 *
 * Delivers each followed chat in order, without gaps or duplicates: it keeps `next` per chat; a message with
 * `sequence === next` is delivered, a lower one is a duplicate, a higher one triggers a `sync_request` from `next - 1`
 * and is buffered until the gap is filled. It reconnects with backoff and jitter, resends unacknowledged messages under
 * the same `client_message_id`, and refreshes its tokens.
 *
 *     import { Parley, Session } from "/static/parley/parley.js";
 *
 *     const session = new Session({ storage: localStorage });
 *     await session.requestCode("+14155550123");
 *     await session.verify({ phoneNumber: "+14155550123", code: "123456", deviceId: "my page" });
 *
 *     const parley = new Parley({ session });
 *     parley.addEventListener("message", ({ detail }) => console.log(detail.sequence, detail.content));
 *     parley.start();
 *     parley.follow(chatId, lastSequenceOnScreen);
 *     parley.send(chatId, "hello");
 *
 * Events of `Parley`, each a CustomEvent with this `detail`:
 *
 * | type         | detail                               | when                                                       |
 * | ------------ | ------------------------------------ | ---------------------------------------------------------- |
 * | `state`      | `{state}`                            | `connecting`, `online`, `offline` or `ended`               |
 * | `chats`      | `{items}`                            | the inbox, read after each connect and on `resync`         |
 * | `message`    | a message                            | the next one of a followed chat: in order, without gaps    |
 * | `activity`   | a message                            | the newest one of any chat, for lists; may skip some       |
 * | `pending`    | `{clientMessageId, chatId, content}` | `send` or `retry` queued a message                         |
 * | `sent`       | `{clientMessageId, message}`         | the server has stored it                                   |
 * | `failed`     | `{clientMessageId, chatId, error}`   | rejected, or out of attempts; `retry` sends it again       |
 * | `discarded`  | `{clientMessageId, chatId}`          | `discard` removed it from the outbox                       |
 * | `watermark`  | `{chatId, sequence}`                 | the server has confirmed how far the user has read         |
 * | `chat_created`, `membership_changed` | the frame    | as the server pushed it                                    |
 * | `left`       | `{chatId}`                           | the user is no longer a member of a followed chat          |
 * | `ended`      | `{reason}`                           | the session is over; log in again                          |
 *
 * `Session` emits `tokens` when they change and `ended` when the session is over.
 */

const SUBPROTOCOL = "parley.v1";
const SYNC_LIMIT = 100;
const ACK_DELAY_MS = 200;

/** The WebSocket close codes that this client handles. */
export const Close = Object.freeze({ UNAUTHENTICATED: 4401, SESSION_REVOKED: 4403 });

/** An error response. `code` is stable; `retryable` says whether the same request may succeed later. */
export class ParleyError extends Error {
  constructor({ code, detail, title, status = 0, errors = {}, retry_after: retryAfter = null }) {
    super(detail || title || code);
    this.name = "ParleyError";
    this.code = code;
    this.status = status;
    this.errors = errors;
    this.retryAfter = retryAfter;
  }

  get retryable() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

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

/** Exponential backoff with full jitter, in milliseconds. */
export function pauseBefore(attempt, { first = 300, longest = 15_000, random = Math.random } = {}) {
  return random() * Math.min(longest, first * 2 ** attempt);
}

/**
 * A login session and its tokens. `storage` (getItem, setItem, removeItem) keeps the tokens and shares them between
 * tabs; without it they last as long as this object. Call `adopt` when another tab has changed the storage.
 */
export class Session extends EventTarget {
  #storage;
  #key;
  #fetch;
  #now;
  #state = null;
  #refreshing = null;

  constructor({ url = globalThis.location?.origin ?? "", storage = null, key = "parley.session", fetch, now } = {}) {
    super();
    this.url = url;
    this.#storage = storage;
    this.#key = key;
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#now = now ?? Date.now;
    this.adopt();
  }

  get isOpen() {
    return this.#state !== null;
  }

  get user() {
    return this.#state?.user ?? null;
  }

  get sessionId() {
    return this.#state?.session_id ?? null;
  }

  /** When the access token expires, in milliseconds since 1970. */
  get expiresAt() {
    return this.#state?.expires_at ?? 0;
  }

  /** Request a login code by SMS. Resolves to `{login_id, expires_in, resend_after}`, in seconds.
   * To send the code again, pass the last `login_id` for the number. */
  requestCode(phoneNumber, loginId) {
    return this.call("POST", "/api/auth/request-code", { phone_number: phoneNumber, login_id: loginId });
  }

  /** Log in. `loginId` is the `login_id` of `requestCode`. Resolves to whether the user is new. */
  async verify({ phoneNumber, code, deviceId, loginId }) {
    const body = { phone_number: phoneNumber, code, device_id: deviceId, login_id: loginId };
    const { status, data } = await this.#fetchJson("POST", "/api/auth/verify", body);
    this.open(data);
    return status === 201;
  }

  /** Start from the response of a login or a refresh. */
  open(login) {
    this.#save({ ...this.#state, ...login, expires_at: this.#now() + login.expires_in * 1000 });
  }

  /** Replace the stored user, as returned by the server. */
  rename(user) {
    this.#save({ ...this.#state, user });
  }

  /** Delete the tokens. `reason`: `logged_out`, or the server's error code. */
  end(reason) {
    if (this.#state === null) return;
    this.#save(null);
    this.#emit("ended", { reason });
  }

  /** Load the tokens from the storage. */
  adopt() {
    const stored = this.#storage?.getItem(this.#key);
    const before = this.#state;
    if (this.#storage) this.#state = stored ? JSON.parse(stored) : null;
    if (before && before.session_id !== this.#state?.session_id) this.#emit("ended", { reason: "logged_out" });
    else if (before?.access_token !== this.#state?.access_token) this.#emit("tokens", {});
  }

  /** An access token valid for at least `margin` ms, refreshed if needed. Rejects when the session is over. */
  async token({ renew = false, margin = 20_000 } = {}) {
    const previous = this.#state?.access_token;
    this.adopt();
    if (!this.#state) throw new ParleyError({ code: "authentication_required", status: 401, detail: "Not logged in" });
    const isFresh = this.expiresAt - this.#now() > margin;
    if (isFresh && !(renew && this.#state.access_token === previous)) return this.#state.access_token;
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    await this.#refreshing;
    return this.#state.access_token;
  }

  async #refresh() {
    try {
      this.open(await this.call("POST", "/api/auth/refresh", { refresh_token: this.#state.refresh_token }));
    } catch (error) {
      if (error.status === 401) this.end(error.code);
      throw error;
    }
  }

  /** An API request with this session's token. Refreshes an expired token and tries once more. */
  async request(method, path, body, headers = {}) {
    try {
      return await this.call(method, path, body, { ...headers, ...bearer(await this.token()) });
    } catch (error) {
      if (error.code === "session_revoked") this.end(error.code);
      if (error.code !== "token_expired") throw error;
    }
    return this.call(method, path, body, { ...headers, ...bearer(await this.token({ renew: true })) });
  }

  /** A request without a token. Rejects with `ParleyError`; without a response its code is `unreachable`, status 0. */
  async call(method, path, body, headers = {}) {
    return (await this.#fetchJson(method, path, body, headers)).data;
  }

  async #fetchJson(method, path, body, headers = {}) {
    const options = { method, headers: { Accept: "application/json", ...headers }, cache: "no-store" };
    if (body !== undefined) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    let response;
    try {
      response = await this.#fetch(this.url + path, options);
    } catch {
      throw new ParleyError({ code: "unreachable", detail: "The server cannot be reached." });
    }
    const data = response.status === 204 ? null : await response.json().catch(() => null);
    if (response.ok) return { status: response.status, data };
    const retryAfter = Number(response.headers.get("Retry-After")) || null;
    throw new ParleyError({ code: "internal_error", ...data, status: response.status, retry_after: retryAfter });
  }

  #save(state) {
    this.#state = state;
    if (state) this.#storage?.setItem(this.#key, JSON.stringify(state));
    else this.#storage?.removeItem(this.#key);
    if (state) this.#emit("tokens", {});
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function bearer(token) {
  return { Authorization: `Bearer ${token}` };
}

/**
 * Queued messages, kept until the server has stored them. Each has its own key in `storage`, so tabs never overwrite
 * each other's. If two tabs send the same message, the server stores it once, because its id is the same.
 */
export class Outbox {
  #storage;
  #prefix;
  #entries = new Map();

  constructor({ storage = null, prefix = "parley.outbox." } = {}) {
    this.#storage = storage;
    this.#prefix = prefix;
    for (const key of Object.keys(storage ?? {}).filter((name) => name.startsWith(prefix))) {
      const entry = JSON.parse(storage.getItem(key));
      this.#entries.set(entry.clientMessageId, { ...entry, attempts: 0, state: "sending" });
    }
    const byAge = [...this.#entries].sort(([, one], [, other]) => one.queuedAt - other.queuedAt);
    this.#entries = new Map(byAge);
  }

  get(clientMessageId) {
    return this.#entries.get(clientMessageId);
  }

  /** Oldest first. */
  list() {
    return [...this.#entries.values()];
  }

  add(entry) {
    this.#entries.set(entry.clientMessageId, { ...entry, attempts: 0, state: "sending" });
    this.#storage?.setItem(this.#prefix + entry.clientMessageId, JSON.stringify(entry));
  }

  remove(clientMessageId) {
    this.#entries.delete(clientMessageId);
    this.#storage?.removeItem(this.#prefix + clientMessageId);
  }
}

/** The connection, the followed chats and the queued messages. One per page. */
export class Parley extends EventTarget {
  #WebSocket;
  #random;
  #responseTimeout;
  #maxAttempts;
  #socket = null;
  #running = false;
  #failures = 0;
  #timelines = new Map();
  #syncing = new Set();
  #isRefreshing = false;
  #refreshRequested = false;
  #tokenInUse = null;
  #timers = new Map();

  /**
   * `answerWithin`: milliseconds without any frame after a request, before the connection counts as dead.
   * `mostAttempts`: how often a message is sent before it fails. `WebSocket` and `random` are for tests.
   */
  constructor({ session, outbox, WebSocket, random = Math.random, answerWithin = 10_000, mostAttempts = 6 }) {
    super();
    this.session = session;
    this.outbox = outbox ?? new Outbox();
    this.state = "offline";
    this.userId = null;
    this.connections = 0;
    this.#WebSocket = WebSocket ?? globalThis.WebSocket;
    this.#random = random;
    this.#responseTimeout = answerWithin;
    this.#maxAttempts = mostAttempts;
    session.addEventListener("tokens", () => this.#authenticate());
    session.addEventListener("ended", ({ detail }) => this.#onSessionEnded(detail.reason));
  }

  // Connection

  /** Connect, and reconnect until `stop` or the end of the session. */
  start() {
    if (this.#running) return;
    this.#running = true;
    this.#connect();
  }

  /** Disconnect. Queued messages stay in the outbox. */
  stop() {
    this.#running = false;
    this.#closeSocket("stopped");
    this.#clearTimers();
    this.#setState("offline");
  }

  /** Reconnect now, or check the connection with a heartbeat: the page woke up, or the network is back. */
  nudge() {
    if (!this.#running) return;
    if (this.#timers.has("reconnect")) {
      this.#clearTimer("reconnect");
      this.#failures = 0;
      this.#connect();
    } else if (this.state === "online") {
      this.#sendHeartbeat();
    }
  }

  /** The browser reports that the network is gone: disconnect without waiting for a missed heartbeat. */
  lostNetwork() {
    if (this.#running && this.#socket) this.#reconnect();
  }

  async #connect() {
    this.#setState("connecting");
    let token;
    try {
      token = await this.session.token();
    } catch (error) {
      if (error.retryable) this.#scheduleReconnect();
      return;
    }
    if (!this.#running || this.#socket) return;
    const address = `${this.session.url.replace(/^http/, "ws")}/ws`;
    const socket = new this.#WebSocket(address, [SUBPROTOCOL, `bearer.${token}`]);
    this.#socket = socket;
    this.#tokenInUse = token;
    this.#expectResponse();
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.#socket && this.#onClose(code);
  }

  #onClose(code) {
    this.#socket = null;
    if (code === Close.SESSION_REVOKED) {
      this.session.end("session_revoked");
      return;
    }
    // The token was rejected: refresh it before the reconnect. If the refresh is rejected, the session ends.
    if (code === Close.UNAUTHENTICATED) this.session.token({ renew: true }).catch(() => {});
    this.#reconnect();
  }

  #reconnect() {
    this.#closeSocket("lost");
    this.#clearTimers();
    this.#syncing.clear();
    if (this.#running) this.#scheduleReconnect();
  }

  #scheduleReconnect() {
    this.#setState("offline");
    this.#setTimer("reconnect", pauseBefore(this.#failures, { random: this.#random }), () => this.#connect());
    this.#failures += 1;
  }

  #closeSocket(reason) {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000, reason);
  }

  #onSessionEnded(reason) {
    this.stop();
    this.#setState("ended");
    this.#emit("ended", { reason });
  }

  #onConnected(frame) {
    this.#failures = 0;
    this.connections += 1;
    this.userId = frame.user_id;
    this.heartbeatInterval = frame.heartbeat_interval * 1000;
    this.#setState("online");
    this.#setTimer("heartbeat", this.heartbeatInterval, () => this.#sendHeartbeat());
    this.#scheduleTokenRefresh();
    for (const entry of this.outbox.list()) if (entry.state === "sending") this.#sendMessage(entry);
    this.refresh();
  }

  #sendHeartbeat() {
    this.#write({ type: "heartbeat" });
    this.#expectResponse();
    this.#setTimer("heartbeat", this.heartbeatInterval, () => this.#sendHeartbeat());
  }

  /** Drop the connection if no frame arrives in time. */
  #expectResponse() {
    if (!this.#timers.has("response")) this.#setTimer("response", this.#responseTimeout, () => this.#reconnect());
  }

  #scheduleTokenRefresh() {
    const left = this.session.expiresAt - Date.now() - 30_000;
    this.#setTimer("renew", Math.max(1_000, left), () => this.session.token({ margin: 60_000 }).catch(() => {}));
  }

  /** Send a token that was refreshed, here or in another tab, over the open connection. */
  async #authenticate() {
    if (this.state !== "online") return;
    const token = await this.session.token().catch(() => null);
    if (!token || token === this.#tokenInUse || this.state !== "online") return;
    this.#tokenInUse = token;
    this.#write({ type: "authenticate", access_token: token });
    this.#scheduleTokenRefresh();
  }

  // Reading

  /** Deliver a chat's messages after `lastSeen`: stored ones are fetched, new ones are pushed. */
  follow(chatId, lastSeen) {
    if (!this.#timelines.has(chatId)) this.#timelines.set(chatId, new Timeline(lastSeen));
    this.#sync(chatId);
  }

  unfollow(chatId) {
    this.#timelines.delete(chatId);
    this.#syncing.delete(chatId);
  }

  /** The last delivered sequence of a followed chat; undefined for other chats. */
  lastSeen(chatId) {
    return this.#timelines.get(chatId)?.lastSeen;
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
    const connection = this.#socket;
    try {
      const items = await this.listAll("/api/chats");
      if (connection !== this.#socket) return;
      this.#emit("chats", { items });
      this.#syncOutdated(items);
    } catch {
      const delay = pauseBefore(3, { random: this.#random });
      if (connection === this.#socket && this.#running) this.#setTimer("refresh", delay, () => this.refresh());
    }
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

  #syncOutdated(items) {
    const latest = new Map(items.map((item) => [item.chat_id, item.last_sequence]));
    for (const [chatId, timeline] of this.#timelines) {
      // The inbox may lag behind a new chat. Only the sync tells whether a chat that it lacks is gone.
      if ((latest.get(chatId) ?? Infinity) > timeline.lastSeen) this.#sync(chatId);
    }
  }

  #onChatGone(chatId) {
    if (!this.#timelines.has(chatId)) return;
    this.unfollow(chatId);
    this.#emit("left", { chatId });
  }

  #sync(chatId) {
    if (this.state !== "online" || this.#syncing.has(chatId) || !this.#timelines.has(chatId)) return;
    this.#syncing.add(chatId);
    const lastSeen = this.#timelines.get(chatId).lastSeen;
    this.#write({ type: "sync_request", chat_id: chatId, last_acked_sequence: lastSeen, limit: SYNC_LIMIT });
    this.#expectResponse();
  }

  #onSyncBatch({ chat_id: chatId, messages, has_more: hasMore }) {
    this.#syncing.delete(chatId);
    const timeline = this.#timelines.get(chatId);
    if (!timeline) return;
    const before = timeline.next;
    this.#deliver(chatId, messages, { isSync: true });
    const isBehind = hasMore || timeline.hasGap;
    if (isBehind && timeline.next > before) this.#sync(chatId);
    else if (isBehind) this.#setTimer(`sync ${chatId}`, 1_000, () => this.#sync(chatId));
  }

  #deliver(chatId, messages, { isSync = false } = {}) {
    for (const message of messages) this.#markSent(message);
    const timeline = this.#timelines.get(chatId);
    for (const message of timeline?.take(messages) ?? []) this.#emit("message", message);
    if (messages.length) this.#emit("activity", messages.at(-1));
    if (timeline?.hasGap && !isSync) this.#sync(chatId);
  }

  // Writing

  /**
   * Queue a message and return its `client_message_id`. It is sent as soon as there is a connection and resent after
   * every reconnect, always under the same id, so that the server stores it once.
   */
  send(chatId, content, { clientMessageId = crypto.randomUUID() } = {}) {
    this.outbox.add({ clientMessageId, chatId, content, queuedAt: Date.now() });
    this.#emit("pending", { clientMessageId, chatId, content });
    this.#sendMessage(this.outbox.get(clientMessageId));
    return clientMessageId;
  }

  /** Send a failed message again under the same id. */
  retry(clientMessageId) {
    const entry = this.outbox.get(clientMessageId);
    if (!entry) return;
    Object.assign(entry, { state: "sending", attempts: 0 });
    this.#emit("pending", { clientMessageId, chatId: entry.chatId, content: entry.content });
    this.#sendMessage(entry);
  }

  /** Remove a failed message. */
  discard(clientMessageId) {
    const entry = this.outbox.get(clientMessageId);
    if (!entry) return;
    this.outbox.remove(clientMessageId);
    this.#emit("discarded", { clientMessageId, chatId: entry.chatId });
  }

  /**
   * Mark everything up to `sequence` as read. Calls are coalesced into one frame, which the server does not answer. If
   * the connection loses it, the next `chats` event has the old watermark.
   */
  acknowledge(chatId, sequence) {
    this.#setTimer(`ack ${chatId}`, ACK_DELAY_MS, () => this.#write({ type: "ack", chat_id: chatId, sequence }));
  }

  /** Mark as read with a response: emits `watermark`. */
  async confirm(chatId, sequence) {
    const watermark = await this.session.request("POST", `/api/chats/${chatId}/ack`, { sequence });
    this.#emit("watermark", { chatId, sequence: watermark.last_acked_sequence });
  }

  #sendMessage({ clientMessageId, chatId, content }) {
    if (this.state !== "online") return;
    this.#write({ type: "send_message", client_message_id: clientMessageId, chat_id: chatId, content });
    this.#expectResponse();
  }

  #onAck(frame) {
    const entry = this.outbox.get(frame.client_message_id);
    if (!entry) return;
    const { type, duplicate, ...stored } = frame;
    const message = { ...stored, sender_id: this.userId, content: entry.content, content_type: "text/plain" };
    this.#deliver(entry.chatId, [message]);
  }

  /** Either its `ack` or a pushed copy shows that a queued message is stored. */
  #markSent(message) {
    const { client_message_id: clientMessageId, sender_id: senderId } = message;
    if (senderId !== this.userId || !this.outbox.get(clientMessageId)) return;
    this.outbox.remove(clientMessageId);
    this.#emit("sent", { clientMessageId, message });
  }

  #onError(frame) {
    const { client_message_id: clientMessageId, chat_id: chatId, retryable } = frame;
    const delay = ((frame.retry_after ?? 0.5) + this.#random()) * 1_000;
    const entry = this.outbox.get(clientMessageId);
    if (entry) {
      entry.attempts += 1;
      const resend = () => this.outbox.get(clientMessageId) && this.#sendMessage(entry);
      if (retryable && entry.attempts < this.#maxAttempts) this.#setTimer(`send ${clientMessageId}`, delay, resend);
      else this.#fail(entry, new ParleyError(frame));
    } else if (this.#syncing.delete(chatId)) {
      if (retryable) this.#setTimer(`sync ${chatId}`, delay, () => this.#sync(chatId));
      else if (frame.code === "chat_not_found") this.#onChatGone(chatId);
    }
  }

  #fail(entry, error) {
    entry.state = "failed";
    this.#emit("failed", { clientMessageId: entry.clientMessageId, chatId: entry.chatId, error });
  }

  // Frames

  #receive(frame) {
    this.#clearTimer("response");
    switch (frame.type) {
      case "connected":
        return this.#onConnected(frame);
      case "message": {
        const { type, ...message } = frame;
        return this.#deliver(frame.chat_id, [message]);
      }
      case "message_batch":
        return this.#deliver(frame.chat_id, frame.messages);
      case "sync_batch":
        return this.#onSyncBatch(frame);
      case "ack":
        return this.#onAck(frame);
      case "error":
        return this.#onError(frame);
      case "resync":
        return this.refresh();
      case "chat_created":
      case "membership_changed":
        return this.#emit(frame.type, frame);
    }
  }

  #write(frame) {
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(frame));
  }

  #setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit("state", { state });
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  // Named timers: setting one again replaces it

  #setTimer(name, milliseconds, callback) {
    this.#clearTimer(name);
    const fire = () => {
      this.#timers.delete(name);
      callback();
    };
    this.#timers.set(name, setTimeout(fire, milliseconds));
  }

  #clearTimer(name) {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }

  #clearTimers() {
    for (const name of [...this.#timers.keys()]) this.#clearTimer(name);
  }
}
