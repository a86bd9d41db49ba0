import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { Outbox, ParleyError, Timeline, pauseBefore } from "../static/parley.js";
import { FakeSocket, FakeStorage, ack, error, flushPromises } from "./doubles.mjs";
import { inboxOf, message, startClient, syncBatch } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

const sequences = (messages) => messages.map(({ sequence }) => sequence);

describe("Timeline", () => {
  test("messages in order are returned at once", () => {
    const timeline = new Timeline(4);
    assert.deepEqual(sequences(timeline.take([message(5), message(6)])), [5, 6]);
    assert.equal(timeline.lastSeen, 6);
  });

  test("a duplicate is not returned again", () => {
    const timeline = new Timeline(0);
    timeline.take([message(1)]);
    assert.deepEqual(timeline.take([message(1)]), []);
    assert.equal(timeline.hasGap, false);
  });

  test("messages beyond a gap are buffered until the gap is filled", () => {
    const timeline = new Timeline(0);
    assert.deepEqual(timeline.take([message(3), message(2)]), []);
    assert.equal(timeline.hasGap, true);
    assert.deepEqual(sequences(timeline.take([message(1)])), [1, 2, 3]);
    assert.equal(timeline.hasGap, false);
  });

  test("what is buffered behind a gap is bounded, and what was dropped is taken when it comes again", () => {
    const timeline = new Timeline(0);
    for (let sequence = 2; sequence <= 5_000; sequence += 1) timeline.take([message(sequence)]);
    assert.equal(timeline.take([message(1)]).length, 1_001);
    assert.equal(timeline.hasGap, false);
    assert.deepEqual(sequences(timeline.take([message(1_002), message(1_003)])), [1_002, 1_003]);
  });

  test("every order of arrival gives the same list", () => {
    const orders = (rest) =>
      rest.length < 2 ? [rest] : rest.flatMap((x) => orders(rest.filter((y) => y !== x)).map((o) => [x, ...o]));
    for (const order of orders([1, 2, 3, 4, 5])) {
      const timeline = new Timeline(0);
      const taken = order.flatMap((sequence) => timeline.take([message(sequence), message(order[0])]));
      assert.deepEqual(sequences(taken), [1, 2, 3, 4, 5]);
    }
  });
});

describe("Outbox", () => {
  test("a draft is kept and sent although the storage is full", () => {
    const storage = new FakeStorage();
    storage.setItem = () => {
      throw new Error("QuotaExceededError");
    };
    const outbox = new Outbox({ storage });
    outbox.add({ clientMessageId: "1", chatId: "c", type: "send_message", fields: { content: "hi" }, queuedAt: 0 });
    assert.equal(outbox.list().length, 1);
  });
});

describe("Sync", () => {
  test("a gap triggers one sync, and later messages are buffered until it is filled", async () => {
    const { client, of } = await startClient({ routes: inboxOf(["c", 1]) });
    client.follow("c", 0);
    FakeSocket.last.serverSend(syncBatch([message(1)]));
    FakeSocket.last.serverSend(message(4));
    FakeSocket.last.serverSend(message(5));
    assert.deepEqual(sequences(of("message")), [1]);
    const requests = FakeSocket.last.sent("sync_request");
    assert.equal(requests.length, 2, "one sync fills the gap, however many messages are buffered");
    assert.equal(requests[1].last_acked_sequence, 1);

    FakeSocket.last.serverSend(syncBatch([message(2), message(3), message(4)]));
    assert.deepEqual(sequences(of("message")), [1, 2, 3, 4, 5]);
  });

  test("a sync goes on page by page", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.serverSend(syncBatch([message(1), message(2)], { has_more: true }));
    assert.equal(FakeSocket.last.sent("sync_request").at(-1).last_acked_sequence, 2);
    FakeSocket.last.serverSend(syncBatch([message(3)]));
    assert.deepEqual(sequences(of("message")), [1, 2, 3]);
    assert.equal(FakeSocket.last.sent("sync_request").length, 2);
  });

  test("a sync without progress is repeated after a delay", async () => {
    const { client } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.serverSend(message(2));
    FakeSocket.last.serverSend(syncBatch([]));
    assert.equal(FakeSocket.last.sent("sync_request").length, 1);
    mock.timers.tick(1_000);
    assert.equal(FakeSocket.last.sent("sync_request").length, 2);
  });

  test("a batch with duplicates delivers each message once", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.serverSend({ type: "message_batch", chat_id: "c", messages: [message(1), message(2)] });
    FakeSocket.last.serverSend({ type: "message_batch", chat_id: "c", messages: [message(2), message(3)] });
    assert.deepEqual(sequences(of("message")), [1, 2, 3]);
  });

  test("a chat that is not followed emits activity and is not synced", async () => {
    const { of } = await startClient();
    FakeSocket.last.serverSend(message(9));
    assert.deepEqual(sequences(of("activity")), [9]);
    assert.deepEqual(of("message"), []);
    assert.deepEqual(FakeSocket.last.sent("sync_request"), []);
  });

  test("chat_not_found emits left", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.serverSend(error("chat_not_found", { retryable: false }));
    assert.deepEqual(of("left"), [{ chatId: "c" }]);
  });

  test("a retryable sync error is retried", async () => {
    const { client } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.serverSend(error("store_unavailable", { retryable: true, retry_after: 1 }));
    mock.timers.tick(1_500);
    assert.equal(FakeSocket.last.sent("sync_request").length, 2);
  });
});

describe("Reconnecting", () => {
  test("the delay is random below a bound that doubles up to a limit", () => {
    assert.equal(pauseBefore(0, { random: () => 0 }), 0);
    assert.equal(pauseBefore(0, { random: () => 1 }), 300);
    assert.equal(pauseBefore(3, { random: () => 1 }), 2_400);
    assert.equal(pauseBefore(50, { random: () => 1 }), 15_000);
  });

  test("only chats that are behind the inbox are synced", async () => {
    const { client } = await startClient({ routes: inboxOf(["c", 7], ["d", 3]) });
    client.follow("c", 5);
    client.follow("d", 3);
    FakeSocket.last.serverClose(1012);
    assert.equal(client.state, "offline");
    mock.timers.tick(1_000);
    await flushPromises();
    FakeSocket.last.serverAccept();
    await flushPromises();
    assert.equal(FakeSocket.opened.length, 2);
    assert.deepEqual(
      FakeSocket.last.sent("sync_request").map((frame) => [frame.chat_id, frame.last_acked_sequence]),
      [["c", 5]],
    );
  });

  test("resync syncs the chats that are behind the inbox", async () => {
    const { client } = await startClient({ routes: inboxOf(["c", 7]) });
    client.follow("c", 7);
    FakeSocket.last.serverSend(syncBatch([]));
    client.follow("x", 0);
    FakeSocket.last.frames.length = 0;
    FakeSocket.last.serverSend(syncBatch([], { chat_id: "x" }));
    FakeSocket.last.serverSend({ type: "resync" });
    await flushPromises();
    assert.deepEqual(
      FakeSocket.last.sent("sync_request").map((frame) => frame.chat_id),
      ["x"],
      "a chat that the inbox lacks is synced",
    );
  });

  test("a burst of refreshes is coalesced into two requests", async () => {
    const { client, fetch } = await startClient();
    const before = fetch.calls.length;
    for (let time = 0; time < 10; time += 1) client.refresh();
    for (let turn = 0; turn < 5; turn += 1) await flushPromises();
    assert.equal(fetch.calls.length - before, 2);
  });

  test("the backoff grows with failures and is reset by a success", async () => {
    const { client } = await startClient({ online: false });
    for (const pause of [150, 300, 600]) {
      FakeSocket.last.serverClose();
      const before = FakeSocket.opened.length;
      mock.timers.tick(pause - 1);
      await flushPromises();
      assert.equal(FakeSocket.opened.length, before);
      mock.timers.tick(1);
      await flushPromises();
      assert.equal(FakeSocket.opened.length, before + 1);
    }
    FakeSocket.last.serverAccept();
    await flushPromises();
    assert.equal(client.state, "online");
    FakeSocket.last.serverClose();
    mock.timers.tick(150);
    await flushPromises();
    assert.equal(FakeSocket.opened.length, 5);
  });

  test("a nudge reconnects without waiting for the backoff", async () => {
    const { client } = await startClient();
    FakeSocket.last.serverClose();
    client.nudge();
    await flushPromises();
    assert.equal(FakeSocket.opened.length, 2);
  });

  test("a failed read of the inbox is retried", async () => {
    const routes = inboxOf(["c", 2]);
    const answer = routes["GET /api/chats"];
    let failures = 1;
    routes["GET /api/chats"] = () => (failures-- > 0 ? [503, { code: "store_unavailable" }] : answer());
    const { of } = await startClient({ routes });
    assert.equal(of("chats").length, 0);
    mock.timers.tick(2_400);
    await flushPromises();
    assert.equal(of("chats").length, 1);
  });
});

describe("Sending", () => {
  test("the ack turns a queued message into a stored one", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    const id = client.send("c", "hello");
    FakeSocket.last.serverSend(ack(id, 1));
    assert.deepEqual(
      of("sent").map(({ clientMessageId }) => clientMessageId),
      [id],
    );
    assert.deepEqual(of("message"), [
      {
        client_message_id: id,
        chat_id: "c",
        message_id: "msg_1",
        sequence: 1,
        created_at: "now",
        kind: "message",
        sender_id: "me",
        content: "hello",
        content_type: "text/plain",
      },
    ]);
    assert.deepEqual(client.outbox.list(), []);
  });

  test("unacknowledged messages are resent after a reconnect, same ids, same order", async () => {
    const { client } = await startClient();
    const ids = ["one", "two", "three"].map((text) => client.send("c", text));
    FakeSocket.last.serverClose();
    mock.timers.tick(1_000);
    await flushPromises();
    FakeSocket.last.serverAccept();
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.client_message_id),
      ids,
    );
  });

  test("a message written offline is sent after the connect", async () => {
    const { client } = await startClient({ online: false });
    client.send("c", "later");
    assert.deepEqual(FakeSocket.last.sent("send_message"), []);
    FakeSocket.last.serverAccept();
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.content),
      ["later"],
    );
  });

  test("a pushed copy before the ack counts as sent, and the ack delivers nothing twice", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    const id = client.send("c", "hello");
    FakeSocket.last.serverSend(message(1, { sender_id: "me", client_message_id: id, content: "hello" }));
    FakeSocket.last.serverSend(ack(id, 1, { duplicate: true }));
    assert.equal(of("sent").length, 1);
    assert.deepEqual(sequences(of("message")), [1]);
  });

  test("another sender's message with the same client id does not count as sent", async () => {
    const { client, of } = await startClient();
    const id = client.send("c", "hello");
    FakeSocket.last.serverSend(message(1, { sender_id: "you", client_message_id: id }));
    assert.equal(of("sent").length, 0);
  });

  test("an own message beyond a gap is buffered like any other", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.serverSend(syncBatch([]));
    const id = client.send("c", "mine");
    FakeSocket.last.serverSend(ack(id, 2));
    assert.equal(of("sent").length, 1);
    assert.deepEqual(of("message"), []);
    FakeSocket.last.serverSend(syncBatch([message(1), message(2, { content: "mine" })]));
    assert.deepEqual(sequences(of("message")), [1, 2]);
  });

  test("a retryable error is retried under the same id after retry_after", async () => {
    const { client } = await startClient();
    const id = client.send("c", "hello");
    FakeSocket.last.serverSend(error("rate_limited", { retryable: true, retry_after: 2, client_message_id: id }));
    mock.timers.tick(2_499);
    assert.equal(FakeSocket.last.sent("send_message").length, 1);
    mock.timers.tick(1);
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.client_message_id),
      [id, id],
    );
  });

  test("a final error fails the message, and retry() uses the same id", async () => {
    const { client, of } = await startClient();
    const id = client.send("c", "hello");
    FakeSocket.last.serverSend(error("content_too_large", { retryable: false, client_message_id: id }));
    assert.equal(of("failed")[0].error.code, "content_too_large");
    client.retry(id);
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.client_message_id),
      [id, id],
    );
    client.discard(id);
    assert.deepEqual(client.outbox.list(), []);
  });

  test("a message fails after mostAttempts retryable errors", async () => {
    const { client, of } = await startClient({ mostAttempts: 3 });
    const id = client.send("c", "hello");
    for (let attempt = 0; attempt < 3; attempt += 1) {
      FakeSocket.last.serverSend(error("fanout_unavailable", { retryable: true, client_message_id: id }));
      mock.timers.tick(1_500);
    }
    assert.equal(of("failed").length, 1);
    assert.equal(FakeSocket.last.sent("send_message").length, 3);
  });

  test("a message that an earlier version queued is sent", async () => {
    const storage = new FakeStorage();
    const stored = { clientMessageId: "x", chatId: "c", content: "hello", queuedAt: 1 };
    storage.setItem("parley.outbox.x", JSON.stringify(stored));
    await startClient({ outbox: new Outbox({ storage }) });
    assert.deepEqual(FakeSocket.last.sent("send_message"), [
      { type: "send_message", client_message_id: "x", chat_id: "c", content: "hello" },
    ]);
  });

  test("queued messages survive a reload", async () => {
    const storage = new FakeStorage();
    const first = await startClient({ outbox: new Outbox({ storage }), online: false });
    const ids = ["one", "two"].map((text) => {
      mock.timers.tick(1);
      return first.client.send("c", text);
    });
    await startClient({ outbox: new Outbox({ storage }) });
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.client_message_id),
      ids,
    );
  });
});

describe("Heartbeat", () => {
  test("a heartbeat is sent at the server's interval", async () => {
    await startClient();
    mock.timers.tick(30_000);
    assert.equal(FakeSocket.last.sent("heartbeat").length, 1);
    FakeSocket.last.serverSend({ type: "heartbeat_ack", server_time: "now" });
    mock.timers.tick(30_000);
    assert.equal(FakeSocket.last.sent("heartbeat").length, 2);
  });

  test("a connection that no longer responds is replaced", async () => {
    const { client } = await startClient();
    mock.timers.tick(30_000);
    mock.timers.tick(10_000);
    assert.equal(client.state, "offline");
    mock.timers.tick(1_000);
    await flushPromises();
    assert.equal(FakeSocket.opened.length, 2);
  });

  test("a late frame of the old connection is ignored", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    const old = FakeSocket.last;
    client.lostNetwork();
    old.serverSend(message(1));
    assert.deepEqual(of("message"), []);
  });
});

describe("Reading", () => {
  test("marks are coalesced into the furthest of each kind", async () => {
    const { client } = await startClient();
    client.acknowledge("c", 4);
    client.acknowledge("c", 3);
    client.markRead("c", 2);
    mock.timers.tick(200);
    assert.deepEqual(FakeSocket.last.sent("ack"), [{ type: "ack", chat_id: "c", sequence: 4 }]);
    assert.deepEqual(FakeSocket.last.sent("read"), [{ type: "read", chat_id: "c", sequence: 2 }]);
  });

  test("where nothing was read yet, an acknowledgement says so", async () => {
    const { client } = await startClient({ routes: inboxOf(["other", 0, { unread_after: 0 }]) });
    client.acknowledge("c", 4, { isRead: false });
    mock.timers.tick(200);
    assert.deepEqual(FakeSocket.last.sent("ack"), [{ type: "ack", chat_id: "c", sequence: 4, read: false }]);
  });

  test("an earlier server, which would count from there, gets no such acknowledgement", async () => {
    const { client } = await startClient();
    client.acknowledge("c", 4, { isRead: false });
    mock.timers.tick(200);
    assert.deepEqual(FakeSocket.last.sent("ack"), []);
  });

  test("a mark that was made offline is sent after the connect", async () => {
    const { client } = await startClient({ online: false });
    client.markRead("c", 2);
    mock.timers.tick(200);
    FakeSocket.last.serverAccept();
    await flushPromises();
    assert.deepEqual(FakeSocket.last.sent("read"), [{ type: "read", chat_id: "c", sequence: 2 }]);
  });

  test("listAll reads every page", async () => {
    const pages = [
      { items: [1], next_cursor: "a b" },
      { items: [2], next_cursor: null },
    ];
    const { client, fetch } = await startClient({
      routes: { ...inboxOf(), "GET /api/things": () => [200, pages.shift()] },
    });
    assert.deepEqual(await client.listAll("/api/things"), [1, 2]);
    assert.equal(fetch.calls.at(-1).headers.Authorization, "Bearer token-1");
  });

  test("an error knows whether it is retryable", () => {
    assert.equal(new ParleyError({ code: "overloaded", status: 503 }).retryable, true);
    assert.equal(new ParleyError({ code: "forbidden", status: 403 }).retryable, false);
  });
});
