/** Test doubles: a WebSocket that records its frames, a storage, and a `fetch` that answers by route. */
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

  serverSend(frame) {
    this.onmessage({ data: JSON.stringify(frame) });
  }

  serverAccept() {
    this.serverSend({
      type: "connected",
      connection_id: "gw.conn_1",
      user_id: "me",
      session_id: "s",
      heartbeat_interval: 30,
    });
  }

  serverClose(code = 1006) {
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

/** A `fetch` that responds from `routes`: `{"GET /api/chats": (body, headers) => [status, json]}`. */
export function fakeFetch(routes) {
  const calls = [];
  const fetch = async (url, { method, headers, body }) => {
    const path = url.replace("http://here", "").split("?")[0];
    const call = { route: `${method} ${path}`, headers, body: body && JSON.parse(body) };
    calls.push(call);
    const respond = routes[call.route];
    if (!respond) throw new TypeError("no network");
    const [status, json] = respond(call.body, headers);
    return { status, ok: status < 400, json: async () => json, headers: new Headers() };
  };
  fetch.calls = calls;
  return fetch;
}

const EVENTS = [
  ..."state chats entry message activity pending sent failed discarded left ended".split(" "),
  ..."receipts typing presence resync".split(" "),
];

export function inboxOf(...chats) {
  const items = chats.map(([chat_id, last_sequence, fields]) => ({
    chat_id,
    last_sequence,
    last_read_sequence: 0,
    ...fields,
  }));
  return { "GET /api/chats": () => [200, { items, next_cursor: null }] };
}

/** A started client, online by default. `of(type)` lists the details of the events that it emitted. */
export async function startClient({ routes = inboxOf(["other", 0]), storage = null, online = true, ...options } = {}) {
  FakeSocket.opened = [];
  const fetch = fakeFetch(routes);
  const session = new Session({ url: "http://here", storage, fetch });
  if (!session.isOpen) session.open(LOGIN);
  const client = new Parley({ session, WebSocket: FakeSocket, random: () => 0.5, ...options });
  const events = [];
  for (const type of EVENTS) {
    client.addEventListener(type, ({ detail }) => events.push([type, detail]));
  }
  client.start();
  await flushPromises();
  if (online) {
    FakeSocket.last.serverAccept();
    await flushPromises();
  }
  return { client, session, fetch, of: (type) => events.filter(([name]) => name === type).map(([, d]) => d) };
}

/** Run the pending promise callbacks. */
export async function flushPromises() {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

export const message = (sequence, fields = {}) => ({
  type: "message",
  chat_id: "c",
  sequence,
  sender_id: "you",
  client_message_id: `x${sequence}`,
  content: `m${sequence}`,
  ...fields,
});

export const ack = (id, sequence, { duplicate = false } = {}) => ({
  type: "ack",
  client_message_id: id,
  chat_id: "c",
  message_id: `msg_${sequence}`,
  sequence,
  created_at: "now",
  duplicate,
});

export const change = (sequence, kind, target, fields = {}) =>
  message(sequence, { kind, target, content: "", created_at: `t${sequence}`, ...fields });

export const error = (code, fields) => ({ type: "error", code, detail: "", chat_id: "c", ...fields });

export const syncBatch = (messages, { chat_id = "c", has_more = false } = {}) => ({
  type: "sync_batch",
  chat_id,
  messages,
  has_more,
});
