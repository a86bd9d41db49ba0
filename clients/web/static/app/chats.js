/**
 * The chats of the logged-in user, as the views show them.
 *
 * Emits `list` when any chat may have changed, `chat` (`{chatId, entry}`) when one did, `members` (the chat's id)
 * when its members did, and `left` (the chat) when the user is no longer a member.
 */

import { changed, kindOf } from "../parley.js";
import { ChatRequests } from "./chat-requests.js";
import { Unread } from "./unread.js";

const INBOX_LAG_MS = 60_000; // the inbox may lack a new chat for this long
const PAGE = 100;
const MAX_PAGES_TO_UNREAD = 5;
const NEW_CHAT = { muted_until: null, last_sequence: 0, unread_count: 0, last_message: null };

export class Chats extends EventTarget {
  #parley;
  #session;
  #people;
  #tabs;
  #chats = new Map();
  #errors = new Map();
  #loading = new Map();

  constructor({ parley, people, tabs }) {
    super();
    this.#parley = parley;
    this.#session = parley.session;
    this.#people = people;
    this.#tabs = tabs;
    this.isLoaded = false;
    this.requests = new ChatRequests({ session: this.#session, onChat: (chat) => this.#onChatAnswer(chat) });
    const on = (type, handler) => parley.addEventListener(type, ({ detail }) => handler(detail));
    on("chats", ({ items }) => this.#onChats(items));
    on("entry", (entry) => this.#emitChange(entry.chat_id, entry));
    on("activity", (entry) => this.#onActivity(entry));
    for (const type of ["pending", "sent", "discarded"]) on(type, (draft) => this.#clearError(draft));
    on("failed", (draft) => this.#onFailed(draft));
    on("receipts", ({ chatId, marks }) => this.#onReceipts(chatId, marks));
    on("typing", ({ chatId }) => this.#emitChange(chatId));
    on("presence", () => this.#emitChange());
    on("left", ({ chatId }) => this.#onLeft(chatId));
    on("chat_created", (frame) => this.#onCreated(frame));
    on("membership_changed", (change) => this.#onMembershipChanged(change));
    people.addEventListener("change", () => this.#emitChange());
    tabs.addEventListener("message", ({ data }) => this.#onTabMessage(data));
  }

  get #myId() {
    return this.#session.user?.user_id;
  }

  get(chatId) {
    return this.#chats.get(chatId);
  }

  /** The most recently active first. */
  list() {
    const activeAt = (chat) => chat.last_message?.created_at ?? chat.created_at;
    return [...this.#chats.values()].sort((one, other) => (activeAt(one) < activeAt(other) ? 1 : -1));
  }

  /** How many chats that are not muted have unread messages. */
  get unreadChats() {
    return this.list().filter((chat) => chat.unread.count && !this.isMuted(chat)).length;
  }

  isMuted(chat) {
    return chat.muted_until !== null && new Date(chat.muted_until) > new Date();
  }

  title(chat) {
    if (chat.type === "group") return chat.name;
    const partner = this.partner(chat);
    return (partner && this.#people.name(partner)) || "…";
  }

  /** The other person of a direct chat; undefined for groups. */
  partner(chat) {
    return chat.type === "direct" ? this.#people.partner(chat.chat_id) : undefined;
  }

  /** The id that determines the avatar's colour: the other person's, or the group's. */
  avatarId(chat) {
    return this.partner(chat) || chat.chat_id;
  }

  /** The last message as it stands. */
  lastMessage(chat) {
    const { last_message: last } = chat;
    return (last && this.#parley.log(chat.chat_id)?.find(last.sequence)) ?? last;
  }

  /** The chat's queued and failed messages, oldest first, each with its `error`. */
  pending(chatId) {
    return this.#parley.outbox
      .list()
      .filter((draft) => draft.chatId === chatId && draft.type === "send_message")
      .map((draft) => ({ ...draft, error: draft.state === "failed" ? this.#errors.get(draft.clientMessageId) : null }));
  }

  /** The messages with a change of this user that waits for a connection. */
  changing(chatId) {
    if (this.#parley.state === "online") return new Set();
    const drafts = this.#parley.outbox.list().filter((draft) => draft.chatId === chatId && draft.fields.target);
    return new Set(drafts.map((draft) => draft.fields.target));
  }

  // Reading

  /** Load the newest entries, back to the first unread one, and follow the chat. Rejects if it cannot be read. */
  async open(chatId) {
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    const log = await this.#parley.open(chatId);
    for (let page = 0; page < MAX_PAGES_TO_UNREAD && log.hasOlder && log.first > chat.unread.mark; page += 1)
      await this.#parley.loadOlder(chatId, { limit: PAGE });
    this.#emitChange(chatId);
  }

  /** Load the page before the oldest entry. Calls while one is on its way wait for that one. */
  async loadOlder(chatId, { limit } = {}) {
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    chat.loadingOlder ??= this.#parley.loadOlder(chatId, { limit }).finally(() => (chat.loadingOlder = null));
    await chat.loadingOlder;
    this.#emitChange(chatId);
  }

  /** Everything up to `sequence` was on the screen. */
  markRead(chatId, sequence) {
    const chat = this.#chats.get(chatId);
    if (!chat || sequence <= chat.unread.mark) return;
    this.#parley.markRead(chatId, sequence);
    this.#moveReadMark(chat, sequence);
    this.#tabs.postMessage({ chatId, read: sequence });
  }

  #moveReadMark(chat, sequence) {
    const isCertain = chat.unread.moveTo(sequence, {
      last: chat.last_sequence,
      unread: this.#unreadAfter(chat, sequence),
    });
    if (!isCertain) this.#parley.refresh();
    this.#emitChange(chat.chat_id);
  }

  /** The messages of others behind a mark; null if not all of them are loaded. */
  #unreadAfter(chat, mark) {
    const log = this.#parley.log(chat.chat_id);
    if (!log || log.first > mark + 1) return null;
    const isUnread = (entry) =>
      entry.sequence > mark && kindOf(entry) === "message" && entry.sender_id !== this.#myId;
    return log.timeline.filter(isUnread);
  }

  /** The members by user id, read again after a change. Until they are read, `chat.members` has the former ones. */
  async members(chatId, { reload = false } = {}) {
    const chat = this.#chats.get(chatId);
    if (chat?.members && !chat.haveMembersChanged && !reload) return chat.members;
    if (chat) chat.haveMembersChanged = false; // true again if they change during the read
    const items = await this.#parley.listAll(`/api/chats/${chatId}/members`).catch((error) => {
      if (chat) chat.haveMembersChanged = true;
      throw error;
    });
    this.#people.addNames(items);
    const members = new Map(items.map((member) => [member.user_id, member]));
    if (chat) Object.assign(chat, { members, role: members.get(this.#myId)?.role ?? chat.role });
    return members;
  }

  // Changing

  /** Create a chat, or find the direct chat that exists; returns its id. */
  async create(draft, key) {
    const chat = await this.requests.create(draft, key);
    return chat.chat_id;
  }

  async mute(chatId, until) {
    this.#chats.get(chatId).muted_until = await this.requests.mute(chatId, until);
    this.#tabs.postMessage({ refresh: true });
    this.#emitChange(chatId);
  }

  async leave(chatId) {
    await this.requests.removeMember(chatId, this.#myId);
    this.#onLeft(chatId);
  }

  #onChatAnswer(chat) {
    this.#put(this.#chats.has(chat.chat_id) ? chat : { ...NEW_CHAT, ...chat });
    this.#tabs.postMessage({ refresh: true });
    this.#emitChange(chat.chat_id);
  }

  // Events of the protocol and of other tabs

  #onChats(items) {
    this.isLoaded = true;
    const present = new Set(items.map((item) => item.chat_id));
    for (const item of items) {
      const chat = this.#put(item);
      // A lost connection may have lost a mark, and earlier clients set no read marks.
      if (chat.unread.mark > (item.last_read_sequence ?? 0)) this.#parley.markRead(item.chat_id, chat.unread.mark);
      chat.acknowledged = 0;
      this.#acknowledge(chat);
    }
    // The inbox may lag behind a new chat. For followed chats, parley.js finds out whether they are gone.
    const isGone = ({ chat_id: id, addedAt }) =>
      !present.has(id) && !this.#parley.log(id) && Date.now() - addedAt > INBOX_LAG_MS;
    for (const chat of this.list().filter(isGone)) this.#chats.delete(chat.chat_id);
    for (const chatId of this.#chats.keys()) this.#emitChat(chatId);
    this.#emitChange();
  }

  #put(item) {
    const chat = this.#chats.get(item.chat_id) ?? { unread: new Unread(), last_sequence: 0, addedAt: Date.now() };
    const last = isNewer(chat.last_message, item.last_message) ? chat.last_message : (item.last_message ?? null);
    if (item.unread_count !== undefined)
      chat.unread.onInbox({ last: item.last_sequence, mark: readMark(item), count: item.unread_count });
    const latest = Math.max(chat.last_sequence, item.last_sequence);
    Object.assign(chat, item, { last_sequence: latest, last_message: last });
    this.#chats.set(item.chat_id, chat);
    return chat;
  }

  #onActivity(entry) {
    const chat = this.#chats.get(entry.chat_id);
    if (!chat) {
      this.#load(entry.chat_id).then(() => this.#onActivityOfLoaded(entry));
      return;
    }
    const last = chat.last_sequence;
    if (entry.target && entry.target === chat.last_message?.sequence && entry.kind !== "pin")
      chat.last_message = changed(chat.last_message, entry);
    if (entry.sequence <= last) return;
    chat.last_sequence = entry.sequence;
    this.#applyToList(chat, entry);
    this.#acknowledge(chat);
    // How many of the entries between were messages is not known.
    if (entry.sequence > last + 1 && !this.#parley.log(chat.chat_id)) this.#parley.refresh();
    this.#emitChange(entry.chat_id);
  }

  /** The chat was loaded after the entry was stored: the entry is new to this page all the same. */
  #onActivityOfLoaded(entry) {
    const chat = this.#chats.get(entry.chat_id);
    if (!chat) return;
    chat.last_sequence = Math.min(chat.last_sequence, entry.sequence - 1);
    this.#onActivity(entry);
  }

  #applyToList(chat, entry) {
    const kind = kindOf(entry);
    if (kind === "message") {
      chat.last_message = entry;
      if (entry.sender_id !== this.#myId) chat.unread.onMessage(entry.sequence);
    } else if (kind === "notice") {
      if (entry.notice.type === "chat_renamed") chat.name = entry.notice.name;
      else this.#onMembersChanged(chat.chat_id);
    }
  }

  /** It has arrived, also where the chat was never opened. */
  #acknowledge(chat) {
    if (chat.last_sequence <= Math.max(chat.acknowledged ?? 0, chat.last_acked_sequence ?? 0)) return;
    chat.acknowledged = chat.last_sequence;
    this.#parley.acknowledge(chat.chat_id, chat.last_sequence, { isRead: chat.last_read_sequence > 0 });
  }

  #onReceipts(chatId, marks) {
    const chat = this.#chats.get(chatId);
    const mine = marks.find((mark) => mark.user_id === this.#myId)?.last_read_sequence;
    if (chat && mine > chat.unread.mark) this.#moveReadMark(chat, mine);
    else this.#emitChange(chatId);
  }

  #onFailed({ clientMessageId, chatId, error }) {
    this.#errors.set(clientMessageId, error);
    this.#emitChange(chatId);
  }

  #clearError({ clientMessageId, chatId }) {
    this.#errors.delete(clientMessageId);
    this.#emitChange(chatId);
  }

  #onLeft(chatId) {
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    this.#chats.delete(chatId);
    this.#parley.unfollow(chatId);
    this.dispatchEvent(new CustomEvent("left", { detail: chat }));
    this.#emitChange();
  }

  #onCreated({ chat_id, chat_type: type, name, initial_members: members }) {
    if (this.#chats.has(chat_id)) return;
    if (type === "direct") this.#people.addDirectChat(chat_id, members);
    this.#put({ ...NEW_CHAT, chat_id, type, name, created_at: new Date().toISOString() });
    this.#emitChange();
  }

  /** Fetch a chat that is unknown or whose own membership changed. Concurrent calls share one request. */
  #load(chatId) {
    // If it fails, the next read of the inbox corrects it.
    const fetch = () => this.requests.get(chatId).catch(() => {});
    if (!this.#loading.has(chatId)) this.#loading.set(chatId, fetch().finally(() => this.#loading.delete(chatId)));
    return this.#loading.get(chatId);
  }

  #onMembershipChanged({ chat_id: chatId, user_id: userId, change_type: change }) {
    const isMe = userId === this.#myId;
    if (isMe && change === "removed") this.#onLeft(chatId);
    else if (isMe) this.#load(chatId);
    this.#onMembersChanged(chatId);
  }

  #onMembersChanged(chatId) {
    const chat = this.#chats.get(chatId);
    if (chat) chat.haveMembersChanged = true;
    this.dispatchEvent(new CustomEvent("members", { detail: chatId }));
  }

  #onTabMessage({ chatId, read = 0, refresh = false }) {
    if (refresh) this.#parley.refresh();
    const chat = this.#chats.get(chatId);
    if (chat && read > chat.unread.mark) this.#moveReadMark(chat, read);
  }

  #emitChange(chatId, entry = null) {
    if (chatId) this.#emitChat(chatId, entry);
    this.dispatchEvent(new Event("list"));
  }

  #emitChat(chatId, entry = null) {
    this.dispatchEvent(new CustomEvent("chat", { detail: { chatId, entry } }));
  }
}

/** After which messages are unread. Earlier servers do not tell it. */
const readMark = (item) => item.unread_after ?? (item.last_read_sequence || item.last_acked_sequence || 0);

/** Whether a message of this page is later, or later changed, than the server's answer. */
function isNewer(one, other) {
  if (!one || !other) return Boolean(one);
  if (one.sequence !== other.sequence) return one.sequence > other.sequence;
  return (one.last_change ?? 0) > (other.last_change ?? 0);
}
