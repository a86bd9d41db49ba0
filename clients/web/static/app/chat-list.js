/** The list of chats at the side. */

import { avatar } from "./avatar.js";
import { h, icon, iconButton } from "./dom.js";
import { fullTime, shortTime } from "./format.js";

function themeButton(onclick) {
  const button = iconButton("moon", "Switch between light and dark", onclick);
  button.append(icon("sun"));
  return button;
}

export class ChatList {
  #chats;
  #people;
  #session;
  #rows = new Map();
  #scheduled = false;
  #current = null;

  constructor({ chats, people, session, onNew, onTheme }) {
    this.#chats = chats;
    this.#people = people;
    this.#session = session;
    this.list = h("ul.chat-list", { onkeydown: (event) => this.#walk(event) });
    this.filter = h("input", {
      type: "search",
      placeholder: "Find a chat",
      "aria-label": "Find a chat",
      oninput: () => this.#render(),
    });
    this.me = h("a.me", { href: "#/settings", title: "Settings and devices" });
    this.element = h(
      "nav.sidebar",
      { "aria-label": "Chats" },
      h(
        "header",
        {},
        h("span.brand", {}, icon("logo"), h("span", {}, "Parley")),
        h("span.tools", {}, themeButton(onTheme), iconButton("pencil", "New chat", onNew)),
      ),
      h("div.search", {}, icon("search"), this.filter),
      this.list,
      h("footer", {}, this.me),
    );
    chats.addEventListener("list", () => this.#later());
    people.addEventListener("change", () => this.#later());
    this.#render();
  }

  /** Mark the chat that is open. */
  select(chatId) {
    this.#current = chatId;
    this.#render();
  }

  #later() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#render();
    });
  }

  #render() {
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = this.#chats.list().filter((chat) => this.#chats.title(chat).toLowerCase().includes(wanted));
    const rows = shown.map((chat) => this.#row(chat));
    if (rows.length !== this.list.children.length || rows.some((row, place) => this.list.children[place] !== row)) {
      const focused = document.activeElement;
      this.list.replaceChildren(...rows);
      if (focused?.isConnected && this.list.contains(focused)) focused.focus();
    }
    if (!rows.length && this.#chats.isListed) this.list.replaceChildren(this.#emptiness(wanted));
    const user = this.#session.user;
    if (user)
      this.me.replaceChildren(
        avatar(user.user_id, user.display_name, { size: "small" }),
        h("span.me-name", {}, user.display_name),
        icon("gear"),
      );
  }

  #emptiness(wanted) {
    return h("li.emptiness", {}, wanted ? "No chat has this name." : "No chats yet. Start one with the pencil above.");
  }

  #row(chat) {
    const facts = this.#facts(chat);
    const signature = JSON.stringify(facts);
    const known = this.#rows.get(chat.chat_id);
    if (known?.signature === signature) return known.row;
    const row = known?.row ?? h("li", {});
    const link = row.firstElementChild ?? h("a.chat-row", { href: `#/chat/${chat.chat_id}` });
    if (facts.current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.classList.toggle("has-unread", facts.unread > 0);
    link.replaceChildren(...this.#cells(chat, facts));
    row.replaceChildren(link);
    this.#rows.set(chat.chat_id, { row, signature });
    return row;
  }

  #facts(chat) {
    const message = chat.last_message;
    return {
      title: this.#chats.title(chat),
      face: this.#chats.face(chat),
      who: message ? this.#who(chat, message) : "",
      text: message ? message.content.slice(0, 160) : chat.type === "group" ? "New group" : "Say hello",
      at: message?.created_at ?? chat.created_at,
      unread: this.#chats.unread(chat),
      muted: this.#chats.isMuted(chat),
      current: chat.chat_id === this.#current,
    };
  }

  #who(chat, message) {
    if (message.sender_id === this.#session.user?.user_id) return "You";
    return chat.type === "group" ? this.#people.name(message.sender_id).split(" ")[0] : "";
  }

  #cells(chat, facts) {
    const { unread } = facts;
    const badge = h(
      "span.badge",
      { class: facts.muted ? "badge is-muted" : "badge" },
      unread > 99 ? "99+" : String(unread),
    );
    return [
      avatar(facts.face, facts.title, { group: chat.type === "group" }),
      h(
        "span.chat-text",
        {},
        h(
          "span.chat-top",
          {},
          h("span.chat-title", { dir: "auto" }, facts.title),
          h("time", { datetime: facts.at, title: fullTime(facts.at) }, shortTime(facts.at)),
        ),
        h(
          "span.chat-bottom",
          {},
          h("span.chat-last", { dir: "auto" }, facts.who ? h("span.chat-who", {}, `${facts.who}: `) : null, facts.text),
          facts.muted ? icon("muted", "Muted") : null,
          unread ? badge : null,
          unread ? h("span.sr-only", {}, " unread") : null,
        ),
      ),
    ];
  }

  #walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const links = [...this.list.querySelectorAll("a")];
    links[links.indexOf(document.activeElement) + step]?.focus();
    event.preventDefault();
  }
}
