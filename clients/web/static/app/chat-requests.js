/** REST requests that create and change chats. `onChat` gets each chat that the server answers with. */
export class ChatRequests {
  #session;
  #onChat;

  constructor({ session, onChat }) {
    this.#session = session;
    this.#onChat = onChat;
  }

  create(draft, key) {
    return this.#forChat("POST", "/api/chats", draft, { "Idempotency-Key": key });
  }

  get(chatId) {
    return this.#forChat("GET", `/api/chats/${chatId}`);
  }

  rename(chatId, name) {
    return this.#forChat("PATCH", `/api/chats/${chatId}`, { name });
  }

  /** Returns until when it is muted. */
  async mute(chatId, until) {
    const mute = await this.#session.request("PUT", `/api/chats/${chatId}/mute`, { muted_until: until });
    return mute.muted_until;
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

  async #forChat(...request) {
    const chat = await this.#session.request(...request);
    this.#onChat(chat);
    return chat;
  }
}
