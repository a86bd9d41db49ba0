import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { dayLabel, hue, initials, joinNames, lastSeen, phoneNumber } from "../static/app/format.js";

describe("Formats", () => {
  test("names become one or two letters", () => {
    const names = {
      "Ada Moreau": "AM",
      ada: "A",
      "Jean le Rond d'Alembert": "JD",
      東京: "東",
      "<b>": "<",
      "😀 Emi": "E",
      " ": "?",
    };
    for (const [name, letters] of Object.entries(names)) assert.equal(initials(name), letters);
  });

  test("an id always has the same of twelve colours", () => {
    assert.equal(hue("user_1"), hue("user_1"));
    const seen = new Set(Array.from({ length: 200 }, (_, number) => hue(`user_${number}`)));
    assert.equal(seen.size, 12);
  });

  test("separators and a leading 00 in phone numbers are accepted", () => {
    assert.equal(phoneNumber("+1 (415) 555-0123"), "+14155550123");
    assert.equal(phoneNumber("0049 151.2345/678"), "+491512345678");
  });

  test("names are joined as a sentence has them", () => {
    const cases = [[], ["Ada"], ["Ada", "Ben"], ["Ada", "Ben", "Emi"]].map(joinNames);
    assert.deepEqual(cases, ["", "Ada", "Ada and Ben", "Ada, Ben and Emi"]);
  });

  test("last seen has the time, then the day", () => {
    const now = new Date(2026, 0, 30, 9, 0);
    assert.match(lastSeen(new Date(2026, 0, 30, 8, 15).toISOString(), now), /^last seen at 0?8:15/);
    assert.match(lastSeen(new Date(2026, 0, 29, 8, 15).toISOString(), now), /^last seen yesterday at/);
    assert.match(lastSeen(new Date(2026, 0, 3).toISOString(), now), /3/);
  });

  test("recent days are called Today and Yesterday", () => {
    const now = new Date(2026, 0, 30, 9, 0);
    assert.equal(dayLabel(new Date(2026, 0, 30, 0, 1).toISOString(), now), "Today");
    assert.equal(dayLabel(new Date(2026, 0, 29, 23, 59).toISOString(), now), "Yesterday");
    assert.match(dayLabel(new Date(2026, 0, 20).toISOString(), now), /20/);
  });
});
