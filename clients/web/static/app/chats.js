/**
 * The chats of the logged-in user, as the views show them.
 *
 * Emits `list` when any chat may have changed, `chat` (`{chatId, message}`) when one did, `members` (the chat's id)
 * when its members did, and `left` (the chat) when the user is no longer a member.
 */

const HISTORY_LIMIT = 50;
const INBOX_LAG_MS = 60_000; // the inbox may lack a new chat for this long
const NEW_CHAT = { muted_until: null, last_sequence: 0, last_acked_sequence: 0, last_message: null };

export class Chats extends EventTarget {
  #parley;
  #session;
  #people;
  #tabs;
  #chats = new Map();
  #failures = new Map();
  #loading = new Map();

  constructor({ parley, people, tabs }) {
    super();
    this.#parley = parley;
    this.#session = parley.session;
    this.#people = people;
    this.#tabs = tabs;
    this.isLoaded = false;
    const on = (type, handler) => parley.addEventListener(type, ({ detail }) => handler(detail));
    on("chats", ({ items }) => this.#onChats(items));
    on("message", (message) => this.#onMessage(message));
    on("activity", (message) => this.#onActivity(message));
    on("pending", ({ chatId, clientMessageId }) => this.#clearFailure(clientMessageId, chatId));
    on("sent", ({ clientMessageId, message }) => this.#clearFailure(clientMessageId, message.chat_id));
    on("discarded", ({ chatId, clientMessageId }) => this.#clearFailure(clientMessageId, chatId));
    on("failed", ({ clientMessageId, chatId, error }) => {
      this.#failures.set(clientMessageId, error);
      this.#emitChange(chatId);
    });
    on("watermark", ({ chatId, sequence }) => this.#onWatermark(chatId, sequence));
    on("left", ({ chatId }) => this.#onLeft(chatId));
    on("chat_created", (frame) => this.#onCreated(frame));
    on("membership_changed", (change) => this.#onMembershipChanged(change));
    people.addEventListener("change", () => this.#emitChange());
    tabs.addEventListener("message", ({ data }) => this.#onTabMessage(data));
  }

  get(chatId) {
    return this.#chats.get(chatId);
  }

  /** The most recently active first. */
  list() {
    const activeAt = (chat) => chat.last_message?.created_at ?? chat.created_at;
    return [...this.#chats.values()].sort((one, other) => (activeAt(one) < activeAt(other) ? 1 : -1));
  }

  get unreadChats() {
    return this.list().filter((chat) => this.unread(chat) && !this.isMuted(chat)).length;
  }

  unread(chat) {
    return Math.max(0, chat.last_sequence - chat.read);
  }

  isMuted(chat) {
    return chat.muted_until !== null && new Date(chat.muted_until) > new Date();
  }

  title(chat) {
    if (chat.type === "group") return chat.name;
    const partner = this.#people.partner(chat.chat_id);
    return (partner && this.#people.name(partner)) || "…";
  }

  /** The id that determines the avatar's colour: the other person's, or the group's. */
  avatarId(chat) {
    return (chat.type === "direct" && this.#people.partner(chat.chat_id)) || chat.chat_id;
  }

  /** The chat's queued and failed messages, oldest first: `{clientMessageId, content, queuedAt, state, error}`. */
  pending(chatId) {
    return this.#parley.outbox
      .list()
      .filter((entry) => entry.chatId === chatId)
      .map((entry) => ({
        ...entry,
        error: entry.state === "failed" ? this.#failures.get(entry.clientMessageId) : null,
      }));
  }

  // Reading

  /** Load the newest messages and follow the chat from there. Rejects if it cannot be read. */
  async open(chatId) {
    const chat = this.#chats.get(chatId);
    if (!chat || chat.messages) return;
    const page = await this.#session.request("GET", `/api/chats/${chatId}/messages?limit=${HISTORY_LIMIT}`);
    if (chat.messages) return;
    chat.messages = page.messages.reverse();
    chat.hasOlder = page.has_more;
    this.#parley.follow(chatId, chat.messages.at(-1)?.sequence ?? 0);
    this.#emitChange(chatId);
  }

  async loadOlder(chatId) {
    const chat = this.#chats.get(chatId);
    if (!chat?.hasOlder || chat.isLoadingOlder) return;
    chat.isLoadingOlder = true;
    try {
      const before = chat.messages[0].sequence;
      const query = `before_sequence=${before}&limit=${HISTORY_LIMIT}`;
      const page = await this.#session.request("GET", `/api/chats/${chatId}/messages?${query}`);
      chat.messages.unshift(...page.messages.reverse());
      chat.hasOlder = page.has_more;
    } finally {
      chat.isLoadingOlder = false;
    }
    this.#emitChange(chatId);
  }

  /**
   * The chat is on the screen. Acknowledges over the socket, which is cheaper for the server, unless an own message
   * is not yet marked as delivered: then the response of `confirm` is needed.
   */
  markRead(chatId) {
    const chat = this.#chats.get(chatId);
    const last = chat?.messages?.at(-1)?.sequence ?? 0;
    if (!last) return;
    const me = this.#session.user?.user_id;
    const needsConfirm = chat.messages.some((each) => each.sequence > chat.delivered && each.sender_id === me);
    if (needsConfirm && !chat.isConfirming) this.#confirm(chat, last);
    else if (last > chat.read) this.#parley.acknowledge(chatId, last);
    if (last > chat.read) {
      chat.read = last;
      this.#tabs.postMessage({ chatId, read: last });
      this.#emitChange(chatId);
    }
  }

  /** One request at a time: the next `markRead` covers later messages. */
  async #confirm(chat, sequence) {
    chat.isConfirming = true;
    await this.#parley.confirm(chat.chat_id, sequence).catch(() => {});
    chat.isConfirming = false;
    if (chat.delivered >= sequence) this.#emitChange(chat.chat_id);
  }

  async members(chatId) {
    const members = await this.#parley.listAll(`/api/chats/${chatId}/members`);
    this.#people.addNames(members);
    const chat = this.#chats.get(chatId);
    if (chat) chat.memberCount = members.length;
    return members;
  }

  // Changing

  async create(draft, key) {
    const chat = await this.#session.request("POST", "/api/chats", draft, { "Idempotency-Key": key });
    if (!this.#chats.has(chat.chat_id)) {
      this.#put({ ...NEW_CHAT, ...chat });
      this.#emitChange(chat.chat_id);
    }
    return chat.chat_id;
  }

  async rename(chatId, name) {
    this.#put(await this.#session.request("PATCH", `/api/chats/${chatId}`, { name }));
    this.#tabs.postMessage({ refresh: true });
    this.#emitChange(chatId);
  }

  async mute(chatId, until) {
    const mute = await this.#session.request("PUT", `/api/chats/${chatId}/mute`, { muted_until: until });
    this.#chats.get(chatId).muted_until = mute.muted_until;
    this.#tabs.postMessage({ refresh: true });
    this.#emitChange(chatId);
  }

  async leave(chatId) {
    await this.#session.request("DELETE", `/api/chats/${chatId}/members/${this.#session.user.user_id}`);
    this.#onLeft(chatId);
  }

  addMember(chatId, userId) {
    return this.#session.request("POST", `/api/chats/${chatId}/members`, { user_id: userId, action: "add" });
  }

  removeMember(chatId, userId) {
    return this.#session.request("DELETE", `/api/chats/${chatId}/members/${userId}`);
  }

  changeRole(chatId, userId, role) {
    return this.#session.request("PATCH", `/api/chats/${chatId}/members/${userId}`, { role });
  }

  lookUp(phoneNumber) {
    return this.#session.request("POST", "/api/users/lookup", { phone_number: phoneNumber });
  }

  // Events of the protocol and of other tabs

  #onChats(items) {
    this.isLoaded = true;
    const present = new Set(items.map((item) => item.chat_id));
    for (const item of items) {
      const chat = this.#put(item);
      // A lost connection may have lost an acknowledgement.
      if (item.last_acked_sequence < chat.read) this.#parley.acknowledge(item.chat_id, chat.read);
    }
    // The inbox may lag behind a new chat. For followed chats, parley.js finds out whether they are gone.
    const isGone = (chat) => !present.has(chat.chat_id) && !chat.messages && Date.now() - chat.addedAt > INBOX_LAG_MS;
    for (const chat of this.list().filter(isGone)) this.#chats.delete(chat.chat_id);
    this.#emitChange();
    for (const id of this.#chats.keys()) this.#emitChange(id);
  }

  #put(item) {
    const chat = this.#chats.get(item.chat_id) ?? {
      read: 0,
      delivered: 0,
      messages: null,
      hasOlder: false,
      addedAt: Date.now(),
    };
    const latest = Math.max(chat.last_sequence ?? 0, item.last_sequence);
    const newer = chat.last_message && chat.last_message.sequence > (item.last_message?.sequence ?? 0);
    const last = newer ? chat.last_message : (item.last_message ?? chat.last_message ?? null);
    Object.assign(chat, item, { last_sequence: latest, last_message: last });
    chat.read = Math.max(chat.read, item.last_acked_sequence ?? 0);
    chat.delivered = Math.max(chat.delivered, item.last_acked_sequence ?? 0);
    this.#chats.set(item.chat_id, chat);
    return chat;
  }

  #onMessage(message) {
    const chat = this.#chats.get(message.chat_id);
    if (!chat?.messages) return;
    chat.messages.push(message);
    this.#emitChange(message.chat_id, message);
  }

  #onActivity(message) {
    const chat = this.#chats.get(message.chat_id);
    if (!chat) {
      this.#load(message.chat_id).then(() => this.#chats.has(message.chat_id) && this.#onActivity(message));
      return;
    }
    if (message.sequence < (chat.last_message?.sequence ?? 0)) return;
    chat.last_sequence = Math.max(chat.last_sequence, message.sequence);
    chat.last_message = message;
    // An own message counts as read, with everything before it.
    if (message.sender_id === this.#session.user?.user_id) chat.read = Math.max(chat.read, message.sequence);
    this.#emitChange(message.chat_id);
  }

  #onWatermark(chatId, sequence) {
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    chat.delivered = Math.max(chat.delivered, sequence);
    chat.read = Math.max(chat.read, sequence);
    this.#tabs.postMessage({ chatId, read: chat.read, delivered: chat.delivered });
    this.#emitChange(chatId);
  }

  #clearFailure(clientMessageId, chatId) {
    this.#failures.delete(clientMessageId);
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
    if (!this.#loading.has(chatId)) {
      this.#loading.set(chatId, this.#fetch(chatId).finally(() => this.#loading.delete(chatId)));
    }
    return this.#loading.get(chatId);
  }

  async #fetch(chatId) {
    try {
      const chat = await this.#session.request("GET", `/api/chats/${chatId}`);
      this.#put(this.#chats.has(chatId) ? chat : { ...NEW_CHAT, ...chat });
      this.#emitChange(chatId);
    } catch {
      // The next read of the inbox, after a reconnect, corrects it.
    }
  }

  #onMembershipChanged({ chat_id: chatId, user_id: userId, change_type: change }) {
    const isMe = userId === this.#session.user?.user_id;
    if (isMe && change === "removed") this.#onLeft(chatId);
    else if (isMe) this.#load(chatId);
    this.dispatchEvent(new CustomEvent("members", { detail: chatId }));
  }

  #onTabMessage({ chatId, read = 0, delivered = 0, refresh = false }) {
    if (refresh) this.#parley.refresh();
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    chat.read = Math.max(chat.read, read);
    chat.delivered = Math.max(chat.delivered, delivered);
    this.#emitChange(chatId);
  }

  #emitChange(chatId, message = null) {
    if (chatId) this.dispatchEvent(new CustomEvent("chat", { detail: { chatId, message } }));
    this.dispatchEvent(new Event("list"));
  }
}
