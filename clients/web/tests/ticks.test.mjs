import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { noticeText } from "../static/app/notices.js";
import { seenBy, tickOf } from "../static/app/ticks.js";
import { Unread } from "../static/app/unread.js";

const sent = { sequence: 5, created_at: "2026-01-02" };
const memberMap = (...ids) => new Map(ids.map((id) => [id, { user_id: id, joined_at: "2026-01-01" }]));
const people = (marks, members = memberMap("me", "ben", "emi")) => ({
  me: "me",
  members,
  receipts: new Map(Object.entries(marks)),
});

describe("Ticks", () => {
  test("two when everybody has it, coloured when everybody has read it", () => {
    assert.equal(tickOf(sent, people({ ben: { delivered: 9, read: 9 } })), "sent");
    assert.equal(tickOf(sent, people({ ben: { delivered: 9, read: 9 }, emi: { delivered: 5, read: 4 } })), "delivered");
    assert.equal(tickOf(sent, people({ ben: { delivered: 9, read: 9 }, emi: { delivered: 5, read: 5 } })), "read");
  });

  test("somebody who hides reading never colours them", () => {
    assert.equal(tickOf(sent, people({ ben: { delivered: 9, read: 9 }, emi: { delivered: 9 } })), "delivered");
  });

  test("who joined later does not count, and alone there is nobody to deliver to", () => {
    const members = memberMap("me", "ben").set("new", { user_id: "new", joined_at: "2026-01-03" });
    assert.equal(tickOf(sent, people({ ben: { delivered: 9, read: 9 } }, members)), "read");
    assert.equal(tickOf(sent, people({}, memberMap("me"))), "sent");
    assert.equal(tickOf(sent, people({}, undefined)), "sent");
  });

  test("seen by and delivered to", () => {
    const marks = { ben: { delivered: 9, read: 9 }, emi: { delivered: 5, read: 4 } };
    assert.deepEqual(seenBy(sent, people(marks)), { read: ["ben"], delivered: ["emi"] });
  });
});

describe("Unread", () => {
  test("messages that arrive count, also beside an inbox that was read before", () => {
    const unread = new Unread();
    unread.onMessage(8);
    unread.onInbox({ last: 7, mark: 5, count: 1 });
    assert.equal(unread.count, 2);
    unread.onMessage(9);
    assert.equal(unread.count, 3);
    unread.onInbox({ last: 9, mark: 5, count: 3 });
    assert.equal(unread.count, 3);
  });

  test("an inbox older than this page's mark does not bring the count back", () => {
    const unread = new Unread();
    unread.onInbox({ last: 9, mark: 5, count: 3 });
    unread.moveTo(9, { last: 9, unread: null });
    unread.onInbox({ last: 9, mark: 5, count: 3 });
    assert.deepEqual([unread.count, unread.mark], [0, 9]);
  });

  test("reading a part leaves the rest, and an unknown rest is asked for", () => {
    const unread = new Unread();
    unread.onInbox({ last: 9, mark: 5, count: 4 });
    assert.equal(unread.moveTo(7, { last: 9, unread: [8, 9] }), true);
    assert.equal(unread.count, 2);
    assert.equal(unread.moveTo(8, { last: 9, unread: null }), false);
  });
});

describe("Notices", () => {
  const text = (notice, senderId = "ada") =>
    noticeText({ sender_id: senderId, notice }, { name: (id) => ({ ada: "Ada", ben: "Ben" })[id] ?? "", me: "me" });

  test("they are sentences", () => {
    assert.equal(text({ type: "member_added", user_ids: ["ben", "me"] }), "Ada added Ben and you");
    assert.equal(text({ type: "chat_renamed", name: "Sailors" }, "me"), "You renamed the group to “Sailors”");
    assert.equal(text({ type: "member_left" }, "ben"), "Ben left");
    assert.equal(text({ type: "role_changed", user_ids: ["ben"], roles: ["admin"] }), "Ada made Ben an admin");
    assert.equal(text({ type: "something_new" }), "Ada changed the group");
  });
});
