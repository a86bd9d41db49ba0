import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { ChatLog } from "../static/parley.js";
import { FakeSocket, ack, change, error, flushPromises, inboxOf, message, startClient } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

const contents = (log) => log.timeline.map(({ content }) => content);

describe("ChatLog", () => {
  test("a change that arrives before its target is applied to the page", () => {
    const log = new ChatLog();
    log.apply(message(8));
    const read = log.beginRead();
    log.apply(change(9, "edit", 7, { content: "new" }));
    assert.equal(log.endPage(read, [message(7, { content: "old" })]), true);
    assert.deepEqual(contents(log), ["new", "m8"]);
  });

  test("a page that is newer than an entry stays", () => {
    const log = new ChatLog();
    log.endPage(log.beginRead(), [message(1, { content: "newest", last_change: 5 })]);
    log.apply(change(3, "edit", 1, { content: "older" }));
    assert.deepEqual(contents(log), ["newest"]);
  });

  test("a deletion leaves an empty slot", () => {
    const log = new ChatLog();
    log.apply(message(1, { mentions: ["you"] }));
    log.apply(change(2, "reaction", 1, { emoji: "👍", action: "add" }));
    log.apply(change(3, "deletion", 1));
    const [{ content, deleted_at, last_change, mentions, reactions }] = log.timeline;
    assert.deepEqual([content, deleted_at, last_change, mentions, reactions], ["", "t3", 3, undefined, undefined]);
  });

  test("reactions are counted by emoji, and the last one of an emoji removes it", () => {
    const log = new ChatLog();
    log.apply(message(1));
    log.apply(change(2, "reaction", 1, { emoji: "👍", action: "add", sender_id: "you" }));
    log.apply(change(3, "reaction", 1, { emoji: "👍", action: "add", sender_id: "me" }));
    log.apply(change(4, "reaction", 1, { emoji: "🎉", action: "add", sender_id: "me" }));
    assert.deepEqual(log.timeline[0].reactions, [
      { emoji: "🎉", count: 1, user_ids: ["me"] },
      { emoji: "👍", count: 2, user_ids: ["me", "you"] },
    ]);
    log.apply(change(5, "reaction", 1, { emoji: "🎉", action: "remove", sender_id: "me" }));
    assert.deepEqual(log.timeline[0].reactions.map(({ emoji }) => emoji), ["👍"]);
  });

  test("reactions are sorted by code points, as the server sorts them", () => {
    const log = new ChatLog();
    log.apply(message(1));
    const sorted = ["❤", "❤️", "\uff01", "👍", "👍🏽"];
    for (const [index, emoji] of ["👍🏽", "\uff01", "❤️", "👍", "❤"].entries())
      log.apply(change(index + 2, "reaction", 1, { emoji, action: "add" }));
    assert.deepEqual(log.timeline[0].reactions.map(({ emoji }) => emoji), sorted);
  });

  test("who reacted behind the list is known, and moves up when somebody listed is gone", () => {
    const log = new ChatLog({ maxListed: 2 });
    const react = (sequence, sender_id, action = "add") =>
      log.apply(change(sequence, "reaction", 1, { emoji: "👍", action, sender_id }));
    log.apply(message(1));
    ["ben", "cem", "ada", "dan"].forEach((name, index) => react(2 + index, name));
    assert.deepEqual(log.timeline[0].reactions, [{ emoji: "👍", count: 4, user_ids: ["ada", "ben"] }]);
    assert.deepEqual([log.hasReacted(1, "👍", "dan"), log.hasReacted(1, "👍", "zoe")], [true, false]);
    react(6, "ada", "remove");
    assert.deepEqual(log.timeline[0].reactions, [{ emoji: "👍", count: 3, user_ids: ["ben", "cem"] }]);
    react(7, "dan", "remove");
    assert.equal(log.hasReacted(1, "👍", "dan"), false);
  });

  test("pins are the newest first, and a page older than them does not change them", () => {
    const log = new ChatLog();
    log.endPage(log.beginRead(), [message(90)]);
    log.endPins(log.beginRead(), [message(3)]);
    log.apply(change(91, "pin", 90, { action: "add" }));
    log.endPage(log.beginRead(), [change(7, "pin", 5, { action: "add" })]);
    assert.deepEqual(log.pins, [90, 3]);
    assert.deepEqual(contents(log), ["m90"], "a pinned message is not in the timeline");
  });

  test("unknown kinds are counted and keep their slots", () => {
    const log = new ChatLog();
    log.apply(message(1));
    log.apply(change(2, "poll", 1));
    assert.deepEqual([log.skipped, log.last, contents(log)], [1, 2, ["m1"]]);
  });
});

describe("Old state + entries = fresh state", () => {
  const PEOPLE = ["ada", "ben", "me", "you"];
  const LISTED = 2;

  /** A deterministic random number generator. */
  const randomOf = (seed) => () => {
    seed = (seed * 1_664_525 + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };

  /** The next entry of a random chat: a message, or a change of one that is there. */
  function nextEntry(entries, random) {
    const sequence = entries.length + 1;
    const pick = (list) => list[Math.floor(random() * list.length)];
    const deleted = new Set(entries.filter(({ kind }) => kind === "deletion").map(({ target }) => target));
    const targets = entries.filter((entry) => !entry.kind && !deleted.has(entry.sequence));
    if (!targets.length || random() < 0.3) return message(sequence, { kind: undefined, created_at: `t${sequence}` });
    const { sequence: target } = pick(targets);
    switch (pick(["edit", "reaction", "reaction", "reaction", "reaction", "pin", "deletion"])) {
      case "edit":
        return change(sequence, "edit", target, { content: `edit ${sequence}` });
      case "deletion":
        return change(sequence, "deletion", target);
      case "pin":
        return change(sequence, "pin", target, { action: pick(["add", "remove"]) });
      default: {
        const [sender_id, emoji] = [pick(PEOPLE), pick(["👍", "🎉"])];
        const shown = stateAt(entries, entries.length).find(target).reactions ?? [];
        const isThere = shown.some((each) => each.emoji === emoji && each.user_ids.includes(sender_id));
        return change(sequence, "reaction", target, { emoji, sender_id, action: isThere ? "remove" : "add" });
      }
    }
  }

  /** What a server shows that lists no more than `LISTED` people for an emoji. */
  function asListed(entry) {
    const cut = (reaction) => ({ ...reaction, user_ids: reaction.user_ids.slice(0, LISTED) });
    return entry.reactions ? { ...entry, reactions: entry.reactions.map(cut) } : entry;
  }

  /** What somebody shows who has applied the first `count` entries one after the other. */
  function stateAt(entries, count) {
    const log = new ChatLog();
    for (const entry of entries.slice(0, count)) log.apply(entry);
    return log;
  }

  test("for a client that pages back while entries arrive and answers are late", () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const random = randomOf(seed);
      const entries = [];
      const commit = () => entries.push(nextEntry(entries, random));
      for (let count = 0; count < 12; count += 1) commit();
      const page = (before) =>
        entries
          .slice(Math.max(0, before - 4), before - 1)
          .map((entry) => asListed(stateAt(entries, entries.length).find(entry.sequence) ?? entry));
      const log = new ChatLog({ maxListed: LISTED });
      log.endPage(log.beginRead(), page(entries.length + 1));
      while (log.first > 1) {
        const read = log.beginRead();
        if (random() < 0.5) commit();
        const answer = page(log.first);
        for (let count = random() * 3; count > 0; count -= 1) commit();
        while (log.last < entries.length) log.apply(entries[log.last]);
        log.endPage(read, answer);
      }
      const fresh = stateAt(entries, entries.length);
      assert.deepEqual(log.timeline, fresh.timeline.map(asListed), `seed ${seed}`);
      for (const { sequence } of log.timeline)
        for (const emoji of ["👍", "🎉"])
          for (const userId of PEOPLE)
            assert.equal(log.hasReacted(sequence, emoji, userId), fresh.hasReacted(sequence, emoji, userId));
    }
  });
});

describe("An open chat", () => {
  const page = (...messages) => ({
    "GET /api/chats/c/messages": () => [200, { messages, has_more: true, latest_sequence: 0 }],
    "GET /api/chats/c/pins": () => [200, { items: [message(1)] }],
  });

  test("its log is read, followed from there, and changed by what arrives", async () => {
    const { client, of } = await startClient({ routes: { ...inboxOf(["c", 3]), ...page(message(3), message(2)) } });
    const log = await client.open("c");
    await client.loadPins("c");
    assert.equal(FakeSocket.last.sent("sync_request").at(-1).last_acked_sequence, 3);
    assert.deepEqual([log.first, log.last, log.hasOlder, log.pins], [2, 3, true, [1]]);
    FakeSocket.last.serverSend(change(4, "edit", 2, { content: "new", type: "message" }));
    assert.deepEqual(contents(client.log("c")), ["new", "m3"]);
    assert.deepEqual([of("entry").length, of("message").length], [1, 0]);
  });

  test("a chat that is open already is not read again", async () => {
    const { client, fetch } = await startClient({ routes: { ...inboxOf(["c", 3]), ...page(message(3), message(2)) } });
    const log = await client.open("c");
    const count = fetch.calls.length;
    assert.equal(await client.open("c"), log);
    assert.equal(fetch.calls.length, count);
  });

  test("own changes are frames with an id, applied by their acks", async () => {
    const routes = { ...inboxOf(["c", 2]), ...page(message(2, { sender_id: "me" }), message(1)) };
    const { client, of } = await startClient({ routes });
    await client.open("c");
    const ids = [
      client.edit("c", 2, "new", { mentions: ["you"] }),
      client.react("c", 1, "👍"),
      client.pin("c", 1),
      client.delete("c", 2),
    ];
    assert.deepEqual(
      ["edit_message", "react", "pin", "delete_message"].map((type) => FakeSocket.last.sent(type)[0]),
      [
        { type: "edit_message", target: 2, content: "new", mentions: ["you"] },
        { type: "react", target: 1, emoji: "👍", action: "add" },
        { type: "pin", target: 1, action: "add" },
        { type: "delete_message", target: 2 },
      ].map((fields, index) => ({ ...fields, client_message_id: ids[index], chat_id: "c" })),
    );
    ids.forEach((id, index) => FakeSocket.last.serverSend(ack(id, 3 + index)));
    const log = client.log("c");
    assert.deepEqual(log.pins, [1]);
    assert.deepEqual(log.find(1).reactions, [{ emoji: "👍", count: 1, user_ids: ["me"] }]);
    assert.deepEqual([log.find(2).content, log.find(2).deleted_at], ["", "now"]);
    assert.equal(of("sent").length, 4);
  });

  test("a change that changes nothing is finished without an entry", async () => {
    const { client, of } = await startClient();
    const id = client.react("c", 1, "👍");
    FakeSocket.last.serverSend(ack(id, null, { duplicate: true }));
    assert.deepEqual(of("sent"), [{ clientMessageId: id, chatId: "c", entry: null }]);
    assert.deepEqual(of("activity"), []);
  });

  test("a refused change fails with its draft", async () => {
    const { client, of } = await startClient();
    const id = client.edit("c", 1, "too late");
    FakeSocket.last.serverSend(error("message_deleted", { retryable: false, client_message_id: id }));
    const [{ type, error: reason }] = of("failed");
    assert.deepEqual([type, reason.code], ["edit_message", "message_deleted"]);
  });

  test("an own change that is acknowledged while a page is on its way is applied to it", async () => {
    let answer;
    const late = new Promise((resolve) => (answer = resolve));
    const routes = { ...inboxOf(["c", 3]), ...page(message(3)) };
    const { client, session } = await startClient({ routes });
    await client.open("c");
    session.request = () => late;
    const loading = client.loadOlder("c");
    FakeSocket.last.serverSend(ack(client.edit("c", 2, "new"), 4));
    answer({ messages: [message(2, { content: "old" })], has_more: false });
    await loading;
    await flushPromises();
    assert.deepEqual(contents(client.log("c")), ["new", "m3"]);
  });

  test("a message outside the timeline is read for a quote and follows its changes", async () => {
    const quoted = { "GET /api/chats/c/messages/1": () => [200, message(1)] };
    const { client } = await startClient({ routes: { ...inboxOf(["c", 9]), ...page(message(9)), ...quoted } });
    await client.open("c");
    await client.loadMessage("c", 1);
    FakeSocket.last.serverSend(change(10, "deletion", 1, { type: "message" }));
    assert.equal(client.log("c").find(1).deleted_at, "t10");
    assert.deepEqual(contents(client.log("c")), ["m9"]);
  });
});
