/** Completion of mentions: a list of members above the composer while "@…" is being typed. */

import { avatar } from "./avatar.js";
import { h } from "./dom.js";

const MAX_SHOWN = 6;

/** The name that is being typed behind an "@" at the caret: `{start, query}`, or null. */
function mentionAt(text, caret) {
  const match = /(?:^|[\s(])@([^\s@](?:[^@\n]{0,38}[^\s@])?)?$/u.exec(text.slice(0, caret));
  if (!match) return null;
  const query = match[1] ?? "";
  return { start: caret - query.length - 1, query };
}

/** Members whose name, or a word of it, begins with the query. */
function matching(members, query) {
  const wanted = query.toLowerCase();
  const words = (name) => [name, ...name.split(/\s+/)].map((word) => word.toLowerCase());
  return members.filter(({ display_name: name }) => words(name).some((word) => word.startsWith(wanted)));
}

/** The ids of the members whose "@name" is in the text. */
export function mentionsIn(text, members) {
  const byLength = [...members].sort((one, other) => other.display_name.length - one.display_name.length);
  const found = [];
  let rest = text;
  for (const { user_id: userId, display_name: name } of byLength) {
    if (!name || !rest.includes(`@${name}`)) continue;
    found.push(userId);
    rest = rest.replaceAll(`@${name}`, " ");
  }
  return found.slice(0, 50);
}

export class MentionPicker {
  #input;
  #members;
  #shown = [];
  #active = 0;
  #at = null;

  /** `members()` are the people who can be mentioned. */
  constructor({ input, members, onPick }) {
    this.#input = input;
    this.#members = members;
    this.onPick = onPick;
    this.element = h("ul.mentions", { id: "mentions", role: "listbox", "aria-label": "Members", hidden: true });
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", "mentions");
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** The text or the caret changed. */
  update() {
    const { value, selectionStart, selectionEnd } = this.#input;
    this.#at = selectionStart === selectionEnd ? mentionAt(value, selectionStart) : null;
    this.#shown = this.#at ? matching(this.#members(), this.#at.query).slice(0, MAX_SHOWN) : [];
    this.#active = 0;
    this.#render();
  }

  close() {
    this.#shown = [];
    this.#render();
  }

  /** Returns whether the key was for the list. */
  onKeyDown(event) {
    if (!this.isOpen) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      this.#active = (this.#active + step + this.#shown.length) % this.#shown.length;
      this.#render();
    } else if (event.key === "Enter" || event.key === "Tab") this.#pick(this.#shown[this.#active]);
    else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    return true;
  }

  #pick({ display_name: name }) {
    const end = this.#at.start + this.#at.query.length + 1;
    this.#input.setRangeText(`@${name} `, this.#at.start, end, "end");
    this.close();
    this.#input.focus();
    this.onPick();
  }

  #render() {
    this.element.hidden = !this.#shown.length;
    this.element.replaceChildren(...this.#shown.map((member, index) => this.#option(member, index)));
    if (this.isOpen) this.#input.setAttribute("aria-activedescendant", `mention-${this.#active}`);
    else this.#input.removeAttribute("aria-activedescendant");
  }

  #option(member, index) {
    return h(
      "li.mention-option",
      {
        id: `mention-${index}`,
        role: "option",
        "aria-selected": String(index === this.#active),
        onpointerdown: (event) => (event.preventDefault(), this.#pick(member)),
      },
      avatar(member.user_id, member.display_name, { size: "tiny" }),
      h("span", { dir: "auto" }, member.display_name),
    );
  }
}
