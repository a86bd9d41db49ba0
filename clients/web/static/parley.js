/**
 * The Parley protocol in the browser: one connection at a time, as many as it takes. No DOM, no dependency, one file.
 *
 * It keeps the rule that makes chats dense on the screen: keep `next` per chat; a message with `sequence === next` is
 * shown, a lower one is a duplicate, a higher one starts a `sync_request` from `next - 1`, and later ones wait until
 * the gap is filled. It reconnects with jitter, sends what was not acknowledged again under the same
 * `client_message_id`, and keeps its tokens fresh.
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
 * Events of `Parley` (each a CustomEvent; its `detail` is what stands here):
 *
 * | type         | detail                               | when                                                       |
 * | ------------ | ------------------------------------ | ---------------------------------------------------------- |
 * | `state`      | `{state}`                            | `connecting`, `online`, `offline` or `ended`               |
 * | `chats`      | `{items}`                            | the inbox, read after every connection and on `resync`     |
 * | `message`    | a message                            | to be shown next: of a followed chat, dense and in order   |
 * | `activity`   | a message                            | newest known message of any chat, for lists; may skip some |
 * | `pending`    | `{clientMessageId, chatId, content}` | a message was queued, and is kept until it is acknowledged |
 * | `sent`       | `{clientMessageId, message}`         | the server has stored it                                   |
 * | `failed`     | `{clientMessageId, chatId, error}`   | refused, or refused too often; `retry` sends it again      |
 * | `discarded`  | `{clientMessageId, chatId}`          | somebody gave up on it                                     |
 * | `watermark`  | `{chatId, sequence}`                 | the server has confirmed how far the user has read         |
 * | `chat_created`, `membership_changed` | the frame    | as the server pushed it                                    |
 * | `left`       | `{chatId}`                           | a followed chat is no longer the user's                    |
 * | `ended`      | `{reason}`                           | the session is over; log in again                          |
 *
 * `Session` emits `tokens` when they change and `ended` when they are refused.
 */

const SUBPROTOCOL = "parley.v1";
const PAGE = 100;
const ACKNOWLEDGE_AFTER = 200;

/** Close codes of the contract that this client treats specially. */
export const Close = Object.freeze({ UNAUTHENTICATED: 4401, SESSION_REVOKED: 4403 });

/** A failure that the server explained: `code` is stable, `retryable` says whether the same request may succeed. */
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

/** One chat as its reader sees it: dense, in order, each message once. Pure: no network, no clock. */
export class Timeline {
  #waiting = new Map();

  constructor(lastSeen = 0) {
    this.next = lastSeen + 1;
  }

  get lastSeen() {
    return this.next - 1;
  }

  /** Something beyond `next` has arrived, so something before it is missing. */
  get hasGap() {
    return this.#waiting.size > 0;
  }

  /** Add what arrived; return what can be shown now, ascending. */
  take(messages) {
    for (const message of messages) {
      if (message.sequence >= this.next) this.#waiting.set(message.sequence, message);
    }
    const ready = [];
    for (let message; (message = this.#waiting.get(this.next)) !== undefined; this.next += 1) {
      this.#waiting.delete(this.next);
      ready.push(message);
    }
    return ready;
  }
}

/** Full jitter: anywhere between nothing and a bound that doubles with each failure, so that a crowd spreads out. */
export function pauseBefore(attempt, { first = 300, longest = 15_000, random = Math.random } = {}) {
  return random() * Math.min(longest, first * 2 ** attempt);
}

/**
 * Who is logged in here. Tokens live in `storage` (anything with getItem, setItem, removeItem), so that tabs share one
 * session; without a storage they live as long as the object. Call `adopt` when another tab changed the storage.
 */
export class Session extends EventTarget {
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

  #storage;
  #key;
  #fetch;
  #now;

  get isOpen() {
    return this.#state !== null;
  }

  get user() {
    return this.#state?.user ?? null;
  }

  get sessionId() {
    return this.#state?.session_id ?? null;
  }

  /** When the access token ends, in milliseconds since 1970. */
  get expiresAt() {
    return this.#state?.expires_at ?? 0;
  }

  /** Ask for a code by SMS. Resolves to `{expires_in, resend_after}`, in seconds. */
  requestCode(phoneNumber) {
    return this.call("POST", "/api/auth/request-code", { phone_number: phoneNumber });
  }

  /** Log in. Resolves to whether the user is new. */
  async verify({ phoneNumber, code, deviceId }) {
    const body = { phone_number: phoneNumber, code, device_id: deviceId };
    const { status, answer } = await this.#exchange("POST", "/api/auth/verify", body);
    this.open(answer);
    return status === 201;
  }

  /** Begin with the answer of a login. */
  open(answer) {
    this.#keep({ ...this.#state, ...answer, expires_at: this.#now() + answer.expires_in * 1000 });
  }

  /** The user under another name, as the server gave it back. */
  rename(user) {
    this.#keep({ ...this.#state, user });
  }

  /** Forget the tokens. `reason`: `logged_out`, or the code of the server's refusal. */
  end(reason) {
    if (this.#state === null) return;
    this.#keep(null);
    this.#emit("ended", { reason });
  }

  /** Take over what is in the storage now. */
  adopt() {
    const stored = this.#storage?.getItem(this.#key);
    const before = this.#state;
    if (this.#storage) this.#state = stored ? JSON.parse(stored) : null;
    if (before && before.session_id !== this.#state?.session_id) this.#emit("ended", { reason: "logged_out" });
    else if (before?.access_token !== this.#state?.access_token) this.#emit("tokens", {});
  }

  /** An access token that is good for a while yet; refreshed where needed. Rejects when the session is over. */
  async token({ renew = false, margin = 20_000 } = {}) {
    const held = this.#state?.access_token;
    this.adopt();
    if (!this.#state) throw new ParleyError({ code: "authentication_required", status: 401, detail: "Not logged in" });
    const isFresh = this.expiresAt - this.#now() > margin;
    if (isFresh && !(renew && this.#state.access_token === held)) return this.#state.access_token;
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

  /** A request to the API with this session's token; refreshes it once where it was refused. */
  async request(method, path, body, headers = {}) {
    try {
      return await this.call(method, path, body, { ...headers, ...bearer(await this.token()) });
    } catch (error) {
      if (error.code === "session_revoked") this.end(error.code);
      if (error.code !== "token_expired") throw error;
    }
    return this.call(method, path, body, { ...headers, ...bearer(await this.token({ renew: true })) });
  }

  /** A request without a token. Rejects with a `ParleyError`; `status` 0 and code `unreachable` without an answer. */
  async call(method, path, body, headers = {}) {
    return (await this.#exchange(method, path, body, headers)).answer;
  }

  async #exchange(method, path, body, headers = {}) {
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
    const answer = response.status === 204 ? null : await response.json().catch(() => null);
    if (response.ok) return { status: response.status, answer };
    const retryAfter = Number(response.headers.get("Retry-After")) || null;
    throw new ParleyError({ code: "internal_error", ...answer, status: response.status, retry_after: retryAfter });
  }

  #keep(state) {
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
 * Messages on their way, kept until the server has them. Each has a key of its own in `storage`, so that tabs never
 * overwrite each other's; a message that two tabs send is stored once, because its id is the same.
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

  /** In the order they were written. */
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

/** The connection and what hangs on it. One per page. */
export class Parley extends EventTarget {
  /**
   * Tests pass `WebSocket` and `random`; `answerWithin` is how long a send or a heartbeat may go unanswered, in
   * milliseconds, before the connection counts as dead.
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
    this.#answerWithin = answerWithin;
    this.#mostAttempts = mostAttempts;
    session.addEventListener("tokens", () => this.#authenticate());
    session.addEventListener("ended", ({ detail }) => this.#finish(detail.reason));
  }

  #WebSocket;
  #random;
  #answerWithin;
  #mostAttempts;
  #socket = null;
  #running = false;
  #failures = 0;
  #timelines = new Map();
  #syncing = new Set();
  #isRefreshing = false;
  #refreshWanted = false;
  #tokenInUse = null;
  #timers = new Map();

  // The connection's life

  /** Connect, and stay connected until `stop` or the end of the session. */
  start() {
    if (this.#running) return;
    this.#running = true;
    this.#connect();
  }

  /** Disconnect and stay so. What is queued stays in the outbox. */
  stop() {
    this.#running = false;
    this.#drop("stopped");
    this.#clearTimers();
    this.#enter("offline");
  }

  /** Something suggests that a connection is possible now (the page woke up, the network is back): try at once. */
  nudge() {
    if (!this.#running) return;
    if (this.#timers.has("reconnect")) {
      this.#cancel("reconnect");
      this.#failures = 0;
      this.#connect();
    } else if (this.state === "online") {
      this.#beat();
    }
  }

  /** The network is gone for certain: say so without waiting for a missed heartbeat. */
  lostNetwork() {
    if (this.#running && this.#socket) this.#lost();
  }

  async #connect() {
    this.#enter("connecting");
    let token;
    try {
      token = await this.session.token();
    } catch (error) {
      if (error.retryable) this.#reconnectLater();
      return;
    }
    if (!this.#running || this.#socket) return;
    const address = `${this.session.url.replace(/^http/, "ws")}/ws`;
    const socket = new this.#WebSocket(address, [SUBPROTOCOL, `bearer.${token}`]);
    this.#socket = socket;
    this.#tokenInUse = token;
    this.#after("answer", this.#answerWithin, () => this.#lost());
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.#socket && this.#closed(code);
  }

  #closed(code) {
    this.#socket = null;
    if (code === Close.SESSION_REVOKED) {
      this.session.end("session_revoked");
      return;
    }
    // The token in use was refused: get another one first. If that is refused as well, the session ends.
    if (code === Close.UNAUTHENTICATED) this.session.token({ renew: true }).catch(() => {});
    this.#lost();
  }

  #lost() {
    this.#drop("lost");
    this.#clearTimers();
    this.#syncing.clear();
    if (this.#running) this.#reconnectLater();
  }

  #reconnectLater() {
    this.#enter("offline");
    this.#after("reconnect", pauseBefore(this.#failures, { random: this.#random }), () => this.#connect());
    this.#failures += 1;
  }

  #drop(reason) {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000, reason);
  }

  #finish(reason) {
    this.stop();
    this.#enter("ended");
    this.#emit("ended", { reason });
  }

  #connected(frame) {
    this.#cancel("answer");
    this.#failures = 0;
    this.connections += 1;
    this.userId = frame.user_id;
    this.heartbeatInterval = frame.heartbeat_interval * 1000;
    this.#enter("online");
    this.#after("heartbeat", this.heartbeatInterval, () => this.#beat());
    this.#renewInTime();
    for (const entry of this.outbox.list()) if (entry.state === "sending") this.#transmit(entry);
    this.refresh();
  }

  #beat() {
    this.#write({ type: "heartbeat" });
    this.#expectAnswer();
    this.#after("heartbeat", this.heartbeatInterval, () => this.#beat());
  }

  /** Nothing at all heard for a while after something that must be answered: the connection is dead. */
  #expectAnswer() {
    if (!this.#timers.has("answer")) this.#after("answer", this.#answerWithin, () => this.#lost());
  }

  #renewInTime() {
    const left = this.session.expiresAt - Date.now() - 30_000;
    this.#after("renew", Math.max(1_000, left), () => this.session.token({ margin: 60_000 }).catch(() => {}));
  }

  /** A fresh token, from here or from another tab: the connection goes on with it. */
  async #authenticate() {
    if (this.state !== "online") return;
    const token = await this.session.token().catch(() => null);
    if (!token || token === this.#tokenInUse || this.state !== "online") return;
    this.#tokenInUse = token;
    this.#write({ type: "authenticate", access_token: token });
    this.#renewInTime();
  }

  // Reading

  /** Show a chat from behind `lastSeen` on: what is missed is fetched, what is new is pushed, each once, in order. */
  follow(chatId, lastSeen) {
    if (!this.#timelines.has(chatId)) this.#timelines.set(chatId, new Timeline(lastSeen));
    this.#sync(chatId);
  }

  unfollow(chatId) {
    this.#timelines.delete(chatId);
    this.#syncing.delete(chatId);
  }

  /** The last message of a followed chat that was handed out; undefined for other chats. */
  lastSeen(chatId) {
    return this.#timelines.get(chatId)?.lastSeen;
  }

  /**
   * Read the inbox and sync the followed chats that are behind it. One request for fifty chats, instead of one for
   * each: so a thousand clients that come back at once ask for little. Repeats itself until it succeeds; asked again
   * while it is under way, it runs once more after that.
   */
  async refresh() {
    this.#refreshWanted = true;
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    while (this.#refreshWanted) {
      this.#refreshWanted = false;
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
      this.#compare(items);
    } catch {
      const pause = pauseBefore(3, { random: this.#random });
      if (connection === this.#socket && this.#running) this.#after("refresh", pause, () => this.refresh());
    }
  }

  /** Every page of a list. */
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

  #compare(items) {
    const latest = new Map(items.map((item) => [item.chat_id, item.last_sequence]));
    for (const [chatId, timeline] of this.#timelines) {
      // The list may lag behind a chat that was just created: whether a missing one is left, the sync's answer tells.
      if ((latest.get(chatId) ?? Infinity) > timeline.lastSeen) this.#sync(chatId);
    }
  }

  #leave(chatId) {
    if (!this.#timelines.has(chatId)) return;
    this.unfollow(chatId);
    this.#emit("left", { chatId });
  }

  #sync(chatId) {
    if (this.state !== "online" || this.#syncing.has(chatId) || !this.#timelines.has(chatId)) return;
    this.#syncing.add(chatId);
    const lastSeen = this.#timelines.get(chatId).lastSeen;
    this.#write({ type: "sync_request", chat_id: chatId, last_acked_sequence: lastSeen, limit: PAGE });
    this.#expectAnswer();
  }

  #synced({ chat_id: chatId, messages, has_more: hasMore }) {
    this.#syncing.delete(chatId);
    const timeline = this.#timelines.get(chatId);
    if (!timeline) return;
    const before = timeline.next;
    this.#arrived(chatId, messages, { gapIsKnown: true });
    const stillBehind = hasMore || timeline.hasGap;
    if (stillBehind && timeline.next > before) this.#sync(chatId);
    else if (stillBehind) this.#after(`sync ${chatId}`, 1_000, () => this.#sync(chatId));
  }

  #arrived(chatId, messages, { gapIsKnown = false } = {}) {
    for (const message of messages) this.#settle(message);
    const timeline = this.#timelines.get(chatId);
    for (const message of timeline?.take(messages) ?? []) this.#emit("message", message);
    if (messages.length) this.#emit("activity", messages.at(-1));
    if (timeline?.hasGap && !gapIsKnown) this.#sync(chatId);
  }

  // Writing

  /**
   * Queue a message and return its `client_message_id`. It is sent now or when there is a connection, again after
   * every interruption, always under the same id, so that it is stored once.
   */
  send(chatId, content, { clientMessageId = crypto.randomUUID() } = {}) {
    this.outbox.add({ clientMessageId, chatId, content, queuedAt: Date.now() });
    this.#emit("pending", { clientMessageId, chatId, content });
    this.#transmit(this.outbox.get(clientMessageId));
    return clientMessageId;
  }

  /** Send a failed message again, under its id. */
  retry(clientMessageId) {
    const entry = this.outbox.get(clientMessageId);
    if (!entry) return;
    Object.assign(entry, { state: "sending", attempts: 0 });
    this.#emit("pending", { clientMessageId, chatId: entry.chatId, content: entry.content });
    this.#transmit(entry);
  }

  /** Give up on a message that failed. */
  discard(clientMessageId) {
    const entry = this.outbox.get(clientMessageId);
    if (!entry) return;
    this.outbox.remove(clientMessageId);
    this.#emit("discarded", { clientMessageId, chatId: entry.chatId });
  }

  /**
   * Everything up to `sequence` has been read. Several in a row are one frame; the server writes it down in its own
   * time and does not answer. What a breaking connection loses, the next `chats` event shows.
   */
  acknowledge(chatId, sequence) {
    this.#after(`ack ${chatId}`, ACKNOWLEDGE_AFTER, () => this.#write({ type: "ack", chat_id: chatId, sequence }));
  }

  /** The same, when somebody wants to know: emits `watermark`. */
  async confirm(chatId, sequence) {
    const answer = await this.session.request("POST", `/api/chats/${chatId}/ack`, { sequence });
    this.#emit("watermark", { chatId, sequence: answer.last_acked_sequence });
  }

  #transmit({ clientMessageId, chatId, content }) {
    if (this.state !== "online") return;
    this.#write({ type: "send_message", client_message_id: clientMessageId, chat_id: chatId, content });
    this.#expectAnswer();
  }

  #acknowledged(frame) {
    const entry = this.outbox.get(frame.client_message_id);
    if (!entry) return;
    const { type, duplicate, ...stored } = frame;
    const message = { ...stored, sender_id: this.userId, content: entry.content, content_type: "text/plain" };
    this.#arrived(entry.chatId, [message]);
  }

  /** Whichever tells first that a queued message is stored, its `ack` or a copy of it, settles it. */
  #settle(message) {
    const { client_message_id: clientMessageId, sender_id: senderId } = message;
    if (senderId !== this.userId || !this.outbox.get(clientMessageId)) return;
    this.outbox.remove(clientMessageId);
    this.#emit("sent", { clientMessageId, message });
  }

  #refused(frame) {
    const { client_message_id: clientMessageId, chat_id: chatId, retryable } = frame;
    const pause = ((frame.retry_after ?? 0.5) + this.#random()) * 1_000;
    const entry = this.outbox.get(clientMessageId);
    if (entry) {
      entry.attempts += 1;
      const again = () => this.outbox.get(clientMessageId) && this.#transmit(entry);
      if (retryable && entry.attempts < this.#mostAttempts) this.#after(`send ${clientMessageId}`, pause, again);
      else this.#fail(entry, new ParleyError(frame));
    } else if (this.#syncing.delete(chatId)) {
      if (retryable) this.#after(`sync ${chatId}`, pause, () => this.#sync(chatId));
      else if (frame.code === "chat_not_found") this.#leave(chatId);
    }
  }

  #fail(entry, error) {
    entry.state = "failed";
    this.#emit("failed", { clientMessageId: entry.clientMessageId, chatId: entry.chatId, error });
  }

  // Frames

  #receive(frame) {
    this.#cancel("answer");
    switch (frame.type) {
      case "connected":
        return this.#connected(frame);
      case "message": {
        const { type, ...message } = frame;
        return this.#arrived(frame.chat_id, [message]);
      }
      case "message_batch":
        return this.#arrived(frame.chat_id, frame.messages);
      case "sync_batch":
        return this.#synced(frame);
      case "ack":
        return this.#acknowledged(frame);
      case "error":
        return this.#refused(frame);
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

  #enter(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit("state", { state });
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  // Timers, by name: setting one again replaces it

  #after(name, milliseconds, call) {
    this.#cancel(name);
    const fire = () => {
      this.#timers.delete(name);
      call();
    };
    this.#timers.set(name, setTimeout(fire, milliseconds));
  }

  #cancel(name) {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }

  #clearTimers() {
    for (const name of [...this.#timers.keys()]) this.#cancel(name);
  }
}
