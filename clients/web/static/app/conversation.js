/** The view of one chat: its header, pinned messages, messages and composer. */

import { kindOf } from "../parley.js";
import { ChatHeader } from "./chat-header.js";
import { Composer } from "./composer.js";
import { announce, errorText, h, openDialog, toast } from "./dom.js";
import { fullTime } from "./format.js";
import { parse, plainText, render } from "./markup.js";
import { MessageActions } from "./message-actions.js";
import { conversationItems, line } from "./message-items.js";
import { MessageList } from "./message-list.js";
import { PinBar } from "./pin-bar.js";

const JUMP_PAGE = 100;
const MAX_JUMP = 3_000; // entries
const MAX_WATCHED = 100;

export class Conversation {
  #chatId;
  #chats;
  #people;
  #parley;
  #header;
  #pins;
  #list;
  #composer;
  #actions;
  #renderRequest = 0;
  #unreadFrom = 0;
  #isReady = false;
  #hasScrolled = false;
  #error = "";
  #quotesRequested = new Set();
  #listeners = new AbortController();

  constructor({ chatId, chats, people, parley, onInfo }) {
    this.#chatId = chatId;
    this.#chats = chats;
    this.#people = people;
    this.#parley = parley;
    this.#build(onInfo);
    const { signal } = this.#listeners;
    const listen = (target, type, handler) => target.addEventListener(type, handler, { signal });
    listen(chats, "chat", ({ detail }) => detail.chatId === chatId && this.#onChange(detail.entry));
    // If it fails, the next connect loads them.
    listen(chats, "members", ({ detail }) => detail === chatId && this.#loadMembers().catch(() => {}));
    listen(people, "change", () => this.#scheduleRender());
    listen(parley, "presence", () => this.#scheduleRender());
    // If it fails, the next connect or resync reads them.
    listen(parley, "resync", () => this.#loadReceipts().catch(() => {}));
    listen(parley, "state", () => parley.state === "online" && this.#open());
    listen(document, "visibilitychange", () => this.#markRead());
    const { unread } = this.#chat;
    if (unread.count) this.#unreadFrom = unread.mark + 1;
    this.#render();
    this.#open();
  }

  /** Remove the listeners and save the draft. */
  close() {
    this.#listeners.abort();
    this.#list.close();
    cancelAnimationFrame(this.#renderRequest);
    this.#composer.close();
    if (this.#chat?.type === "group") this.#parley.watchPresence(this.#chatId, []);
  }

  get input() {
    return this.#composer.input;
  }

  /** Keep the text of an edit that was refused. */
  restore(text) {
    this.#composer.restore(text);
  }

  get #chat() {
    return this.#chats.get(this.#chatId);
  }

  get #log() {
    return this.#parley.log(this.#chatId);
  }

  get #myId() {
    return this.#parley.session.user?.user_id;
  }

  #build(onInfo) {
    const [chats, people, parley] = [this.#chats, this.#people, this.#parley];
    this.#header = new ChatHeader({ chats, people, parley, onInfo });
    this.#pins = new PinBar({ onJump: (sequence) => this.#jump(sequence) });
    this.#list = new MessageList({
      on: {
        older: () => this.#loadOlder(),
        scroll: () => this.#markRead(),
        key: (event, item) => this.#onMessageKey(event, item),
        released: () => this.#scheduleRender(),
      },
    });
    this.#composer = new Composer({
      chatId: this.#chatId,
      members: () => [...(this.#chat?.members?.values() ?? [])].filter(({ user_id: id }) => id !== this.#myId),
      name: (userId) => people.name(userId),
      on: {
        send: (draft) => this.#send(draft),
        edit: ({ target, content, mentions }) => parley.edit(this.#chatId, target, content, { mentions }),
        typing: (isTyping) => parley.setTyping(this.#chatId, isTyping),
        editLast: () => this.#editLast(),
      },
    });
    this.#actions = new MessageActions({
      chatId: this.#chatId,
      chats,
      people,
      parley,
      onReply: (message) => this.#composer.reply(message),
      onEdit: (message) => this.#composer.edit(message),
    });
    this.element = h(
      "section.conversation",
      { "aria-label": "Conversation" },
      this.#header.element,
      this.#pins.element,
      this.#list.element,
      this.#composer.element,
    );
  }

  // Loading

  async #open() {
    try {
      await this.#chats.open(this.#chatId);
      this.#isReady = true;
      this.#error = "";
      this.#scheduleRender();
      const pins = this.#log.hasPins ? null : this.#parley.loadPins(this.#chatId);
      await Promise.all([pins, this.#loadMembers()]);
    } catch (error) {
      this.#error = errorText(error);
    }
    this.#scheduleRender();
  }

  /** The members, and of small chats their marks and presence. */
  async #loadMembers() {
    const members = await this.#chats.members(this.#chatId);
    const others = [...members.keys()].filter((userId) => userId !== this.#myId);
    if (this.#chat?.type === "group") this.#parley.watchPresence(this.#chatId, others.slice(0, MAX_WATCHED));
    await this.#loadReceipts();
    this.#scheduleRender();
  }

  /** Of small chats: those of large ones are not kept up to date. */
  async #loadReceipts() {
    if (this.#chat?.members?.size <= MAX_WATCHED) await this.#parley.loadReceipts(this.#chatId);
  }

  async #loadOlder() {
    await this.#chats.loadOlder(this.#chatId).catch((error) => toast(errorText(error)));
    this.#list.observeOlder();
  }

  /** A quoted message that is not loaded; undefined while it is being read. */
  #findQuoted(sequence) {
    const found = this.#log?.find(sequence);
    if (found || this.#quotesRequested.has(sequence)) return found;
    this.#quotesRequested.add(sequence);
    const forget = () => this.#quotesRequested.delete(sequence);
    this.#parley.loadMessage(this.#chatId, sequence).then(() => this.#scheduleRender(), forget);
    return undefined;
  }

  // Rendering

  #onChange(entry) {
    if (entry && kindOf(entry) === "message" && entry.sender_id !== this.#myId) {
      announce(`${this.#people.name(entry.sender_id)}: ${plainText(entry.content)}`);
      this.#list.addUnseen();
      if (document.hidden && !this.#unreadFrom) this.#unreadFrom = entry.sequence;
    }
    if (entry && kindOf(entry) === "deletion") this.#composer.onDeleted(entry.target);
    this.#scheduleRender();
  }

  /** Coalesce changes into one render per animation frame. */
  #scheduleRender() {
    if (this.#renderRequest || this.#listeners.signal.aborted) return;
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
    this.#header.render(chat);
    const log = this.#isReady ? this.#log : null;
    if (log) {
      this.#renderPins(log);
      this.#list.render(this.#items(chat, log), log);
      if (!this.#hasScrolled) this.#scrollToStart();
    } else {
      this.#list.render([this.#error ? line("problem", this.#error) : line("loading", "Loading…")], { first: 0 });
    }
    this.#markRead();
  }

  #scrollToStart() {
    this.#hasScrolled = true;
    if (this.#unreadFrom) this.#list.scrollToDivider();
    this.#list.observeOlder();
  }

  #renderPins(log) {
    const pinned = log.pins.map((sequence) => log.find(sequence)).filter((message) => message && !message.deleted_at);
    this.#pins.render(pinned, (userId) => (userId === this.#myId ? "You" : this.#people.name(userId)));
  }

  #items(chat, log) {
    const view = {
      chat,
      log,
      me: this.#myId,
      pending: this.#chats.pending(this.#chatId),
      changing: this.#chats.changing(this.#chatId),
      receipts: this.#parley.marks.receipts(this.#chatId),
      unreadFrom: this.#unreadFrom,
      name: (userId) => this.#people.name(userId),
      find: (sequence) => this.#findQuoted(sequence),
    };
    return conversationItems(view, (message) => this.#handlersOf(message));
  }

  #handlersOf(message) {
    return {
      menu: (item, point) => this.#actions.openMenu(this.#log.find(message.sequence), item, point),
      react: (emoji) => this.#actions.react(this.#log.find(message.sequence), emoji),
      jump: (sequence) => this.#jump(sequence),
      retry: () => this.#parley.retry(message.client_message_id),
      discard: () => this.#parley.discard(message.client_message_id),
    };
  }

  /** Go to a message, reading back to it if it is not loaded. One that is far back is shown by itself. */
  async #jump(sequence) {
    if (this.#log.first - sequence > MAX_JUMP) return this.#showFarBack(sequence);
    try {
      // The log is gone if one leaves the chat meanwhile.
      while (this.#log?.hasOlder && this.#log.first > sequence)
        await this.#chats.loadOlder(this.#chatId, { limit: JUMP_PAGE });
    } catch (error) {
      return toast(errorText(error));
    }
    this.#render();
    this.#list.scrollTo(sequence);
  }

  /** A quote or a pin has loaded the message. */
  #showFarBack(sequence) {
    const { sender_id: senderId, content, created_at: at, deleted_at: deletedAt, mentions = [] } = this.#log.find(sequence);
    const names = new Map(mentions.map((userId) => [userId, this.#people.name(userId)]));
    const text = deletedAt ? "This message was deleted" : render(parse(content, names), this.#myId);
    const title = senderId === this.#myId ? "You" : this.#people.name(senderId);
    const body = h("p.text", { dir: "auto" }, text);
    openDialog(title, h("div.body", {}, h("p.hint", {}, fullTime(at)), body));
  }

  /** What is on the screen is read. At the end that is everything, changes included. */
  #markRead() {
    if (document.hidden || !this.#hasScrolled || !this.#log) return;
    this.#chats.markRead(this.#chatId, this.#list.isAtBottom ? this.#log.last : this.#list.lastVisible);
  }

  // Writing

  #send({ content, mentions, replyTo }) {
    this.#unreadFrom = 0;
    this.#list.scrollToBottom();
    this.#parley.send(this.#chatId, content, { mentions, replyTo });
  }

  #editLast() {
    const own = this.#log?.timeline.findLast((message) => this.#actions.canEdit(message));
    if (own) this.#composer.edit(own);
  }

  #onMessageKey(event, item) {
    const message = this.#log?.find(Number(item.dataset.sequence));
    if (event.ctrlKey || event.metaKey || event.altKey || !message || !this.#actions.has(message)) return;
    const run = {
      Enter: () => this.#actions.openMenu(message, item),
      ContextMenu: () => this.#actions.openMenu(message, item),
      r: () => this.#actions.reply(message),
      e: () => this.#actions.edit(message),
      Escape: () => this.input.focus(),
    }[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  }
}
