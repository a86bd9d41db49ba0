import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { People } from "../static/app/people.js";
import { FakeStorage } from "./doubles.mjs";

const session = { user: { user_id: "me" }, request: () => new Promise(() => {}) };
const users = (from, to) =>
  Array.from({ length: to - from }, (_, at) => ({ user_id: `user_${from + at}`, display_name: `Name ${from + at}` }));

describe("People", () => {
  test("the names that were learned last are stored, and no more than a few thousand", () => {
    const storage = new FakeStorage();
    const people = new People({ session, storage });
    people.addNames(users(0, 50_000));
    people.addNames([...users(0, 1), ...users(50_000, 50_001)]);
    assert.ok(storage.getItem("parley.people").length < 500_000);
    const again = new People({ session, storage });
    assert.deepEqual([again.name("user_0"), again.name("user_50000"), again.name("user_1")], ["Name 0", "Name 50000", ""]);
  });

  test("a full storage keeps nobody's name from being shown", () => {
    const storage = new FakeStorage();
    const people = new People({ session, storage });
    storage.setItem = () => {
      throw new Error("QuotaExceededError");
    };
    let changes = 0;
    people.addEventListener("change", () => (changes += 1));
    people.addNames(users(0, 1));
    assert.deepEqual([people.name("user_0"), changes], ["Name 0", 1]);
  });
});
