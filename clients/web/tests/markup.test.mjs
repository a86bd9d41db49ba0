import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { parse, plainText } from "../static/app/markup.js";

/** Parts in short: text as it is, others as `type(content)`. */
const short = (parts) =>
  parts
    .map(({ type, text, children }) => (type === "text" ? text : `${type}(${children ? short(children) : text})`))
    .join("");
const shown = (text, mentions) => short(parse(text, mentions));

describe("Markup", () => {
  test("emphasis, code and links are told from text", () => {
    const cases = {
      "a **bold** word": "a strong(bold) word",
      "*lean* and _lean_": "em(lean) and em(lean)",
      "~~gone~~": "s(gone)",
      "**bold and *lean***": "strong(bold and em(lean))",
      "run `rm **x**` now": "run code(rm **x**) now",
      "```\nlet x = 1;\n```": "block(let x = 1;)",
      "see https://a.example/x_y_z.": "see link(https://a.example/x_y_z).",
    };
    for (const [text, expected] of Object.entries(cases)) assert.equal(shown(text), expected, text);
  });

  test("marks that emphasise nothing stay", () => {
    for (const text of ["2 * 3 * 4", "snake_case_name", "**", "* a list", "a ** b ** c", "`", "~~ ~~", "5*6*7"])
      assert.equal(shown(text), text);
  });

  test("only the names of mentioned people are mentions, the longest first", () => {
    const mentions = new Map([
      ["1", "Ada"],
      ["2", "Ada Moreau"],
    ]);
    assert.equal(shown("@Ada Moreau, @Ada! @Adam @Ben", mentions), "mention(@Ada Moreau), mention(@Ada)! @Adam @Ben");
    assert.equal(parse("@Ada", mentions)[0].userId, "1");
    for (const name of ["(x", "Ada-Marie", "a/b", "C++ [x] {y} ^$ | \\ ?", "O’Neill & <b>"])
      assert.equal(shown(`@${name}`, new Map([["1", name]])), `mention(@${name})`);
  });

  test("only web addresses become links, and the text around them is kept", () => {
    const text = 'see https://a.example/x?y=(1). "http://b.example" javascript:alert(1) (https://c.example/x)';
    const parts = parse(text);
    assert.equal(parts.map((part) => part.text).join(""), text);
    assert.deepEqual(
      parts.filter(({ type }) => type === "link").map((part) => part.text),
      ["https://a.example/x?y=(1)", "http://b.example", "https://c.example/x"],
    );
  });

  test("a preview is without marks", () => {
    assert.equal(plainText("**bold** `code` _x_"), "bold code x");
  });

  test("texts full of marks are parsed to their end", () => {
    for (const text of ["**a ", "`a` **b ", "*_~~`", "_a *b ", "https://a.example/*", "~~~~a"]) {
      const longest = text.repeat(4_096 / text.length);
      assert.ok(longest.endsWith(parse(longest).at(-1).text ?? ""));
    }
  });
});
