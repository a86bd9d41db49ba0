/** The sidebar: the list of chats, its filter, and the links to settings and new chats. */

import { avatar } from "./avatar.js";
import { h, icon, iconButton, Press } from "./dom.js";
import { fullTime, shortTime } from "./format.js";
import { plainText } from "./markup.js";
import { typingText } from "./presence.js";

function themeButton(onclick) {
  const button = iconButton("moon", "Switch between light and dark", onclick);
  button.append(icon("sun"));
  return button;
}

export class ChatList {
  #chats;
  #people;
  #session;
  #marks;
  #rows = new Map();
  #scheduled = false;
  #press;
  #selected = null;

  constructor({ chats, people, session, marks, onNew, onTheme }) {
    this.#chats = chats;
    this.#people = people;
    this.#session = session;
    this.#marks = marks;
    this.list = h("ul.chat-list", { onkeydown: (event) => this.#onKeyDown(event) });
    this.#press = new Press(this.list, { onRelease: () => this.#scheduleRender() });
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
    chats.addEventListener("list", () => this.#scheduleRender());
    people.addEventListener("change", () => this.#scheduleRender());
    this.#render();
  }

  /** Highlight the open chat. */
  select(chatId) {
    this.#selected = chatId;
    this.#render();
  }

  #scheduleRender() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#render();
    });
  }

  #render() {
    if (this.#press.isIn(this.list)) return;
    const query = this.filter.value.trim().toLowerCase();
    const shown = this.#chats.list().filter((chat) => this.#chats.title(chat).toLowerCase().includes(query));
    const rows = shown.map((chat) => this.#row(chat));
    if (rows.length !== this.list.children.length || rows.some((row, index) => this.list.children[index] !== row)) {
      const focused = document.activeElement;
      this.list.replaceChildren(...rows);
      if (focused?.isConnected && this.list.contains(focused)) focused.focus();
    }
    if (!rows.length && this.#chats.isLoaded) this.list.replaceChildren(this.#placeholder(query));
    const user = this.#session.user;
    if (user)
      this.me.replaceChildren(
        avatar(user.user_id, user.display_name, { size: "small" }),
        h("span.me-name", {}, user.display_name),
        icon("gear"),
      );
  }

  #placeholder(query) {
    return h("li.placeholder", {}, query ? "No chat has this name." : "No chats yet. Start one with the pencil above.");
  }

  #row(chat) {
    const props = this.#props(chat);
    const signature = JSON.stringify(props);
    const cached = this.#rows.get(chat.chat_id);
    if (cached?.signature === signature) return cached.row;
    const row = cached?.row ?? h("li", {});
    const link = row.firstElementChild ?? h("a.chat-row", { href: `#/chat/${chat.chat_id}` });
    if (props.current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.classList.toggle("has-unread", props.unread > 0);
    link.replaceChildren(...this.#cells(chat, props));
    row.replaceChildren(link);
    this.#rows.set(chat.chat_id, { row, signature });
    return row;
  }

  #props(chat) {
    const message = this.#chats.lastMessage(chat);
    return {
      title: this.#chats.title(chat),
      avatarId: this.#chats.avatarId(chat),
      sender: message ? this.#sender(chat, message) : "",
      text: message ? textOf(message) : chat.type === "group" ? "New group" : "Say hello",
      typing: typingText(chat, { marks: this.#marks, people: this.#people }),
      isOnline: this.#marks.presence(this.#chats.partner(chat))?.status === "online",
      at: message?.created_at ?? chat.created_at,
      unread: chat.unread.count,
      muted: this.#chats.isMuted(chat),
      current: chat.chat_id === this.#selected,
    };
  }

  #sender(chat, message) {
    if (message.sender_id === this.#session.user?.user_id) return "You";
    return chat.type === "group" ? this.#people.name(message.sender_id).split(" ")[0] : "";
  }

  #cells(chat, props) {
    const { unread } = props;
    const badge = h(props.muted ? "span.badge.is-muted" : "span.badge", {}, unread > 99 ? "99+" : String(unread));
    return [
      avatar(props.avatarId, props.title, { group: chat.type === "group", isOnline: props.isOnline }),
      h(
        "span.chat-text",
        {},
        h(
          "span.chat-top",
          {},
          h("span.chat-title", { dir: "auto" }, props.title),
          h("time", { datetime: props.at, title: fullTime(props.at) }, shortTime(props.at)),
        ),
        h(
          "span.chat-bottom",
          {},
          props.typing
            ? h("span.chat-last.is-typing", {}, props.typing)
            : h("span.chat-last", { dir: "auto" }, props.sender ? `${props.sender}: ` : null, props.text),
          props.isOnline ? h("span.sr-only", {}, " online") : null,
          props.muted ? icon("muted", "Muted") : null,
          unread ? badge : null,
          unread ? h("span.sr-only", {}, " unread") : null,
        ),
      ),
    ];
  }

  #onKeyDown(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const links = [...this.list.querySelectorAll("a")];
    links[links.indexOf(document.activeElement) + step]?.focus();
    event.preventDefault();
  }
}

function textOf(message) {
  return message.deleted_at ? "Deleted message" : plainText(message.content.slice(0, 300)).slice(0, 160);
}
