/** Drafts that the server has not stored yet. */

const ENTRY_KINDS = {
  send_message: "message",
  edit_message: "edit",
  delete_message: "deletion",
  react: "reaction",
  pin: "pin",
};

/**
 * Each draft has its own key in `storage`, so tabs never overwrite each other's. If two tabs send the same draft, the
 * server stores it once, because its id is the same. A draft: `{clientMessageId, chatId, type, fields, queuedAt}`, with
 * `state` (`sending`, `failed`) and `attempts`.
 */
export class Outbox {
  #storage;
  #prefix;
  #drafts = new Map();

  constructor({ storage = null, prefix = "parley.outbox." } = {}) {
    this.#storage = storage;
    this.#prefix = prefix;
    const keys = Object.keys(storage ?? {}).filter((name) => name.startsWith(prefix));
    const stored = keys.map((key) => upToDate(JSON.parse(storage.getItem(key))));
    stored.sort((one, other) => one.queuedAt - other.queuedAt);
    for (const draft of stored) this.#drafts.set(draft.clientMessageId, { ...draft, attempts: 0, state: "sending" });
  }

  /** The frame that sends a draft. */
  static frame({ clientMessageId, chatId, type, fields }) {
    return { type, client_message_id: clientMessageId, chat_id: chatId, ...given(fields) };
  }

  /** The own entry that an `ack` confirms: it is not pushed to the connection that sent it. */
  static entry({ type, fields }, ack, userId) {
    const { client_message_id, chat_id, message_id, sequence, created_at } = ack;
    const stored = { client_message_id, chat_id, message_id, sequence, created_at };
    const text = { content: "", content_type: "text/plain" };
    return { ...stored, kind: ENTRY_KINDS[type], sender_id: userId, ...text, ...given(fields) };
  }

  get(clientMessageId) {
    return this.#drafts.get(clientMessageId);
  }

  /** Oldest first. */
  list() {
    return [...this.#drafts.values()];
  }

  /** Keep a draft; returns it with its state. */
  add(draft) {
    try {
      this.#storage?.setItem(this.#prefix + draft.clientMessageId, JSON.stringify(draft));
    } catch {
      // A storage that is full: the draft is sent, and lost if the page is closed before that.
    }
    this.#drafts.set(draft.clientMessageId, { ...draft, attempts: 0, state: "sending" });
    return this.#drafts.get(draft.clientMessageId);
  }

  remove(clientMessageId) {
    this.#drafts.delete(clientMessageId);
    this.#storage?.removeItem(this.#prefix + clientMessageId);
  }
}

/** Earlier versions stored messages only, with their text beside the id. */
function upToDate({ content, type = "send_message", fields = { content }, ...draft }) {
  return { ...draft, type, fields };
}

function given(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value?.length !== 0));
}
