/** The bar with the pinned messages, the newest first. Each click goes to one, then shows the next. */

import { h, icon } from "./dom.js";
import { plainText } from "./markup.js";

export class PinBar {
  #onJump;
  #shown = 0;
  #signature = "";

  constructor({ onJump }) {
    this.#onJump = onJump;
    this.element = h("div.pins", { hidden: true });
  }

  /** `messages` are the pinned ones, newest pin first; `name(userId)` is a person's name. */
  render(messages, name) {
    this.element.hidden = !messages.length;
    if (!messages.length) return;
    this.#shown %= messages.length;
    const message = messages[this.#shown];
    const count = messages.length > 1 ? `${this.#shown + 1} of ${messages.length}` : "";
    const texts = [name(message.sender_id), plainText(message.content).slice(0, 200), count];
    if (this.#signature === JSON.stringify([message.sequence, texts])) return;
    this.#signature = JSON.stringify([message.sequence, texts]);
    this.element.replaceChildren(this.#button(message, texts, () => this.render(messages, name)));
  }

  #button(message, [name, text, count], renderAgain) {
    const onclick = () => {
      this.#onJump(message.sequence);
      this.#shown += 1;
      const hadFocus = this.element.contains(document.activeElement);
      renderAgain();
      if (hadFocus) this.element.firstElementChild.focus();
    };
    return h(
      "button.pinned",
      { type: "button", "aria-label": `Pinned message ${count}: ${name}: ${text}. Go to it`, onclick },
      icon("pin"),
      h("span.pinned-text", {}, h("strong", { dir: "auto" }, name), h("span", { dir: "auto" }, text)),
      count ? h("span.pinned-count", {}, count) : null,
    );
  }
}
