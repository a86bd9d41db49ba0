import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { Chats } from "../static/app/chats.js";
import { FakeSocket, flushPromises, inboxOf, message, startClient } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

/** A started client and its chats. */
async function startChats(routes) {
  const started = await startClient({ routes, online: false });
  const people = Object.assign(new EventTarget(), { addNames: () => {}, name: () => "", partner: () => undefined });
  const tabs = Object.assign(new EventTarget(), { postMessage: () => {} });
  const chats = new Chats({ parley: started.client, people, tabs });
  FakeSocket.last.serverAccept();
  await flushPromises();
  return { ...started, chats };
}

describe("Acknowledging", () => {
  const acks = () => FakeSocket.last.sent("ack").map(({ sequence }) => sequence);

  test("an acknowledgement that a connection lost is repeated by the next one", async () => {
    const { client } = await startChats(inboxOf(["c", 3, { type: "group", last_acked_sequence: 1, unread_after: 1 }]));
    mock.timers.tick(200);
    assert.deepEqual(acks(), [3]);
    client.lostNetwork();
    client.nudge();
    await flushPromises();
    FakeSocket.last.serverAccept();
    await flushPromises();
    mock.timers.tick(200);
    assert.deepEqual(acks(), [3]);
  });

  test("what the server knows is not acknowledged", async () => {
    await startChats(inboxOf(["c", 3, { type: "group", last_acked_sequence: 3, unread_after: 1 }]));
    mock.timers.tick(200);
    assert.deepEqual(acks(), []);
  });

  test("what arrives is acknowledged once", async () => {
    await startChats(inboxOf(["c", 3, { type: "group", last_acked_sequence: 3, unread_after: 1 }]));
    for (const sequence of [4, 4]) {
      FakeSocket.last.serverSend(message(sequence));
      mock.timers.tick(200);
    }
    assert.deepEqual(acks(), [4]);
  });
});

describe("Members", () => {
  const routes = (...answers) => ({
    ...inboxOf(["c", 3, { type: "group", last_acked_sequence: 3, unread_after: 3 }]),
    "GET /api/chats/c/members": () => answers.shift(),
  });
  const page = (...userIds) => [200, { items: userIds.map((user_id) => ({ user_id })), next_cursor: null }];
  const change = () =>
    FakeSocket.last.serverSend({ type: "membership_changed", chat_id: "c", user_id: "new", change_type: "added" });

  test("the former ones are shown until the new ones are read", async () => {
    const { chats } = await startChats(routes(page("me", "you"), page("me", "you", "new")));
    await chats.members("c");
    change();
    assert.deepEqual([...chats.get("c").members.keys()], ["me", "you"]);
    assert.deepEqual([...(await chats.members("c")).keys()], ["me", "you", "new"]);
  });

  test("a read that failed is repeated, and what has not changed is not read again", async () => {
    const { chats } = await startChats(routes(page("me"), [503, { code: "unavailable" }], page("me", "new")));
    await chats.members("c");
    change();
    await assert.rejects(chats.members("c"));
    for (let time = 0; time < 2; time += 1) assert.equal((await chats.members("c")).size, 2);
  });
});
