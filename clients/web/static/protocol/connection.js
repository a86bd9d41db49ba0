/** One WebSocket at a time: reconnects with backoff and jitter, sends heartbeats and fresh tokens. */

import { NamedTimers } from "./timers.js";

const SUBPROTOCOL = "parley.v1";

/** The WebSocket close codes that this client handles. */
export const Close = Object.freeze({ UNAUTHENTICATED: 4401, SESSION_REVOKED: 4403 });

/** Exponential backoff with full jitter, in milliseconds. */
export function pauseBefore(attempt, { first = 300, longest = 15_000, random = Math.random } = {}) {
  return random() * Math.min(longest, first * 2 ** attempt);
}

/** Calls `onOpen(hello)`, `onFrame(frame)`, `onLost()` and `onState(state)`. */
export class Connection {
  #session;
  #WebSocket;
  #random;
  #responseTimeout;
  #handlers;
  #socket = null;
  #running = false;
  #failures = 0;
  #tokenInUse = null;
  #timers = new NamedTimers();

  constructor({ session, WebSocket, random, answerWithin, ...handlers }) {
    this.state = "offline";
    this.count = 0;
    this.#session = session;
    this.#WebSocket = WebSocket ?? globalThis.WebSocket;
    this.#random = random;
    this.#responseTimeout = answerWithin;
    this.#handlers = handlers;
    session.addEventListener("tokens", () => this.#authenticate());
    session.addEventListener("ended", () => this.#end());
  }

  /** Connect, and reconnect until `stop` or the end of the session. */
  start() {
    if (this.#running) return;
    this.#running = true;
    this.#connect();
  }

  stop() {
    this.#running = false;
    this.#closeSocket("stopped");
    this.#timers.clear();
    this.#handlers.onLost();
    this.#setState("offline");
  }

  /** Reconnect now, or check the connection with a heartbeat. */
  nudge() {
    if (!this.#running) return;
    if (this.#timers.has("reconnect")) {
      this.#timers.cancel("reconnect");
      this.#failures = 0;
      this.#connect();
    } else if (this.state === "online") {
      this.#sendHeartbeat();
    }
  }

  /** Reconnect without waiting for a missed heartbeat. */
  drop() {
    if (this.#running && this.#socket) this.#reconnect();
  }

  /** Whether this is still the socket in use. */
  isCurrent(socket) {
    return this.#running && socket === this.#socket;
  }

  get socket() {
    return this.#socket;
  }

  write(frame) {
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(frame));
  }

  /** Send a frame that the server answers: the connection is dropped if no frame arrives in time. */
  ask(frame) {
    this.write(frame);
    this.#expectResponse();
  }

  async #connect() {
    this.#setState("connecting");
    let token;
    try {
      token = await this.#session.token();
    } catch {
      // If the session has ended, the connection has been stopped.
      if (this.#running) this.#scheduleReconnect();
      return;
    }
    if (!this.#running || this.#socket) return;
    const address = `${this.#session.url.replace(/^http/, "ws")}/ws`;
    const socket = new this.#WebSocket(address, [SUBPROTOCOL, `bearer.${token}`]);
    this.#socket = socket;
    this.#tokenInUse = token;
    this.#expectResponse();
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.#socket && this.#onClose(code);
  }

  #receive(frame) {
    this.#timers.cancel("response");
    if (frame.type === "connected") this.#onConnected(frame);
    else this.#handlers.onFrame(frame);
  }

  #onConnected(hello) {
    this.#failures = 0;
    this.count += 1;
    this.heartbeatInterval = hello.heartbeat_interval * 1000;
    this.#setState("online");
    this.#timers.set("heartbeat", this.heartbeatInterval, () => this.#sendHeartbeat());
    this.#scheduleTokenRefresh();
    this.#handlers.onOpen(hello);
  }

  #onClose(code) {
    this.#socket = null;
    if (code === Close.SESSION_REVOKED) {
      this.#session.end("session_revoked");
      return;
    }
    // The token was rejected: refresh it before the reconnect. If the refresh is rejected, the session ends.
    if (code === Close.UNAUTHENTICATED) this.#session.token({ renew: true }).catch(() => {});
    this.#reconnect();
  }

  #reconnect() {
    this.#closeSocket("lost");
    this.#timers.clear();
    this.#handlers.onLost();
    if (this.#running) this.#scheduleReconnect();
  }

  #scheduleReconnect() {
    this.#setState("offline");
    this.#timers.set("reconnect", pauseBefore(this.#failures, { random: this.#random }), () => this.#connect());
    this.#failures += 1;
  }

  #closeSocket(reason) {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000, reason);
  }

  #end() {
    this.stop();
    this.#setState("ended");
  }

  #sendHeartbeat() {
    this.ask({ type: "heartbeat" });
    this.#timers.set("heartbeat", this.heartbeatInterval, () => this.#sendHeartbeat());
  }

  #expectResponse() {
    if (!this.#timers.has("response")) this.#timers.set("response", this.#responseTimeout, () => this.#reconnect());
  }

  #scheduleTokenRefresh() {
    const left = this.#session.expiresAt - Date.now() - 30_000;
    this.#timers.set("renew", Math.max(1_000, left), () => this.#session.token({ margin: 60_000 }).catch(() => {}));
  }

  /** Send a token that was refreshed, here or in another tab, over the open connection. */
  async #authenticate() {
    if (this.state !== "online") return;
    const token = await this.#session.token().catch(() => null);
    if (!token || token === this.#tokenInUse || this.state !== "online") return;
    this.#tokenInUse = token;
    this.write({ type: "authenticate", access_token: token });
    this.#scheduleTokenRefresh();
  }

  #setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.#handlers.onState(state);
  }
}
