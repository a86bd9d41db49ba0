/** The header of a conversation: who or what it is with, who types, who is online. */

import { avatar } from "./avatar.js";
import { h, icon, iconButton } from "./dom.js";
import { presenceText, typingText } from "./presence.js";

export class ChatHeader {
  #chats;
  #people;
  #parley;
  #avatarKey = "";

  constructor({ chats, people, parley, onInfo }) {
    this.#chats = chats;
    this.#people = people;
    this.#parley = parley;
    this.heading = h("h1", { dir: "auto" });
    this.subtitle = h("p.subtitle", {});
    this.avatarSlot = h("span", {});
    this.element = h(
      "header",
      {},
      h("a.icon-button.back", { href: "#/", "aria-label": "Back to the chats" }, icon("back")),
      h(
        "button.heading",
        { type: "button", onclick: onInfo, title: "About this chat" },
        this.avatarSlot,
        h("span.heading-text", {}, this.heading, this.subtitle),
      ),
      iconButton("info", "About this chat", onInfo),
    );
  }

  render(chat) {
    const title = this.#chats.title(chat);
    this.heading.textContent = title;
    const typing = typingText(chat, { marks: this.#parley.marks, people: this.#people });
    this.subtitle.textContent = typing || this.#about(chat);
    this.subtitle.classList.toggle("is-typing", Boolean(typing));
    const partner = this.#chats.partner(chat);
    const isOnline = this.#parley.marks.presence(partner)?.status === "online";
    const key = JSON.stringify([title, this.#chats.avatarId(chat), isOnline]);
    if (key === this.#avatarKey) return;
    this.#avatarKey = key;
    const picture = avatar(this.#chats.avatarId(chat), title, { group: chat.type === "group", isOnline });
    this.avatarSlot.replaceChildren(picture);
  }

  #about(chat) {
    const muted = this.#chats.isMuted(chat) ? " · muted" : "";
    return presenceText(chat, { marks: this.#parley.marks, partner: this.#chats.partner(chat) }) + muted;
  }
}
