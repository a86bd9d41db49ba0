import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { watchPartners } from "../static/app/presence.js";
import { FakeSocket, flushPromises, inboxOf, message, startClient } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

const mark = (user_id, last_acked_sequence, last_read_sequence) => ({
  user_id,
  last_acked_sequence,
  last_read_sequence,
});

describe("Receipts", () => {
  test("marks never move back, and reading is delivery", async () => {
    const { client, of } = await startClient();
    const receipts = (...marks) => FakeSocket.last.serverSend({ type: "receipts", chat_id: "c", marks });
    receipts(mark("you", 5, 7));
    receipts(mark("you", 4, 3));
    assert.deepEqual(client.marks.receipts("c").get("you"), { delivered: 7, read: 7 });
    assert.equal(of("receipts").length, 2);
  });

  test("who hides it has no read mark", async () => {
    const { client } = await startClient();
    FakeSocket.last.serverSend({ type: "receipts", chat_id: "c", marks: [mark("you", 5)] });
    assert.deepEqual(client.marks.receipts("c").get("you"), { delivered: 5, read: undefined });
  });

  test("all members' marks are read from the API", async () => {
    const items = [mark("you", 1, 1), mark("me", 2)];
    const routes = { ...inboxOf(), "GET /api/chats/c/receipts": () => [200, { items, next_cursor: null }] };
    const { client } = await startClient({ routes });
    await client.loadReceipts("c");
    assert.deepEqual([...client.marks.receipts("c").keys()], ["you", "me"]);
  });

  test("a read mark that the API no longer shows is forgotten, one that arrived meanwhile is kept", async () => {
    const items = [mark("you", 5), mark("them", 5)];
    const live = { type: "receipts", chat_id: "c", marks: [mark("them", 6, 6)] };
    const answer = () => {
      FakeSocket.last.serverSend(live);
      return [200, { items, next_cursor: null }];
    };
    const { client } = await startClient({ routes: { ...inboxOf(), "GET /api/chats/c/receipts": answer } });
    FakeSocket.last.serverSend({ type: "receipts", chat_id: "c", marks: [mark("you", 4, 4), mark("them", 4, 4)] });
    await client.loadReceipts("c");
    assert.deepEqual(Object.fromEntries(client.marks.receipts("c")), {
      you: { delivered: 5, read: undefined },
      them: { delivered: 6, read: 6 },
    });
  });

  test("a resync is told, so that the receipts of the open chat are read again", async () => {
    const { of } = await startClient();
    FakeSocket.last.serverSend({ type: "resync" });
    assert.equal(of("resync").length, 1);
  });
});

describe("Typing", () => {
  const typing = (active = true) =>
    FakeSocket.last.serverSend({ type: "typing", chat_id: "c", user_id: "you", active });

  test("a typist is forgotten after six seconds, and the page is told", async () => {
    const { client, of } = await startClient();
    typing();
    assert.deepEqual(client.marks.typing("c"), ["you"]);
    mock.timers.tick(6_000);
    assert.deepEqual(client.marks.typing("c"), []);
    assert.equal(of("typing").length, 2);
  });

  test("a message of the typist ends it", async () => {
    const { client } = await startClient();
    typing();
    FakeSocket.last.serverSend(message(1));
    assert.deepEqual(client.marks.typing("c"), []);
  });

  test("keystrokes are sent every three seconds at most", async () => {
    const { client } = await startClient();
    client.setTyping("c", false);
    for (let key = 0; key < 10; key += 1) {
      client.setTyping("c", true);
      mock.timers.tick(400);
    }
    client.setTyping("c", false);
    client.setTyping("c", false);
    assert.deepEqual(
      FakeSocket.last.sent("typing").map(({ active }) => active),
      [true, true, false],
    );
  });

  test("a start after an end waits until the server would forward it, and is sent at a later key", async () => {
    const { client } = await startClient({ routes: inboxOf(["c", 1, { last_read_sequence: 1 }]) });
    const actives = () => FakeSocket.last.sent("typing").map(({ active }) => active);
    client.setTyping("c", true);
    client.setTyping("c", false);
    mock.timers.tick(2_000);
    client.setTyping("c", true);
    assert.deepEqual(actives(), [true, false]);
    mock.timers.tick(600);
    client.setTyping("c", true);
    assert.deepEqual(actives(), [true, false, true]);
  });
});

describe("A server of an earlier version", () => {
  test("gets no frame that it does not know: reading is acknowledging", async () => {
    const items = [{ chat_id: "c", last_sequence: 3 }];
    const { client } = await startClient({ routes: { "GET /api/chats": () => [200, { items, next_cursor: null }] } });
    client.markRead("c", 3);
    client.setTyping("c", true);
    client.watchPresence("c", ["you"]);
    mock.timers.tick(200);
    assert.deepEqual(
      FakeSocket.last.frames.map(({ type }) => type),
      ["ack"],
    );
  });
});

describe("Presence", () => {
  test("what is watched is watched again after a reconnect", async () => {
    const { client } = await startClient();
    client.watchPresence("c", ["you"]);
    client.watchPresence("c", ["you"]);
    assert.equal(FakeSocket.last.sent("watch_presence").length, 1);
    client.lostNetwork();
    client.nudge();
    await flushPromises();
    FakeSocket.last.serverAccept();
    await flushPromises();
    assert.deepEqual(FakeSocket.last.sent("watch_presence"), [
      { type: "watch_presence", chat_id: "c", user_ids: ["you"] },
    ]);
  });

  test("whoever is no longer watched in any chat is not known to be online", async () => {
    const { client } = await startClient();
    client.watchPresence("c", ["you", "them"]);
    client.watchPresence("d", ["them"]);
    for (const user_id of ["you", "them"]) FakeSocket.last.serverSend({ type: "presence", user_id, status: "online" });
    client.watchPresence("c", []);
    assert.equal(client.marks.presence("you"), undefined);
    assert.equal(client.marks.presence("them").status, "online");
  });

  test("many lists are sent one after the other, the newest of each chat", async () => {
    const { client } = await startClient();
    for (let chat = 0; chat < 30; chat += 1) client.watchPresence(`c${chat}`, ["you"]);
    client.watchPresence("c29", []);
    assert.equal(FakeSocket.last.sent("watch_presence").length, 1);
    for (let pause = 0; pause < 40; pause += 1) mock.timers.tick(150);
    const lists = FakeSocket.last.sent("watch_presence");
    assert.equal(lists.length, 30);
    assert.deepEqual(lists.at(-1), { type: "watch_presence", chat_id: "c29", user_ids: [] });
  });

  test("the topmost chats and the open one are watched, and no longer those that have moved down", async () => {
    const { client } = await startClient();
    const list = Array.from({ length: 40 }, (_, place) => ({ chat_id: `c${place}`, type: "direct" }));
    const chats = { list: () => list, partner: ({ chat_id: id }) => `partner of ${id}` };
    const watched = new Map();
    const parley = { watchPresence: (chatId, userIds) => client.watchPresence(chatId, userIds) };
    const settle = () => {
      for (let pause = 0; pause < 60; pause += 1) mock.timers.tick(150);
      for (const { chat_id: id, user_ids: ids } of FakeSocket.last.sent("watch_presence")) watched.set(id, ids.length);
      return [...watched].filter(([, count]) => count).map(([id]) => id);
    };
    watchPartners({ chats, parley, open: "c35" });
    assert.deepEqual(settle(), [...list.slice(0, 30).map(({ chat_id: id }) => id), "c35"]);
    list.unshift(list.pop());
    watchPartners({ chats, parley, open: undefined });
    assert.deepEqual(settle().sort(), list.slice(0, 30).map(({ chat_id: id }) => id).sort());
  });

  test("without a connection nobody is known to be online", async () => {
    const { client, of } = await startClient();
    FakeSocket.last.serverSend({ type: "presence", user_id: "you", status: "online" });
    assert.equal(client.marks.presence("you").status, "online");
    assert.deepEqual(of("presence"), [{ userId: "you" }]);
    client.lostNetwork();
    assert.equal(client.marks.presence("you"), undefined);
  });
});
