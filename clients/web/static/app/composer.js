/** Where messages are written, answered and edited. */

import { h, icon, iconButton } from "./dom.js";
import { byteLength } from "./format.js";
import { plainText } from "./markup.js";
import { MentionPicker, mentionsIn } from "./mention-picker.js";

const MAX_CONTENT_BYTES = 4096;
const MAX_HEIGHT_PX = 160;

export class Composer {
  #chatId;
  #members;
  #name;
  #on;
  #picker;
  #replyTo = null;
  #editing = null;

  /**
   * `members()` are the people who can be mentioned; `name(userId)` is a person's name. `on` has the handlers
   * `send({content, mentions, replyTo})`, `edit({target, content, mentions})`, `typing(isTyping)` and `editLast()`.
   */
  constructor({ chatId, members, name, on }) {
    this.#chatId = chatId;
    this.#members = members;
    this.#name = name;
    this.#on = on;
    this.input = h("textarea", {
      rows: "1",
      placeholder: "Write a message",
      "aria-label": "Message",
      enterkeyhint: "send",
      dir: "auto",
      oninput: () => this.#onInput(),
      onkeydown: (event) => this.#onKeyDown(event),
      onblur: () => this.#picker.close(),
    });
    this.#picker = new MentionPicker({ input: this.input, members, onPick: () => this.#resize() });
    this.counter = h("p.counter", { role: "status" });
    this.button = h("button.send", { type: "submit", "aria-label": "Send", title: "Send" }, icon("send"));
    this.context = h("div.context", { hidden: true });
    this.element = h(
      "form.composer",
      { onsubmit: (event) => this.#submit(event) },
      this.#picker.element,
      this.context,
      this.input,
      this.counter,
      this.button,
    );
    this.input.value = loadDraft(chatId);
    requestAnimationFrame(() => this.#resize());
  }

  /** Save what was not sent. */
  close() {
    this.#on.typing(false);
    if (!this.#editing) saveDraft(this.#chatId, this.input.value);
  }

  reply(message) {
    this.#leaveContext();
    this.#replyTo = message.sequence;
    const quoted = plainText(message.content).slice(0, 200);
    this.#showContext("reply", `Reply to ${this.#name(message.sender_id)}`, quoted);
  }

  edit(message) {
    this.#leaveContext();
    saveDraft(this.#chatId, this.input.value);
    this.#editing = message;
    this.input.value = message.content;
    this.#showContext("pencil", "Edit message", plainText(message.content).slice(0, 200));
    this.#resize();
  }

  /** A message was deleted. If it was being edited, what was written in its place is kept, as a new message. */
  onDeleted(sequence) {
    if (this.#editing?.sequence !== sequence) return;
    const written = this.input.value === this.#editing.content ? "" : this.input.value;
    addToDraft(this.#chatId, written);
    this.#leaveContext();
  }

  /** An edit was refused: its text is kept, as a new message. */
  restore(text) {
    if (!this.#editing) saveDraft(this.#chatId, this.input.value);
    addToDraft(this.#chatId, text);
    if (!this.#editing) this.input.value = loadDraft(this.#chatId);
    this.#resize();
  }

  #showContext(picture, title, text) {
    this.context.replaceChildren(
      icon(picture),
      h("span.context-text", {}, h("strong", { dir: "auto" }, title), h("span", { dir: "auto" }, text)),
      iconButton("close", "Cancel", () => (this.#leaveContext(), this.input.focus())),
    );
    this.context.hidden = false;
    this.input.focus();
  }

  #leaveContext() {
    if (this.#editing) this.input.value = loadDraft(this.#chatId);
    this.#editing = null;
    this.#replyTo = null;
    this.context.hidden = true;
    this.#resize();
  }

  #onInput() {
    this.#resize();
    this.#picker.update();
    if (!this.#editing) this.#on.typing(Boolean(this.input.value.trim()));
  }

  #resize() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, MAX_HEIGHT_PX)}px`;
    const over = byteLength(this.input.value.trim()) - MAX_CONTENT_BYTES;
    this.counter.textContent = over > 0 ? `${over} too many` : "";
    this.button.disabled = !this.input.value.trim() || over > 0;
  }

  #onKeyDown(event) {
    if (this.#picker.onKeyDown(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#submit(event);
    } else if (event.key === "Escape" && !this.context.hidden) {
      event.preventDefault();
      this.#leaveContext();
    } else if (event.key === "ArrowUp" && !this.input.value) {
      event.preventDefault();
      this.#on.editLast();
    }
  }

  #submit(event) {
    event.preventDefault();
    const content = this.input.value.trim();
    if (!content || byteLength(content) > MAX_CONTENT_BYTES) return;
    const mentions = mentionsIn(content, this.#mentionable());
    if (!this.#editing) this.#send({ content, mentions, replyTo: this.#replyTo ?? undefined });
    else if (content !== this.#editing.content) this.#on.edit({ target: this.#editing.sequence, content, mentions });
    this.#leaveContext();
    this.input.focus();
  }

  /** The members, and whom the edited message mentions already: oneself perhaps, or somebody who has left. */
  #mentionable() {
    const mentioned = (this.#editing?.mentions ?? []).map((id) => ({ user_id: id, display_name: this.#name(id) }));
    const people = [...mentioned, ...this.#members()];
    return [...new Map(people.map((person) => [person.user_id, person])).values()];
  }

  #send(draft) {
    this.input.value = "";
    saveDraft(this.#chatId, "");
    this.#on.typing(false);
    this.#on.send(draft);
  }
}

/** Unsent text is kept per tab and chat. */
function saveDraft(chatId, text) {
  if (text.trim()) sessionStorage.setItem(`parley.draft.${chatId}`, text);
  else sessionStorage.removeItem(`parley.draft.${chatId}`);
}

/** Keep a text behind what is kept already. */
export function addToDraft(chatId, text) {
  saveDraft(chatId, [loadDraft(chatId), text].filter(Boolean).join("\n"));
}

function loadDraft(chatId) {
  return sessionStorage.getItem(`parley.draft.${chatId}`) ?? "";
}
