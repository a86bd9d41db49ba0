/** A cache of display names by user id, and of the other member of each direct chat. Kept in `storage`. */

const KEY = "parley.people";
/** The drafts that wait to be sent need room in the same storage. */
const MAX_STORED = 3_000;

export class People extends EventTarget {
  #session;
  #storage;
  #names;
  #partners;
  #requested = new Set();
  #queue = Promise.resolve();

  constructor({ session, storage }) {
    super();
    this.#session = session;
    this.#storage = storage;
    const stored = JSON.parse(storage.getItem(KEY) ?? "{}");
    this.#names = new Map(Object.entries(stored.names ?? {}));
    this.#partners = new Map(Object.entries(stored.partners ?? {}));
  }

  /** The name; empty while it is being fetched. */
  name(userId) {
    if (!this.#names.has(userId)) {
      this.#fetchOnce(userId, async () => this.addNames([await this.#session.request("GET", `/api/users/${userId}`)]));
    }
    return this.#names.get(userId) ?? "";
  }

  /** The user id of the other member of a direct chat; undefined while it is being fetched. */
  partner(chatId) {
    if (!this.#partners.has(chatId)) {
      this.#fetchOnce(chatId, async () => {
        const { items: members } = await this.#session.request("GET", `/api/chats/${chatId}/members`);
        const userIds = members.map((member) => member.user_id);
        this.addDirectChat(chatId, userIds);
        this.addNames(members);
      });
    }
    return this.#partners.get(chatId);
  }

  addNames(users) {
    let changed = false;
    for (const { user_id: id, display_name: name } of users) {
      changed ||= this.#names.get(id) !== name;
      this.#names.delete(id); // the map is in the order in which names were learned
      this.#names.set(id, name);
    }
    if (changed) this.#save();
  }

  addDirectChat(chatId, userIds) {
    const other = userIds.find((userId) => userId !== this.#session.user?.user_id);
    if (!other || this.#partners.has(chatId)) return;
    this.#partners.set(chatId, other);
    this.#save();
  }

  clear() {
    this.#storage.removeItem(KEY);
  }

  /** Fetch one after the other: a long inbox must not cause a burst of requests. */
  #fetchOnce(id, fetch) {
    if (this.#requested.has(id)) return;
    this.#requested.add(id);
    this.#queue = this.#queue.then(fetch).catch(() => this.#requested.delete(id));
  }

  #save() {
    const newest = (map) => Object.fromEntries([...map].slice(-MAX_STORED));
    const stored = { names: newest(this.#names), partners: newest(this.#partners) };
    try {
      this.#storage.setItem(KEY, JSON.stringify(stored));
    } catch {
      // A storage that is full: names are fetched again after a reload.
    }
    this.dispatchEvent(new Event("change"));
  }
}
