/** One chat as its entries leave it: the fold of messages, changes and notices. No network, no clock. */

const SHOWN = new Set(["message", "notice"]);
const CHANGES = new Set(["edit", "deletion", "reaction", "pin"]);
const MAX_KEPT = 10_000;
const MAX_PINS = 50;
const MAX_LISTED_REACTORS = 20;

export const kindOf = (entry) => entry.kind ?? "message";
const lastChange = (entry) => entry.last_change ?? 0;
const bySequence = (one, other) => one.sequence - other.sequence;

/**
 * The messages and notices of a chat as they stand, and its pins.
 *
 * A change applies where its sequence is greater than the `last_change` of what it changes, so that a page may hold
 * older or newer states than the entries that arrive beside it. While a read is in progress, every applied change is
 * kept and applied again to what the read returns.
 *
 * A message lists the first `maxListed` of those who reacted, as the server does. Who the others are is known from the
 * reactions of the timeline: they come after the message, so a message of the timeline has all of them there.
 */
export class ChatLog {
  #entries = new Map();
  #pinsChanged = 0;
  #reads = new Set();
  #kept = [];
  #maxListed;
  /** By message and emoji: each person's last reaction, `{sequence, isAdded}`. */
  #reacted = new Map();

  constructor({ maxListed = MAX_LISTED_REACTORS } = {}) {
    this.#maxListed = maxListed;
    this.first = 0;
    this.last = 0;
    /** Sequences, newest pin first. */
    this.pins = [];
    /** Whether the pins were read. From then on the entries keep them. */
    this.hasPins = false;
    /** How many entries had a kind that this client does not know. */
    this.skipped = 0;
    /** Whether history has entries before `first`. */
    this.hasOlder = false;
  }

  /** What a person sees, oldest first: messages, deleted ones included, and notices. */
  get timeline() {
    return [...this.#entries.values()].filter((entry) => entry.sequence >= this.first).sort(bySequence);
  }

  /** A message or notice, also one that only a quote or a pin has loaded. */
  find(sequence) {
    return this.#entries.get(sequence);
  }

  /** Whether this person has this reaction to a message of the timeline, listed or not. */
  hasReacted(sequence, emoji, userId) {
    const shown = this.#entries.get(sequence)?.reactions?.find((each) => each.emoji === emoji);
    if (!shown) return false;
    const isCut = shown.count > shown.user_ids.length;
    return shown.user_ids.includes(userId) || (isCut && this.#known(sequence, emoji).includes(userId));
  }

  /** Apply the chat's next entry. Unknown kinds are counted in `skipped`. */
  apply(entry) {
    const kind = kindOf(entry);
    if (CHANGES.has(kind) && this.#reads.size) this.#keep(entry);
    this.#extend([entry]);
    if (SHOWN.has(kind)) this.#put(entry);
    else if (CHANGES.has(kind)) this.#change(entry);
    else this.skipped += 1;
  }

  /** Call before a page, a message or the pins are requested. */
  beginRead() {
    const read = { since: this.last };
    this.#reads.add(read);
    return read;
  }

  /** Call where a read failed. */
  cancelRead(read) {
    this.#reads.delete(read);
    if (!this.#reads.size) this.#kept = [];
  }

  /** Add a page of history. False: too much has changed meanwhile, read it again. */
  endPage(read, entries) {
    if (this.#reads.has(read)) this.#extend(entries);
    return this.endRead(read, entries);
  }

  /** Add messages from outside the timeline. False: too much has changed meanwhile, read them again. */
  endRead(read, entries) {
    if (!this.#reads.has(read)) return false;
    for (const entry of entries) if (SHOWN.has(kindOf(entry))) this.#put(entry);
    const changes = entries.filter((entry) => CHANGES.has(kindOf(entry)));
    for (const change of [...changes, ...this.#kept].sort(bySequence)) this.#change(change);
    this.cancelRead(read);
    return true;
  }

  /** Replace the pins, newest first. False: too much has changed meanwhile, read them again. */
  endPins(read, messages) {
    if (!this.#reads.has(read)) return false;
    this.pins = messages.map(({ sequence }) => sequence);
    this.#pinsChanged = read.since;
    this.hasPins = true;
    return this.endRead(read, messages);
  }

  #keep(entry) {
    if (this.#kept.length < MAX_KEPT) return this.#kept.push(entry);
    this.#reads.clear();
    this.#kept = [];
  }

  #extend(entries) {
    if (!entries.length) return;
    const sequences = entries.map(({ sequence }) => sequence);
    this.last = Math.max(this.last, ...sequences);
    this.first = Math.min(this.first || this.last, ...sequences);
  }

  #put(entry) {
    const known = this.#entries.get(entry.sequence);
    if (!known || lastChange(entry) >= lastChange(known)) this.#entries.set(entry.sequence, entry);
  }

  #change(change) {
    if (kindOf(change) === "pin") return this.#pin(change);
    if (kindOf(change) === "reaction") this.#remember(change);
    const target = this.#entries.get(change.target);
    if (!target || change.sequence <= lastChange(target)) return;
    const known = this.#known(change.target, change.emoji);
    this.#entries.set(change.target, changed(target, change, { known, maxListed: this.#maxListed }));
  }

  /** Pages bring older reactions later. */
  #remember({ sequence, target, emoji, sender_id: userId, action }) {
    const place = `${target} ${emoji}`;
    if (!this.#reacted.has(place)) this.#reacted.set(place, new Map());
    const people = this.#reacted.get(place);
    const before = people.get(userId)?.sequence ?? 0;
    if (before < sequence) people.set(userId, { sequence, isAdded: action === "add" });
  }

  #known(sequence, emoji) {
    const people = this.#reacted.get(`${sequence} ${emoji}`) ?? new Map();
    return [...people].filter(([, { isAdded }]) => isAdded).map(([userId]) => userId);
  }

  #pin({ sequence, target, action }) {
    if (sequence <= this.#pinsChanged) return;
    this.#pinsChanged = sequence;
    const others = this.pins.filter((pinned) => pinned !== target);
    this.pins = (action === "add" ? [target, ...others] : others).slice(0, MAX_PINS);
  }
}

/** The message after an edit, a deletion or a reaction. `known` may name more than those who are listed. */
export function changed(message, change, { known = [], maxListed = MAX_LISTED_REACTORS } = {}) {
  const after = { ...message, last_change: change.sequence };
  switch (change.kind) {
    case "edit":
      Object.assign(after, { content: change.content, edited_at: change.created_at });
      set(after, "mentions", change.mentions);
      break;
    case "deletion":
      Object.assign(after, { content: "", deleted_at: change.created_at });
      for (const name of ["mentions", "attachments", "reactions"]) delete after[name];
      break;
    case "reaction":
      set(after, "reactions", react(message.reactions ?? [], change, known, maxListed));
  }
  return after;
}

function react(reactions, { emoji, sender_id: userId, action }, known, maxListed) {
  const byEmoji = new Map(reactions.map((reaction) => [reaction.emoji, reaction]));
  const { count, user_ids: userIds } = byEmoji.get(emoji) ?? { count: 0, user_ids: [] };
  const others = [...new Set([...known, ...userIds])].filter((id) => id !== userId);
  const isAdded = action === "add";
  const after = (isAdded ? [...others, userId] : others).sort().slice(0, maxListed);
  byEmoji.delete(emoji);
  if (count + (isAdded ? 1 : -1) > 0) byEmoji.set(emoji, { emoji, count: count + (isAdded ? 1 : -1), user_ids: after });
  return [...byEmoji.values()].sort((one, other) => compareCodePoints(one.emoji, other.emoji));
}

/** The server's order. `<` compares UTF-16 units, which puts U+FF01 behind U+1F44D. */
function compareCodePoints(one, other) {
  const [left, right] = [[...one], [...other]];
  const index = left.findIndex((character, at) => character !== right[at]);
  if (index === -1) return left.length - right.length;
  return left[index].codePointAt(0) - (right[index]?.codePointAt(0) ?? -1);
}

/** Absent means none. */
function set(entry, name, value) {
  if (value?.length) entry[name] = value;
  else delete entry[name];
}
