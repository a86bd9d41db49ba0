/** Who is who: display names by user id, and the other person of each direct chat. Kept for the next page. */

const KEY = "parley.people";

export class People extends EventTarget {
  #session;
  #storage;
  #names;
  #partners;
  #asked = new Set();
  #queue = Promise.resolve();

  constructor({ session, storage }) {
    super();
    this.#session = session;
    this.#storage = storage;
    const kept = JSON.parse(storage.getItem(KEY) ?? "{}");
    this.#names = new Map(Object.entries(kept.names ?? {}));
    this.#partners = new Map(Object.entries(kept.partners ?? {}));
  }

  /** The name, or an empty text while it is being asked for. */
  name(userId) {
    if (!this.#names.has(userId)) {
      this.#once(userId, async () => this.learn([await this.#session.request("GET", `/api/users/${userId}`)]));
    }
    return this.#names.get(userId) ?? "";
  }

  /** The user id of the other person of a direct chat, or undefined while it is being asked for. */
  partner(chatId) {
    if (!this.#partners.has(chatId)) {
      this.#once(chatId, async () => {
        const page = await this.#session.request("GET", `/api/chats/${chatId}/members`);
        this.meet(chatId, page.items);
      });
    }
    return this.#partners.get(chatId);
  }

  learn(users) {
    let changed = false;
    for (const { user_id: id, display_name: name } of users) {
      changed ||= this.#names.get(id) !== name;
      this.#names.set(id, name);
    }
    if (changed) this.#changed();
  }

  /** The user ids of a direct chat's members are known. */
  introduce(chatId, userIds) {
    const other = userIds.find((userId) => userId !== this.#session.user?.user_id);
    if (!other || this.#partners.has(chatId)) return;
    this.#partners.set(chatId, other);
    this.#changed();
  }

  /** The members of a direct chat are known. */
  meet(chatId, members) {
    const other = members.find((member) => member.user_id !== this.#session.user?.user_id);
    if (other && this.#partners.get(chatId) !== other.user_id) {
      this.#partners.set(chatId, other.user_id);
      this.#changed();
    }
    this.learn(members);
  }

  forget() {
    this.#storage.removeItem(KEY);
  }

  /** One request after the other: an inbox of two hundred people is no burst. */
  #once(id, ask) {
    if (this.#asked.has(id)) return;
    this.#asked.add(id);
    this.#queue = this.#queue.then(ask).catch(() => this.#asked.delete(id));
  }

  #changed() {
    const kept = { names: Object.fromEntries(this.#names), partners: Object.fromEntries(this.#partners) };
    this.#storage.setItem(KEY, JSON.stringify(kept));
    this.dispatchEvent(new Event("change"));
  }
}
