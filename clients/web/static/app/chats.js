/**
 * The chats of this page: what the server told, in the shape that the views show.
 *
 * Emits `list` when any line of the list may have changed, `chat` (`{chatId, message}`) for one of them, `members` (its
 * id) when people came or went, and `left` (the chat) when it is no longer the user's.
 */

const HISTORY_PAGE = 50;
const LISTED_WITHIN = 60_000;
const NEW = { role: "member", muted_until: null, last_sequence: 0, last_acked_sequence: 0, last_message: null };

export class Chats extends EventTarget {
  #parley;
  #session;
  #people;
  #tabs;
  #chats = new Map();
  #failures = new Map();
  #meeting = new Map();

  constructor({ parley, people, tabs }) {
    super();
    this.#parley = parley;
    this.#session = parley.session;
    this.#people = people;
    this.#tabs = tabs;
    this.isListed = false;
    const on = (type, handle) => parley.addEventListener(type, ({ detail }) => handle(detail));
    on("chats", ({ items }) => this.#listed(items));
    on("message", (message) => this.#shown(message));
    on("activity", (message) => this.#heard(message));
    on("pending", ({ chatId, clientMessageId }) => this.#unfail(clientMessageId, chatId));
    on("sent", ({ clientMessageId, message }) => this.#unfail(clientMessageId, message.chat_id));
    on("discarded", ({ chatId, clientMessageId }) => this.#unfail(clientMessageId, chatId));
    on("failed", ({ clientMessageId, chatId, error }) => {
      this.#failures.set(clientMessageId, error);
      this.#changed(chatId);
    });
    on("watermark", ({ chatId, sequence }) => this.#confirmed(chatId, sequence));
    on("left", ({ chatId }) => this.#left(chatId));
    on("chat_created", (frame) => this.#created(frame));
    on("membership_changed", (change) => this.#membershipChanged(change));
    people.addEventListener("change", () => this.#changed());
    tabs.addEventListener("message", ({ data }) => this.#otherTab(data));
  }

  get(chatId) {
    return this.#chats.get(chatId);
  }

  /** The liveliest first. */
  list() {
    const moment = (chat) => chat.last_message?.created_at ?? chat.created_at;
    return [...this.#chats.values()].sort((one, other) => (moment(one) < moment(other) ? 1 : -1));
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

  /** What the colour of the chat's picture hangs on: the person, or the group. */
  face(chat) {
    return (chat.type === "direct" && this.#people.partner(chat.chat_id)) || chat.chat_id;
  }

  /** What is on its way into the chat: `{clientMessageId, content, queuedAt, error}`, in the order it was written. */
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

  /** Load the newest messages and follow the chat from there. Rejects where it cannot be read. */
  async open(chatId) {
    const chat = this.#chats.get(chatId);
    if (!chat || chat.messages) return;
    const page = await this.#session.request("GET", `/api/chats/${chatId}/messages?limit=${HISTORY_PAGE}`);
    if (chat.messages) return;
    chat.messages = page.messages.reverse();
    chat.hasOlder = page.has_more;
    this.#parley.follow(chatId, chat.messages.at(-1)?.sequence ?? 0);
    this.#changed(chatId);
  }

  async loadOlder(chatId) {
    const chat = this.#chats.get(chatId);
    if (!chat?.hasOlder || chat.isLoadingOlder) return;
    chat.isLoadingOlder = true;
    try {
      const before = chat.messages[0].sequence;
      const query = `before_sequence=${before}&limit=${HISTORY_PAGE}`;
      const page = await this.#session.request("GET", `/api/chats/${chatId}/messages?${query}`);
      chat.messages.unshift(...page.messages.reverse());
      chat.hasOlder = page.has_more;
    } finally {
      chat.isLoadingOlder = false;
    }
    this.#changed(chatId);
  }

  /**
   * The chat is on the screen. Where own messages wait to be told that they arrived, the server is asked to confirm;
   * everything else goes by the socket, which costs the server less.
   */
  markRead(chatId) {
    const chat = this.#chats.get(chatId);
    const last = chat?.messages?.at(-1)?.sequence ?? 0;
    if (!last) return;
    const mine = this.#session.user?.user_id;
    const waits = chat.messages.some((message) => message.sequence > chat.delivered && message.sender_id === mine);
    if (waits && !chat.isConfirming) this.#confirm(chat, last);
    else if (last > chat.read) this.#parley.acknowledge(chatId, last);
    if (last > chat.read) {
      chat.read = last;
      this.#tabs.postMessage({ chatId, read: last });
      this.#changed(chatId);
    }
  }

  /** One question at a time: what is written meanwhile is asked about by the next one. */
  async #confirm(chat, sequence) {
    chat.isConfirming = true;
    await this.#parley.confirm(chat.chat_id, sequence).catch(() => {});
    chat.isConfirming = false;
    if (chat.delivered >= sequence) this.#changed(chat.chat_id);
  }

  async members(chatId) {
    const members = await this.#parley.listAll(`/api/chats/${chatId}/members`);
    this.#people.learn(members);
    const chat = this.#chats.get(chatId);
    if (chat) chat.memberCount = members.length;
    return members;
  }

  // Changing

  async create({ type, name, members }, key) {
    const body = type === "group" ? { type, name, members } : { type, members };
    const chat = await this.#session.request("POST", "/api/chats", body, { "Idempotency-Key": key });
    const role = type === "group" ? "owner" : "member";
    if (!this.#chats.has(chat.chat_id)) {
      this.#put({ ...NEW, ...chat, role });
      this.#changed(chat.chat_id);
    }
    return chat.chat_id;
  }

  async rename(chatId, name) {
    this.#put(await this.#session.request("PATCH", `/api/chats/${chatId}`, { name }));
    this.#tabs.postMessage({ refresh: true });
    this.#changed(chatId);
  }

  async mute(chatId, until) {
    const answer = await this.#session.request("PUT", `/api/chats/${chatId}/mute`, { muted_until: until });
    this.#chats.get(chatId).muted_until = answer.muted_until;
    this.#tabs.postMessage({ refresh: true });
    this.#changed(chatId);
  }

  async leave(chatId) {
    await this.#session.request("DELETE", `/api/chats/${chatId}/members/${this.#session.user.user_id}`);
    this.#left(chatId);
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

  // What the server tells

  #listed(items) {
    this.isListed = true;
    const present = new Set(items.map((item) => item.chat_id));
    for (const item of items) {
      const chat = this.#put(item);
      // A socket that broke may have taken an acknowledgement with it.
      if (item.last_acked_sequence < chat.read) this.#parley.acknowledge(item.chat_id, chat.read);
    }
    // The list may lag behind what was just created. Of a followed chat, the protocol finds out whether it is gone.
    const isGone = (chat) => !present.has(chat.chat_id) && !chat.messages && Date.now() - chat.metAt > LISTED_WITHIN;
    for (const chat of this.list().filter(isGone)) this.#chats.delete(chat.chat_id);
    this.#changed();
    for (const id of this.#chats.keys()) this.#changed(id);
  }

  #put(item) {
    const chat = this.#chats.get(item.chat_id) ?? {
      read: 0,
      delivered: 0,
      messages: null,
      hasOlder: false,
      metAt: Date.now(),
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

  #shown(message) {
    const chat = this.#chats.get(message.chat_id);
    if (!chat?.messages) return;
    chat.messages.push(message);
    this.#changed(message.chat_id, message);
  }

  #heard(message) {
    const chat = this.#chats.get(message.chat_id);
    if (!chat) {
      this.#meet(message.chat_id).then(() => this.#chats.has(message.chat_id) && this.#heard(message));
      return;
    }
    if (message.sequence < (chat.last_message?.sequence ?? 0)) return;
    chat.last_sequence = Math.max(chat.last_sequence, message.sequence);
    chat.last_message = message;
    // Who writes has read what is above.
    if (message.sender_id === this.#session.user?.user_id) chat.read = Math.max(chat.read, message.sequence);
    this.#changed(message.chat_id);
  }

  #confirmed(chatId, sequence) {
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    chat.delivered = Math.max(chat.delivered, sequence);
    chat.read = Math.max(chat.read, sequence);
    this.#tabs.postMessage({ chatId, read: chat.read, delivered: chat.delivered });
    this.#changed(chatId);
  }

  #unfail(clientMessageId, chatId) {
    this.#failures.delete(clientMessageId);
    this.#changed(chatId);
  }

  #left(chatId) {
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    this.#chats.delete(chatId);
    this.#parley.unfollow(chatId);
    this.dispatchEvent(new CustomEvent("left", { detail: chat }));
    this.#changed();
  }

  #created({ chat_id: chatId, chat_type: type, created_by: creator, initial_members: members, ...frame }) {
    if (this.#chats.has(chatId)) return;
    const me = this.#session.user?.user_id;
    if (type === "direct") this.#people.introduce(chatId, members);
    const role = type === "group" && creator === me ? "owner" : "member";
    this.#put({ ...NEW, chat_id: chatId, type, name: frame.name, role, created_at: new Date().toISOString() });
    this.#changed();
  }

  /**
   * A chat that no list has told of yet, or in which something about oneself has changed.
   * However many ask at once, the server is asked once.
   */
  #meet(chatId) {
    if (!this.#meeting.has(chatId)) {
      this.#meeting.set(chatId, this.#ask(chatId).finally(() => this.#meeting.delete(chatId)));
    }
    return this.#meeting.get(chatId);
  }

  /** The answer does not tell one's own role: what is known of it stays. */
  async #ask(chatId) {
    try {
      const chat = await this.#session.request("GET", `/api/chats/${chatId}`);
      this.#put(this.#chats.has(chatId) ? chat : { ...NEW, ...chat });
      this.#changed(chatId);
    } catch {
      // Gone again, or not to be reached: the list that follows a connection tells.
    }
  }

  #membershipChanged({ chat_id: chatId, user_id: userId, change_type: change, role }) {
    const isMe = userId === this.#session.user?.user_id;
    if (isMe && change === "removed") this.#left(chatId);
    else if (isMe) this.#meet(chatId).then(() => this.#promoted(chatId, role));
    this.dispatchEvent(new CustomEvent("members", { detail: chatId }));
  }

  #promoted(chatId, role) {
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    chat.role = role;
    this.#changed(chatId);
  }

  #otherTab({ chatId, read = 0, delivered = 0, refresh = false }) {
    if (refresh) this.#parley.refresh();
    const chat = this.#chats.get(chatId);
    if (!chat) return;
    chat.read = Math.max(chat.read, read);
    chat.delivered = Math.max(chat.delivered, delivered);
    this.#changed(chatId);
  }

  #changed(chatId, message = null) {
    if (chatId) this.dispatchEvent(new CustomEvent("chat", { detail: { chatId, message } }));
    this.dispatchEvent(new Event("list"));
  }
}
