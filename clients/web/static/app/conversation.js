/** The view of one chat: its messages and the composer. */

import { avatar } from "./avatar.js";
import { announce, errorText, h, icon, iconButton } from "./dom.js";
import { byteLength, dayLabel, dayOf, fullTime, hue, linkParts, timeOfDay } from "./format.js";

const MAX_CONTENT_BYTES = 4096;
const BOTTOM_MARGIN_PX = 80; // closer than this counts as scrolled to the bottom
const BLOCK_MS = 5 * 60_000; // messages of one sender within this time form a block

export class Conversation {
  #chatId;
  #chats;
  #people;
  #parley;
  #nodes = new Map();
  #renderRequest = 0;
  #unreadFrom = 0;
  #unseen = 0;
  #isAtBottom = true;
  #firstShown;
  #error = "";
  #olderObserver;
  #listeners = new AbortController();

  constructor({ chatId, chats, people, parley, onInfo }) {
    this.#chatId = chatId;
    this.#chats = chats;
    this.#people = people;
    this.#parley = parley;
    this.#build(onInfo);
    const { signal } = this.#listeners;
    const listen = (target, type, handler) => target.addEventListener(type, handler, { signal });
    listen(chats, "chat", ({ detail }) => detail.chatId === chatId && this.#onChange(detail.message));
    listen(chats, "members", ({ detail }) => detail === chatId && this.#loadMembers());
    listen(people, "change", () => this.#scheduleRender());
    listen(parley, "state", () => parley.state === "online" && this.#open());
    listen(document, "visibilitychange", () => this.#markRead());
    const chat = this.#chat;
    if (chat && chats.unread(chat)) this.#unreadFrom = chat.read + 1;
    this.#render();
    this.#open();
  }

  /** Remove the listeners and save the draft. */
  close() {
    this.#listeners.abort();
    this.#olderObserver.disconnect();
    cancelAnimationFrame(this.#renderRequest);
    saveDraft(this.#chatId, this.input.value);
  }

  get #chat() {
    return this.#chats.get(this.#chatId);
  }

  get #myId() {
    return this.#parley.session.user?.user_id;
  }

  // Building

  #build(onInfo) {
    this.heading = h("h1", { dir: "auto" });
    this.subtitle = h("p.subtitle", {});
    this.avatarSlot = h("span", {});
    this.sentinel = h("li.sentinel", { "aria-hidden": "true" });
    this.messages = h("ol.messages", { tabindex: "0", "aria-label": "Messages", onscroll: () => this.#onScroll() });
    this.jump = h(
      "button.jump",
      { type: "button", hidden: true, onclick: () => this.#scrollToBottom() },
      icon("down"),
      h("span", {}),
    );
    this.input = h("textarea", {
      rows: "1",
      placeholder: "Write a message",
      "aria-label": "Message",
      enterkeyhint: "send",
      dir: "auto",
      oninput: () => this.#onInput(),
      onkeydown: (event) => this.#onKeyDown(event),
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
          this.avatarSlot,
          h("span.heading-text", {}, this.heading, this.subtitle),
        ),
        iconButton("info", "About this chat", onInfo),
      ),
      h("div.scroll-frame", {}, this.messages, this.jump),
      composer,
    );
    this.#olderObserver = new IntersectionObserver(([entry]) => entry.isIntersecting && this.#loadOlder(), {
      root: this.messages,
      rootMargin: "400px 0px 0px",
    });
    this.input.value = loadDraft(this.#chatId);
    requestAnimationFrame(() => this.#onInput());
  }

  async #open() {
    try {
      await this.#chats.open(this.#chatId);
      if (this.#chat?.type === "group") await this.#loadMembers();
      this.#error = "";
    } catch (error) {
      this.#error = errorText(error);
    }
    this.#scheduleRender();
  }

  async #loadMembers() {
    await this.#chats.members(this.#chatId).catch(() => {});
    this.#scheduleRender();
  }

  async #loadOlder() {
    await this.#chats.loadOlder(this.#chatId).catch(() => {});
    // If the page did not fill the screen, the observer saw no change: observe again.
    this.#olderObserver.unobserve(this.sentinel);
    if (this.sentinel.isConnected) this.#olderObserver.observe(this.sentinel);
  }

  // Rendering

  #onChange(message) {
    if (message && message.sender_id !== this.#myId) {
      announce(`${this.#people.name(message.sender_id)}: ${message.content}`);
      if (!this.#isAtBottom) this.#unseen += 1;
    }
    this.#scheduleRender();
  }

  /** Coalesce changes into one render per animation frame. */
  #scheduleRender() {
    if (this.#renderRequest) return;
    this.#renderRequest = requestAnimationFrame(() => {
      this.#renderRequest = 0;
      this.#render();
    });
    // A hidden page gets no animation frames.
    if (document.hidden) queueMicrotask(() => this.#render());
  }

  #render() {
    const chat = this.#chat;
    if (!chat) return;
    this.#renderHeader(chat);
    const before = this.messages.scrollHeight - this.messages.scrollTop;
    const isPrepended = this.#firstShown !== undefined && chat.messages?.[0]?.sequence < this.#firstShown;
    this.#reconcile(this.#items(chat));
    this.#firstShown = chat.messages?.[0]?.sequence;
    if (this.#isAtBottom) this.messages.scrollTop = this.messages.scrollHeight;
    else if (isPrepended) this.messages.scrollTop = this.messages.scrollHeight - before;
    if (chat.messages) this.#olderObserver.observe(this.sentinel);
    this.#renderJump();
    this.#markRead();
  }

  #renderHeader(chat) {
    const title = this.#chats.title(chat);
    this.heading.textContent = title;
    const members = chat.memberCount ? `${chat.memberCount} ${chat.memberCount === 1 ? "member" : "members"}` : "Group";
    const muted = this.#chats.isMuted(chat) ? " · muted" : "";
    this.subtitle.textContent = (chat.type === "group" ? members : "Direct chat") + muted;
    this.avatarSlot.replaceChildren(avatar(this.#chats.avatarId(chat), title, { group: chat.type === "group" }));
  }

  /** The items of the list, top to bottom: `{key, signature, build}`. */
  #items(chat) {
    if (!chat.messages) return [this.#error ? notice("problem", this.#error) : notice("loading", "Loading…")];
    const items = [chat.hasOlder ? { key: "older", signature: "", build: () => this.sentinel } : firstNotice(chat)];
    const all = [...chat.messages, ...this.#chats.pending(chat.chat_id).map((entry) => this.#pendingMessage(entry))];
    all.forEach((message, index) => {
      const previous = all[index - 1];
      if (!previous || dayOf(previous.created_at) !== dayOf(message.created_at))
        items.push(notice("day", dayLabel(message.created_at), message.created_at));
      if (message.sequence === this.#unreadFrom && message.sender_id !== this.#myId)
        items.push(notice("unread", "New messages"));
      items.push(this.#messageItem(chat, message, previous, all[index + 1]));
    });
    return items;
  }

  #pendingMessage({ clientMessageId, content, queuedAt, error, state }) {
    return {
      client_message_id: clientMessageId,
      sender_id: this.#myId,
      content,
      created_at: new Date(queuedAt).toISOString(),
      pendingState: state,
      error,
    };
  }

  #messageItem(chat, message, previous, next) {
    const mine = message.sender_id === this.#myId;
    const state = mine ? this.#stateOf(chat, message) : "";
    const props = {
      text: message.content,
      at: message.created_at,
      mine,
      state,
      error: message.error ? errorText(message.error) : "",
      first: !isSameBlock(previous, message) || message.sequence === this.#unreadFrom,
      last: !isSameBlock(message, next),
      name: chat.type === "group" && !mine ? this.#people.name(message.sender_id) : "",
      sender: message.sender_id,
      sequence: message.sequence,
    };
    const key = mine ? `mine ${message.client_message_id}` : `message ${message.sequence}`;
    return { key, signature: JSON.stringify(props), build: () => this.#buildMessage(props, message.client_message_id) };
  }

  #stateOf(chat, message) {
    return message.pendingState ?? (message.sequence <= chat.delivered ? "delivered" : "sent");
  }

  #buildMessage(props, clientMessageId) {
    const text = linkParts(props.text).map(([kind, part]) =>
      kind === "link" ? h("a", { href: part, rel: "noopener noreferrer nofollow", target: "_blank" }, part) : part,
    );
    const meta = h(
      "span.meta",
      {},
      h("time", { datetime: props.at, title: fullTime(props.at) }, timeOfDay(props.at)),
      props.mine ? stateIcon(props.state) : null,
    );
    const item = h(
      "li.message",
      { "data-sequence": props.sequence, "data-state": props.state || null },
      !props.mine && props.name
        ? props.last
          ? avatar(props.sender, props.name, { size: "small" })
          : h("span.avatar-space", {})
        : null,
      h(
        "div.bubble",
        {},
        props.name && props.first ? h("span.sender", { dir: "auto", "data-hue": hue(props.sender) }, props.name) : null,
        props.mine ? h("span.sr-only", {}, "You: ") : null,
        h("span.text", { dir: "auto" }, ...text),
        meta,
      ),
      props.state === "failed" ? this.#buildFailure(props.error, clientMessageId) : null,
    );
    item.classList.toggle("mine", props.mine);
    item.classList.toggle("first", props.first);
    item.classList.toggle("last", props.last);
    return item;
  }

  #buildFailure(error, clientMessageId) {
    return h(
      "div.failure",
      { role: "alert" },
      icon("alert"),
      h("span", {}, error || "Not sent."),
      h("button.link", { type: "button", onclick: () => this.#parley.retry(clientMessageId) }, "Try again"),
      h("button.link", { type: "button", onclick: () => this.#parley.discard(clientMessageId) }, "Discard"),
    );
  }

  /** Update the list. An unchanged item keeps its node, and with it selection and focus. */
  #reconcile(items) {
    const nodes = new Map();
    let cursor = this.messages.firstChild;
    for (const { key, signature, build } of items) {
      const cached = this.#nodes.get(key);
      const node = cached?.signature === signature ? cached.node : build();
      nodes.set(key, { node, signature });
      if (node === cursor) cursor = cursor.nextSibling;
      else this.messages.insertBefore(node, cursor);
    }
    while (cursor) {
      const next = cursor.nextSibling;
      cursor.remove();
      cursor = next;
    }
    this.#nodes = nodes;
  }

  // Scrolling and reading

  #onScroll() {
    const { scrollHeight, scrollTop, clientHeight } = this.messages;
    this.#isAtBottom = scrollHeight - scrollTop - clientHeight < BOTTOM_MARGIN_PX;
    if (this.#isAtBottom) this.#unseen = 0;
    this.#renderJump();
    this.#markRead();
  }

  #renderJump() {
    this.jump.hidden = this.#isAtBottom;
    this.jump.lastChild.textContent = this.#unseen ? `${this.#unseen} new` : "";
    this.jump.setAttribute(
      "aria-label",
      this.#unseen ? `${this.#unseen} new messages: go to the end` : "Go to the end",
    );
  }

  #scrollToBottom() {
    this.#isAtBottom = true;
    this.messages.scrollTop = this.messages.scrollHeight;
    this.#onScroll();
  }

  #markRead() {
    if (!document.hidden && this.#isAtBottom) this.#chats.markRead(this.#chatId);
  }

  // Writing

  #onInput() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, 160)}px`;
    const over = byteLength(this.input.value.trim()) - MAX_CONTENT_BYTES;
    this.counter.textContent = over > 0 ? `${over} too many` : "";
    this.button.disabled = !this.input.value.trim() || over > 0;
  }

  #onKeyDown(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#send(event);
    }
  }

  #send(event) {
    event.preventDefault();
    const text = this.input.value.trim();
    if (!text || byteLength(text) > MAX_CONTENT_BYTES) return;
    this.input.value = "";
    saveDraft(this.#chatId, "");
    this.#onInput();
    this.#isAtBottom = true;
    this.#unreadFrom = 0;
    this.#parley.send(this.#chatId, text);
    this.input.focus();
  }
}

function isSameBlock(one, other) {
  if (!one || !other || one.sender_id !== other.sender_id) return false;
  return (
    dayOf(one.created_at) === dayOf(other.created_at) &&
    new Date(other.created_at) - new Date(one.created_at) < BLOCK_MS
  );
}

function notice(kind, text, id = "") {
  return { key: `${kind} ${id}`, signature: text, build: () => h(`li.notice.${kind}`, {}, h("span", {}, text)) };
}

function firstNotice(chat) {
  return notice("beginning", chat.messages.length ? "This is where the chat begins." : "Nothing here yet. Say hello!");
}

function stateIcon(state) {
  const [name, label] = {
    sending: ["clock", "Sending"],
    failed: ["alert", "Not sent"],
    sent: ["sent", "Sent"],
    delivered: ["delivered", "Delivered to your devices"],
  }[state];
  return icon(name, label);
}

/** Unsent text is kept per tab and chat. */
function saveDraft(chatId, text) {
  if (text.trim()) sessionStorage.setItem(`parley.draft.${chatId}`, text);
  else sessionStorage.removeItem(`parley.draft.${chatId}`);
}

function loadDraft(chatId) {
  return sessionStorage.getItem(`parley.draft.${chatId}`) ?? "";
}
