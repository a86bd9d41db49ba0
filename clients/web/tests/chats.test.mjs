import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { Chats } from "../static/app/chats.js";
import { flushPromises, inboxOf, message, startClient } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

/** The chats of a client whose chat "c" is open from message 90, with answers to older pages that are given later. */
async function openChats() {
  const newest = { messages: [message(90)], has_more: true, latest_sequence: 90 };
  const routes = { ...inboxOf(["c", 90, { type: "group" }]), "GET /api/chats/c/messages": () => [200, newest] };
  const { client, session } = await startClient({ routes });
  const people = Object.assign(new EventTarget(), { addNames() {}, name: (id) => id });
  const tabs = Object.assign(new EventTarget(), { postMessage() {} });
  const chats = new Chats({ parley: client, people, tabs });
  await client.refresh();
  await client.open("c");
  const asked = [];
  session.request = (method, path) => new Promise((resolve) => asked.push({ path, resolve }));
  return { client, chats, asked };
}

describe("Older pages", () => {
  test("a call while a page is on its way waits for that page", async () => {
    const { client, chats, asked } = await openChats();
    const [scrolled, jumped] = [chats.loadOlder("c"), chats.loadOlder("c", { limit: 100 })];
    let isDone = false;
    jumped.then(() => (isDone = true));
    await flushPromises();
    assert.deepEqual([asked.length, isDone], [1, false]);
    asked[0].resolve({ messages: [message(89)], has_more: true });
    await Promise.all([scrolled, jumped]);
    assert.equal(client.log("c").first, 89);
  });

  test("the next call reads the next page", async () => {
    const { client, chats, asked } = await openChats();
    for (const sequence of [89, 88]) {
      const loading = chats.loadOlder("c");
      asked.at(-1).resolve({ messages: [message(sequence)], has_more: true });
      await loading;
    }
    assert.deepEqual([asked.length, client.log("c").first], [2, 88]);
  });
});
