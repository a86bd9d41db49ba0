/** A server for one page: sockets that record what is written, and REST answers by path. */
import { Parley, Session } from "../static/parley.js";

export class FakeSocket {
  static opened = [];

  constructor(url, protocols) {
    Object.assign(this, { url, protocols, readyState: 1, frames: [] });
    FakeSocket.opened.push(this);
  }

  static get last() {
    return FakeSocket.opened.at(-1);
  }

  send(text) {
    this.frames.push(JSON.parse(text));
  }

  close() {
    this.readyState = 3;
  }

  /** The server says something. */
  says(frame) {
    this.onmessage({ data: JSON.stringify(frame) });
  }

  welcomes() {
    this.says({
      type: "connected",
      connection_id: "gw.conn_1",
      user_id: "me",
      session_id: "s",
      heartbeat_interval: 30,
    });
  }

  /** The server hangs up. */
  ends(code = 1006) {
    this.readyState = 3;
    this.onclose({ code });
  }

  sent(type) {
    return this.frames.filter((frame) => frame.type === type);
  }
}

export class FakeStorage {
  getItem(key) {
    return Object.hasOwn(this, key) ? this[key] : null;
  }

  setItem(key, value) {
    this[key] = value;
  }

  removeItem(key) {
    delete this[key];
  }
}

export const LOGIN = {
  user: { user_id: "me" },
  session_id: "s",
  access_token: "token-1",
  refresh_token: "refresh-1",
  expires_in: 900,
};

/** A `fetch` that answers from `routes`: `{"GET /api/chats": (body) => [status, answer]}`. */
export function fakeFetch(routes) {
  const calls = [];
  const fetch = async (url, { method, headers, body }) => {
    const path = url.replace("http://here", "").split("?")[0];
    const call = { route: `${method} ${path}`, headers, body: body && JSON.parse(body) };
    calls.push(call);
    const answer = routes[call.route];
    if (!answer) throw new TypeError("no network");
    const [status, json] = answer(call.body, headers);
    return { status, ok: status < 400, json: async () => json, headers: new Headers() };
  };
  fetch.calls = calls;
  return fetch;
}

export const EMPTY_INBOX = { "GET /api/chats": () => [200, { items: [], next_cursor: null }] };

export function inboxOf(...chats) {
  const items = chats.map(([chat_id, last_sequence]) => ({ chat_id, last_sequence }));
  return { "GET /api/chats": () => [200, { items, next_cursor: null }] };
}

/** A client that has opened its first socket; `events` is everything it emitted, as `[type, detail]`. */
export async function startClient({ routes = EMPTY_INBOX, storage = null, online = true, ...options } = {}) {
  FakeSocket.opened = [];
  const fetch = fakeFetch(routes);
  const session = new Session({ url: "http://here", storage, fetch });
  if (!session.isOpen) session.open(LOGIN);
  const client = new Parley({ session, WebSocket: FakeSocket, random: () => 0.5, ...options });
  const events = [];
  for (const type of [
    "state",
    "chats",
    "message",
    "activity",
    "pending",
    "sent",
    "failed",
    "discarded",
    "watermark",
    "left",
    "ended",
  ]) {
    client.addEventListener(type, ({ detail }) => events.push([type, detail]));
  }
  client.start();
  await settled();
  if (online) {
    FakeSocket.last.welcomes();
    await settled();
  }
  return { client, session, fetch, events, of: (type) => events.filter(([name]) => name === type).map(([, d]) => d) };
}

/** Let every promise that can go on go on. */
export async function settled() {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

export function message(sequence, fields = {}) {
  return {
    type: "message",
    chat_id: "c",
    sequence,
    sender_id: "you",
    client_message_id: `x${sequence}`,
    content: `m${sequence}`,
    ...fields,
  };
}
