/** One chat on the screen: its messages, and the line to write in. */

import { avatar } from "./avatar.js";
import { announce, h, icon, iconButton, sentence } from "./dom.js";
import { bytes, dayLabel, dayOf, fullTime, hue, linkParts, timeOfDay } from "./format.js";

const MAX_BYTES = 4096;
const NEAR = 80;
const TOGETHER = 5 * 60_000;

export class Conversation {
  #chatId;
  #chats;
  #people;
  #parley;
  #nodes = new Map();
  #frame = 0;
  #unreadFrom = 0;
  #unseen = 0;
  #stuck = true;
  #listening = new AbortController();

  constructor({ chatId, chats, people, parley, onInfo }) {
    this.#chatId = chatId;
    this.#chats = chats;
    this.#people = people;
    this.#parley = parley;
    this.#build(onInfo);
    const listen = (target, type, handle) => target.addEventListener(type, handle, { signal: this.#listening.signal });
    listen(chats, "chat", ({ detail }) => detail.chatId === chatId && this.#changed(detail.message));
    listen(chats, "members", ({ detail }) => detail === chatId && this.#loadMembers());
    listen(people, "change", () => this.#later());
    listen(parley, "state", () => parley.state === "online" && this.#open());
    listen(document, "visibilitychange", () => this.#read());
    const chat = this.#chat;
    if (chat && chats.unread(chat)) this.#unreadFrom = chat.read + 1;
    this.#render();
    this.#open();
  }

  /** The view is gone: listen to nothing more. */
  close() {
    this.#listening.abort();
    this.#older.disconnect();
    cancelAnimationFrame(this.#frame);
    saveDraft(this.#chatId, this.input.value);
  }

  get #chat() {
    return this.#chats.get(this.#chatId);
  }

  get #mine() {
    return this.#parley.session.user?.user_id;
  }

  // Building

  #older;

  #build(onInfo) {
    this.heading = h("h1", { dir: "auto" });
    this.subtitle = h("p.subtitle", {});
    this.face = h("span", {});
    this.sentinel = h("li.sentinel", { "aria-hidden": "true" });
    this.messages = h("ol.messages", { tabindex: "0", "aria-label": "Messages", onscroll: () => this.#scrolled() });
    this.jump = h(
      "button.jump",
      { type: "button", hidden: true, onclick: () => this.#toEnd() },
      icon("down"),
      h("span", {}),
    );
    this.input = h("textarea", {
      rows: "1",
      placeholder: "Write a message",
      "aria-label": "Message",
      enterkeyhint: "send",
      dir: "auto",
      oninput: () => this.#typed(),
      onkeydown: (event) => this.#key(event),
    });
    this.counter = h("p.counter", { role: "status" });
    this.button = h("button.send", { type: "submit", "aria-label": "Send", title: "Send" }, icon("send"));
    const composer = h(
      "form.composer",
      { onsubmit: (event) => this.#send(event) },
      this.input,
      this.counter,
      this.button,
    );
    this.element = h(
      "section.conversation",
      { "aria-label": "Conversation" },
      h(
        "header",
        {},
        h("a.icon-button.back", { href: "#/", "aria-label": "Back to the chats" }, icon("back")),
        h(
          "button.heading",
          { type: "button", onclick: onInfo, title: "About this chat" },
          this.face,
          h("span.heading-text", {}, this.heading, this.subtitle),
        ),
        iconButton("info", "About this chat", onInfo),
      ),
      h("div.scroll-frame", {}, this.messages, this.jump),
      composer,
    );
    this.#older = new IntersectionObserver(([entry]) => entry.isIntersecting && this.#loadOlder(), {
      root: this.messages,
      rootMargin: "400px 0px 0px",
    });
    this.input.value = loadDraft(this.#chatId);
    requestAnimationFrame(() => this.#typed());
  }

  async #open() {
    try {
      await this.#chats.open(this.#chatId);
      if (this.#chat?.type === "group") await this.#loadMembers();
      this.#problem = "";
    } catch (error) {
      this.#problem = sentence(error);
    }
    this.#later();
  }

  #problem = "";

  async #loadMembers() {
    await this.#chats.members(this.#chatId).catch(() => {});
    this.#later();
  }

  async #loadOlder() {
    await this.#chats.loadOlder(this.#chatId).catch(() => {});
    // Where a page did not fill the screen, the observer would see no change: look again.
    this.#older.unobserve(this.sentinel);
    if (this.sentinel.isConnected) this.#older.observe(this.sentinel);
  }

  // Showing

  #changed(message) {
    if (message && message.sender_id !== this.#mine) {
      announce(`${this.#people.name(message.sender_id)}: ${message.content}`);
      if (!this.#stuck) this.#unseen += 1;
    }
    this.#later();
  }

  /** Many changes, one picture. */
  #later() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#render();
    });
    // A hidden page gets no frames, and still has to be right when it is looked at.
    if (document.hidden) queueMicrotask(() => this.#render());
  }

  #render() {
    const chat = this.#chat;
    if (!chat) return;
    this.#renderHeader(chat);
    const before = this.messages.scrollHeight - this.messages.scrollTop;
    const isPrepended = this.#firstShown !== undefined && chat.messages?.[0]?.sequence < this.#firstShown;
    this.#place(this.#items(chat));
    this.#firstShown = chat.messages?.[0]?.sequence;
    if (this.#stuck) this.messages.scrollTop = this.messages.scrollHeight;
    else if (isPrepended) this.messages.scrollTop = this.messages.scrollHeight - before;
    if (chat.messages) this.#older.observe(this.sentinel);
    this.#renderJump();
    this.#read();
  }

  #firstShown;

  #renderHeader(chat) {
    const title = this.#chats.title(chat);
    this.heading.textContent = title;
    const members = chat.memberCount ? `${chat.memberCount} ${chat.memberCount === 1 ? "member" : "members"}` : "Group";
    const muted = this.#chats.isMuted(chat) ? " · muted" : "";
    this.subtitle.textContent = (chat.type === "group" ? members : "Direct chat") + muted;
    this.face.replaceChildren(avatar(this.#chats.face(chat), title, { group: chat.type === "group" }));
  }

  /** What is to be seen, top to bottom: `{key, signature, build}`. */
  #items(chat) {
    if (!chat.messages) return [this.#problem ? notice("problem", this.#problem) : notice("loading", "Loading…")];
    const items = [chat.hasOlder ? { key: "older", signature: "", build: () => this.sentinel } : this.#beginning(chat)];
    const all = [...chat.messages, ...this.#chats.pending(chat.chat_id).map((entry) => this.#draft(entry))];
    all.forEach((message, place) => {
      const previous = all[place - 1];
      if (!previous || dayOf(previous.created_at) !== dayOf(message.created_at))
        items.push(notice("day", dayLabel(message.created_at), message.created_at));
      if (message.sequence === this.#unreadFrom && message.sender_id !== this.#mine)
        items.push(notice("unread", "New messages"));
      items.push(this.#bubble(chat, message, previous, all[place + 1]));
    });
    return items;
  }

  #beginning(chat) {
    return notice(
      "beginning",
      chat.messages.length ? "This is where the chat begins." : "Nothing here yet. Say hello!",
    );
  }

  #draft({ clientMessageId, content, queuedAt, error, state }) {
    return {
      client_message_id: clientMessageId,
      sender_id: this.#mine,
      content,
      created_at: new Date(queuedAt).toISOString(),
      draft: state,
      error,
    };
  }

  #bubble(chat, message, previous, next) {
    const mine = message.sender_id === this.#mine;
    const state = mine ? this.#stateOf(chat, message) : "";
    const facts = {
      text: message.content,
      at: message.created_at,
      mine,
      state,
      error: message.error ? sentence(message.error) : "",
      first: !belongTogether(previous, message) || message.sequence === this.#unreadFrom,
      last: !belongTogether(message, next),
      name: chat.type === "group" && !mine ? this.#people.name(message.sender_id) : "",
      sender: message.sender_id,
      sequence: message.sequence,
    };
    const key = mine ? `mine ${message.client_message_id}` : `message ${message.sequence}`;
    return { key, signature: JSON.stringify(facts), build: () => this.#buildBubble(facts, message.client_message_id) };
  }

  #stateOf(chat, message) {
    if (message.draft) return message.draft;
    return message.sequence <= chat.delivered ? "delivered" : "sent";
  }

  #buildBubble(facts, clientMessageId) {
    const text = linkParts(facts.text).map(([kind, part]) =>
      kind === "link" ? h("a", { href: part, rel: "noopener noreferrer nofollow", target: "_blank" }, part) : part,
    );
    const meta = h(
      "span.meta",
      {},
      h("time", { datetime: facts.at, title: fullTime(facts.at) }, timeOfDay(facts.at)),
      facts.mine ? tick(facts.state) : null,
    );
    const item = h(
      "li.message",
      { "data-sequence": facts.sequence, "data-state": facts.state || null },
      !facts.mine && facts.name
        ? facts.last
          ? avatar(facts.sender, facts.name, { size: "small" })
          : h("span.avatar-space", {})
        : null,
      h(
        "div.bubble",
        {},
        facts.name && facts.first ? h("span.sender", { dir: "auto", "data-hue": hue(facts.sender) }, facts.name) : null,
        facts.mine ? h("span.sr-only", {}, "You: ") : null,
        h("span.text", { dir: "auto" }, ...text),
        meta,
      ),
      facts.state === "failed" ? this.#failure(facts.error, clientMessageId) : null,
    );
    item.classList.toggle("mine", facts.mine);
    item.classList.toggle("first", facts.first);
    item.classList.toggle("last", facts.last);
    return item;
  }

  #failure(error, clientMessageId) {
    return h(
      "div.failure",
      { role: "alert" },
      icon("alert"),
      h("span", {}, error || "Not sent."),
      h("button.link", { type: "button", onclick: () => this.#parley.retry(clientMessageId) }, "Try again"),
      h("button.link", { type: "button", onclick: () => this.#parley.discard(clientMessageId) }, "Discard"),
    );
  }

  /** Put the items in place; what has not changed keeps its node, and with it selection and focus. */
  #place(items) {
    const kept = new Map();
    let cursor = this.messages.firstChild;
    for (const { key, signature, build } of items) {
      const known = this.#nodes.get(key);
      const node = known?.signature === signature ? known.node : build();
      kept.set(key, { node, signature });
      if (node === cursor) cursor = cursor.nextSibling;
      else this.messages.insertBefore(node, cursor);
    }
    while (cursor) {
      const next = cursor.nextSibling;
      cursor.remove();
      cursor = next;
    }
    this.#nodes = kept;
  }

  // Scrolling and reading

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.messages;
    this.#stuck = scrollHeight - scrollTop - clientHeight < NEAR;
    if (this.#stuck) this.#unseen = 0;
    this.#renderJump();
    this.#read();
  }

  #renderJump() {
    this.jump.hidden = this.#stuck;
    this.jump.lastChild.textContent = this.#unseen ? `${this.#unseen} new` : "";
    this.jump.setAttribute(
      "aria-label",
      this.#unseen ? `${this.#unseen} new messages: go to the end` : "Go to the end",
    );
  }

  #toEnd() {
    this.#stuck = true;
    this.messages.scrollTop = this.messages.scrollHeight;
    this.#scrolled();
  }

  #read() {
    if (!document.hidden && this.#stuck) this.#chats.markRead(this.#chatId);
  }

  // Writing

  #typed() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, 160)}px`;
    const over = bytes(this.input.value.trim()) - MAX_BYTES;
    this.counter.textContent = over > 0 ? `${over} too many` : "";
    this.button.disabled = !this.input.value.trim() || over > 0;
  }

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#send(event);
    }
  }

  #send(event) {
    event.preventDefault();
    const text = this.input.value.trim();
    if (!text || bytes(text) > MAX_BYTES) return;
    this.input.value = "";
    saveDraft(this.#chatId, "");
    this.#typed();
    this.#stuck = true;
    this.#unreadFrom = 0;
    this.#parley.send(this.#chatId, text);
    this.input.focus();
  }
}

function belongTogether(one, other) {
  if (!one || !other || one.sender_id !== other.sender_id) return false;
  return (
    dayOf(one.created_at) === dayOf(other.created_at) &&
    new Date(other.created_at) - new Date(one.created_at) < TOGETHER
  );
}

function notice(kind, text, id = "") {
  return { key: `${kind} ${id}`, signature: text, build: () => h(`li.notice.${kind}`, {}, h("span", {}, text)) };
}

function tick(state) {
  const [name, label] = {
    sending: ["clock", "Sending"],
    failed: ["alert", "Not sent"],
    sent: ["sent", "Sent"],
    delivered: ["delivered", "Delivered to your devices"],
  }[state];
  return icon(name, label);
}

/** What is half written stays in the tab, chat by chat. */
function saveDraft(chatId, text) {
  if (text.trim()) sessionStorage.setItem(`parley.draft.${chatId}`, text);
  else sessionStorage.removeItem(`parley.draft.${chatId}`);
}

function loadDraft(chatId) {
  return sessionStorage.getItem(`parley.draft.${chatId}`) ?? "";
}
