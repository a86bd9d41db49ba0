import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { Outbox, ParleyError, Timeline, pauseBefore } from "../static/parley.js";
import { FakeSocket, FakeStorage, inboxOf, message, settled, startClient } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

const sequences = (messages) => messages.map(({ sequence }) => sequence);

describe("Timeline", () => {
  test("messages that come in order are shown at once", () => {
    const timeline = new Timeline(4);
    assert.deepEqual(sequences(timeline.take([message(5), message(6)])), [5, 6]);
    assert.equal(timeline.lastSeen, 6);
  });

  test("a duplicate is not shown again", () => {
    const timeline = new Timeline(0);
    timeline.take([message(1)]);
    assert.deepEqual(timeline.take([message(1)]), []);
    assert.equal(timeline.hasGap, false);
  });

  test("what is beyond a gap waits until the gap is filled", () => {
    const timeline = new Timeline(0);
    assert.deepEqual(timeline.take([message(3), message(2)]), []);
    assert.equal(timeline.hasGap, true);
    assert.deepEqual(sequences(timeline.take([message(1)])), [1, 2, 3]);
    assert.equal(timeline.hasGap, false);
  });

  test("every order of arrival leads to the same list", () => {
    const orders = (rest) =>
      rest.length < 2 ? [rest] : rest.flatMap((x) => orders(rest.filter((y) => y !== x)).map((o) => [x, ...o]));
    for (const order of orders([1, 2, 3, 4, 5])) {
      const timeline = new Timeline(0);
      const shown = order.flatMap((sequence) => timeline.take([message(sequence), message(order[0])]));
      assert.deepEqual(sequences(shown), [1, 2, 3, 4, 5]);
    }
  });
});

describe("The gap rule", () => {
  test("a jump asks for what is missing, and later frames wait for the answer", async () => {
    const { client, of } = await startClient({ routes: inboxOf(["c", 1]) });
    client.follow("c", 0);
    FakeSocket.last.says({ type: "sync_batch", chat_id: "c", messages: [message(1)], has_more: false });
    FakeSocket.last.says(message(4));
    FakeSocket.last.says(message(5));
    assert.deepEqual(sequences(of("message")), [1]);
    const asked = FakeSocket.last.sent("sync_request");
    assert.equal(asked.length, 2, "one sync fills the gap, however many frames wait behind it");
    assert.equal(asked[1].last_acked_sequence, 1);

    FakeSocket.last.says({
      type: "sync_batch",
      chat_id: "c",
      messages: [message(2), message(3), message(4)],
      has_more: false,
    });
    assert.deepEqual(sequences(of("message")), [1, 2, 3, 4, 5]);
  });

  test("a sync goes on page by page", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.says({ type: "sync_batch", chat_id: "c", messages: [message(1), message(2)], has_more: true });
    assert.equal(FakeSocket.last.sent("sync_request").at(-1).last_acked_sequence, 2);
    FakeSocket.last.says({ type: "sync_batch", chat_id: "c", messages: [message(3)], has_more: false });
    assert.deepEqual(sequences(of("message")), [1, 2, 3]);
    assert.equal(FakeSocket.last.sent("sync_request").length, 2);
  });

  test("a sync that brings nothing is repeated after a pause, not at once", async () => {
    const { client } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.says(message(2));
    FakeSocket.last.says({ type: "sync_batch", chat_id: "c", messages: [], has_more: false });
    assert.equal(FakeSocket.last.sent("sync_request").length, 1);
    mock.timers.tick(1_000);
    assert.equal(FakeSocket.last.sent("sync_request").length, 2);
  });

  test("a batch with duplicates shows each message once", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.says({ type: "message_batch", chat_id: "c", messages: [message(1), message(2)] });
    FakeSocket.last.says({ type: "message_batch", chat_id: "c", messages: [message(2), message(3)] });
    assert.deepEqual(sequences(of("message")), [1, 2, 3]);
  });

  test("a chat that is not followed is told of and not synced", async () => {
    const { of } = await startClient();
    FakeSocket.last.says(message(9));
    assert.deepEqual(sequences(of("activity")), [9]);
    assert.deepEqual(of("message"), []);
    assert.deepEqual(FakeSocket.last.sent("sync_request"), []);
  });

  test("a chat that is gone is left", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.says({ type: "error", code: "chat_not_found", detail: "", retryable: false, chat_id: "c" });
    assert.deepEqual(of("left"), [{ chatId: "c" }]);
  });

  test("a sync that failed for a while is repeated", async () => {
    const { client } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.says({
      type: "error",
      code: "store_unavailable",
      detail: "",
      retryable: true,
      retry_after: 1,
      chat_id: "c",
    });
    mock.timers.tick(1_500);
    assert.equal(FakeSocket.last.sent("sync_request").length, 2);
  });
});

describe("Reconnecting", () => {
  test("the pause is anywhere below a bound that doubles up to a limit", () => {
    assert.equal(pauseBefore(0, { random: () => 0 }), 0);
    assert.equal(pauseBefore(0, { random: () => 1 }), 300);
    assert.equal(pauseBefore(3, { random: () => 1 }), 2_400);
    assert.equal(pauseBefore(50, { random: () => 1 }), 15_000);
  });

  test("only what is behind the inbox is synced", async () => {
    const { client } = await startClient({ routes: inboxOf(["c", 7], ["d", 3]) });
    client.follow("c", 5);
    client.follow("d", 3);
    FakeSocket.last.ends(1012);
    assert.equal(client.state, "offline");
    mock.timers.tick(1_000);
    await settled();
    FakeSocket.last.welcomes();
    await settled();
    assert.equal(FakeSocket.opened.length, 2);
    assert.deepEqual(
      FakeSocket.last.sent("sync_request").map((frame) => [frame.chat_id, frame.last_acked_sequence]),
      [["c", 5]],
    );
  });

  test("the server's resync does the same", async () => {
    const { client } = await startClient({ routes: inboxOf(["c", 7]) });
    client.follow("c", 7);
    FakeSocket.last.says({ type: "sync_batch", chat_id: "c", messages: [], has_more: false });
    client.follow("x", 0);
    FakeSocket.last.frames.length = 0;
    FakeSocket.last.says({ type: "sync_batch", chat_id: "x", messages: [], has_more: false });
    FakeSocket.last.says({ type: "resync" });
    await settled();
    assert.deepEqual(
      FakeSocket.last.sent("sync_request").map((frame) => frame.chat_id),
      ["x"],
      "a chat the list does not know is asked for",
    );
  });

  test("a burst of reasons to read the inbox is read twice at most", async () => {
    const { client, fetch } = await startClient();
    const before = fetch.calls.length;
    for (let time = 0; time < 10; time += 1) client.refresh();
    for (let turn = 0; turn < 5; turn += 1) await settled();
    assert.equal(fetch.calls.length - before, 2);
  });

  test("failures make the pauses longer, a success makes them short again", async () => {
    const { client } = await startClient({ online: false });
    for (const pause of [150, 300, 600]) {
      FakeSocket.last.ends();
      const before = FakeSocket.opened.length;
      mock.timers.tick(pause - 1);
      await settled();
      assert.equal(FakeSocket.opened.length, before);
      mock.timers.tick(1);
      await settled();
      assert.equal(FakeSocket.opened.length, before + 1);
    }
    FakeSocket.last.welcomes();
    await settled();
    assert.equal(client.state, "online");
    FakeSocket.last.ends();
    mock.timers.tick(150);
    await settled();
    assert.equal(FakeSocket.opened.length, 5);
  });

  test("a nudge does not wait for the pause", async () => {
    const { client } = await startClient();
    FakeSocket.last.ends();
    client.nudge();
    await settled();
    assert.equal(FakeSocket.opened.length, 2);
  });

  test("an inbox that cannot be read is asked for again", async () => {
    const routes = inboxOf(["c", 2]);
    const answer = routes["GET /api/chats"];
    let failures = 1;
    routes["GET /api/chats"] = () => (failures-- > 0 ? [503, { code: "store_unavailable" }] : answer());
    const { of } = await startClient({ routes });
    assert.equal(of("chats").length, 0);
    mock.timers.tick(2_400);
    await settled();
    assert.equal(of("chats").length, 1);
  });
});

describe("Sending", () => {
  test("the ack makes a queued message a stored one", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    const id = client.send("c", "hello");
    FakeSocket.last.says({
      type: "ack",
      client_message_id: id,
      chat_id: "c",
      message_id: "msg_1",
      sequence: 1,
      created_at: "now",
      duplicate: false,
    });
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
        sender_id: "me",
        content: "hello",
        content_type: "text/plain",
      },
    ]);
    assert.deepEqual(client.outbox.list(), []);
  });

  test("what was not acknowledged goes out again after a reconnect, same ids, same order", async () => {
    const { client } = await startClient();
    const ids = ["one", "two", "three"].map((text) => client.send("c", text));
    FakeSocket.last.ends();
    mock.timers.tick(1_000);
    await settled();
    FakeSocket.last.welcomes();
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.client_message_id),
      ids,
    );
  });

  test("what is written offline waits for the connection", async () => {
    const { client } = await startClient({ online: false });
    client.send("c", "later");
    assert.deepEqual(FakeSocket.last.sent("send_message"), []);
    FakeSocket.last.welcomes();
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.content),
      ["later"],
    );
  });

  test("a copy that comes before the ack settles the message, and the ack shows nothing twice", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    const id = client.send("c", "hello");
    FakeSocket.last.says(message(1, { sender_id: "me", client_message_id: id, content: "hello" }));
    FakeSocket.last.says({
      type: "ack",
      client_message_id: id,
      chat_id: "c",
      message_id: "msg_1",
      sequence: 1,
      created_at: "now",
      duplicate: true,
    });
    assert.equal(of("sent").length, 1);
    assert.deepEqual(sequences(of("message")), [1]);
  });

  test("somebody else's message with the same client id settles nothing", async () => {
    const { client, of } = await startClient();
    const id = client.send("c", "hello");
    FakeSocket.last.says(message(1, { sender_id: "you", client_message_id: id }));
    assert.equal(of("sent").length, 0);
  });

  test("an ack from beyond a gap waits like any other message", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    FakeSocket.last.says({ type: "sync_batch", chat_id: "c", messages: [], has_more: false });
    const id = client.send("c", "mine");
    FakeSocket.last.says({
      type: "ack",
      client_message_id: id,
      chat_id: "c",
      message_id: "msg_2",
      sequence: 2,
      created_at: "now",
      duplicate: false,
    });
    assert.equal(of("sent").length, 1);
    assert.deepEqual(of("message"), []);
    FakeSocket.last.says({
      type: "sync_batch",
      chat_id: "c",
      messages: [message(1), message(2, { content: "mine" })],
      has_more: false,
    });
    assert.deepEqual(sequences(of("message")), [1, 2]);
  });

  test("a retryable refusal is retried under the same id after the pause it names", async () => {
    const { client } = await startClient();
    const id = client.send("c", "hello");
    FakeSocket.last.says({
      type: "error",
      code: "rate_limited",
      detail: "",
      retryable: true,
      retry_after: 2,
      client_message_id: id,
      chat_id: "c",
    });
    mock.timers.tick(2_499);
    assert.equal(FakeSocket.last.sent("send_message").length, 1);
    mock.timers.tick(1);
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.client_message_id),
      [id, id],
    );
  });

  test("a final refusal fails the message; a retry by hand uses its id", async () => {
    const { client, of } = await startClient();
    const id = client.send("c", "hello");
    FakeSocket.last.says({
      type: "error",
      code: "content_too_large",
      detail: "Too long",
      retryable: false,
      client_message_id: id,
      chat_id: "c",
    });
    assert.equal(of("failed")[0].error.code, "content_too_large");
    client.retry(id);
    assert.deepEqual(
      FakeSocket.last.sent("send_message").map((frame) => frame.client_message_id),
      [id, id],
    );
    client.discard(id);
    assert.deepEqual(client.outbox.list(), []);
  });

  test("refusals that do not end fail the message", async () => {
    const { client, of } = await startClient({ mostAttempts: 3 });
    const id = client.send("c", "hello");
    for (let attempt = 0; attempt < 3; attempt += 1) {
      FakeSocket.last.says({
        type: "error",
        code: "fanout_unavailable",
        detail: "",
        retryable: true,
        client_message_id: id,
        chat_id: "c",
      });
      mock.timers.tick(1_500);
    }
    assert.equal(of("failed").length, 1);
    assert.equal(FakeSocket.last.sent("send_message").length, 3);
  });

  test("a queued message survives the page", async () => {
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

describe("Signs of life", () => {
  test("a heartbeat goes out at the server's interval", async () => {
    await startClient();
    mock.timers.tick(30_000);
    assert.equal(FakeSocket.last.sent("heartbeat").length, 1);
    FakeSocket.last.says({ type: "heartbeat_ack", server_time: "now" });
    mock.timers.tick(30_000);
    assert.equal(FakeSocket.last.sent("heartbeat").length, 2);
  });

  test("a connection that no longer answers is replaced", async () => {
    const { client } = await startClient();
    mock.timers.tick(30_000);
    mock.timers.tick(10_000);
    assert.equal(client.state, "offline");
    mock.timers.tick(1_000);
    await settled();
    assert.equal(FakeSocket.opened.length, 2);
  });

  test("a late frame of the old connection changes nothing", async () => {
    const { client, of } = await startClient();
    client.follow("c", 0);
    const old = FakeSocket.last;
    client.lostNetwork();
    old.says(message(1));
    assert.deepEqual(of("message"), []);
  });
});

describe("Reading", () => {
  test("acknowledgements in a row are one frame without an answer; a confirmed one tells the watermark", async () => {
    const routes = {
      ...inboxOf(),
      "POST /api/chats/c/ack": ({ sequence }) => [200, { last_acked_sequence: sequence + 1 }],
    };
    const { client, of } = await startClient({ routes });
    client.acknowledge("c", 3);
    client.acknowledge("c", 4);
    mock.timers.tick(200);
    assert.deepEqual(FakeSocket.last.sent("ack"), [{ type: "ack", chat_id: "c", sequence: 4 }]);
    await client.confirm("c", 4);
    assert.deepEqual(of("watermark"), [{ chatId: "c", sequence: 5 }]);
  });

  test("a list is read to its end", async () => {
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

  test("an error knows whether trying again makes sense", () => {
    assert.equal(new ParleyError({ code: "overloaded", status: 503 }).retryable, true);
    assert.equal(new ParleyError({ code: "forbidden", status: 403 }).retryable, false);
  });
});
