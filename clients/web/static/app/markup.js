/**
 * Emphasis, code, links and mentions in a message's text. `parse` gives a tree of plain data, `render` builds nodes of
 * it; text is never parsed as HTML.
 */

import { h } from "./dom.js";

const WORD = "\\p{L}\\p{N}";
const emphasis = (mark, sign) =>
  new RegExp(`(?<![${WORD}${sign}])${mark}(?=[^\\s${sign}])(.+?)(?<=\\S)${mark}(?![${WORD}${sign}])`, "gu");
const RULES = [
  ["block", /```\n?(.+?)\n?```/gs],
  ["code", /`([^`\n]+)`/g],
  // Parentheses belong to an address in pairs, as in `/wiki/Ada_(name)`.
  ["link", /(https?:\/\/(?:[^\s<>"'()]|\([^\s<>"'()]*\))*(?:[^\s<>"'.,;:!?()\]*_~`]|\([^\s<>"'()]*\)))/g],
  ["strong", emphasis("\\*\\*", "*")],
  ["em", emphasis("\\*", "*")],
  ["em", emphasis("_", "_")],
  ["s", emphasis("~~", "~")],
];
const HAS_CHILDREN = new Set(["strong", "em", "s"]);

/**
 * Parts of a text: `{type: "text", text}`, `code`, `block` and `link` alike, `{type: "mention", text, userId}`, and
 * `strong`, `em` and `s` with `children`. `mentions` maps the mentioned people's ids to their names.
 */
export function parse(text, mentions = new Map()) {
  const names = [...mentions].filter(([, name]) => name).sort(([, one], [, other]) => other.length - one.length);
  const rules = [...RULES];
  if (names.length) {
    const anyName = names.map(([, name]) => escape(name)).join("|");
    rules.push(["mention", new RegExp(`(@(?:${anyName}))(?![${WORD}])`, "gu")]);
  }
  const userIds = new Map(names.map(([userId, name]) => [`@${name}`, userId]));
  return split(text, rules, userIds);
}

/** Each rule searches on only from behind its last match, so that the time is bounded for any text. */
function split(text, rules, userIds) {
  const parts = [];
  const searches = rules.map(([type, pattern]) => ({ type, pattern, match: undefined }));
  let end = 0;
  for (;;) {
    const found = searches.map((search) => next(search, text, end)).filter(({ match }) => match);
    if (!found.length) break;
    const { type, match } = found.reduce((one, other) => (other.match.index < one.match.index ? other : one));
    if (match.index > end) parts.push({ type: "text", text: text.slice(end, match.index) });
    parts.push(partOf(type, match[1], rules, userIds));
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ type: "text", text: text.slice(end) });
  return parts;
}

function next(search, text, end) {
  if (search.match === undefined || search.match?.index < end) {
    search.pattern.lastIndex = end;
    search.match = search.pattern.exec(text);
  }
  return search;
}

function partOf(type, text, rules, userIds) {
  if (HAS_CHILDREN.has(type)) return { type, children: split(text, rules.slice(1), userIds) };
  return type === "mention" ? { type, text, userId: userIds.get(text) } : { type, text };
}

/** What has a meaning in a pattern. No other character may be escaped in one with the flag `u`, not even a hyphen. */
const escape = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

/** The nodes of the parts. `me` is the reader's id. */
export function render(parts, me) {
  return parts.map((part) => {
    switch (part.type) {
      case "text":
        return part.text;
      case "link":
        return h("a", { href: part.text, rel: "noopener noreferrer nofollow", target: "_blank" }, part.text);
      case "code":
        return h("code", {}, part.text);
      case "block":
        return h("pre", { tabindex: "0" }, h("code", {}, part.text));
      case "mention":
        return h(part.userId === me ? "span.mention.is-me" : "span.mention", {}, part.text);
      default:
        return h(part.type, {}, render(part.children, me));
    }
  });
}

/** The text without marks, for previews. */
export function plainText(text) {
  const flatten = (parts) => parts.map((part) => (part.children ? flatten(part.children) : part.text)).join("");
  return flatten(parse(text));
}
