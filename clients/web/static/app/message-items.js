/** The items of a conversation, top to bottom: `{key, signature, build}`. */

import { kindOf } from "../parley.js";
import { errorText, h } from "./dom.js";
import { dayLabel, dayOf } from "./format.js";
import { plainText } from "./markup.js";
import { messageItem } from "./message-view.js";
import { noticeText } from "./notices.js";
import { tickOf } from "./ticks.js";

const BLOCK_MS = 5 * 60_000; // messages of one sender within this time form a block
const QUOTE_LENGTH = 160;

/** A line that is no message. */
export function line(kind, text, id = "") {
  return { key: `${kind} ${id}`, signature: text, build: () => h(`li.notice.${kind}`, {}, h("span", {}, text)) };
}

/**
 * `view` is what is shown: `{chat, log, pending, changing, receipts, unreadFrom, me, name, find}`, `changing` are the
 * sequences of messages with a change that waits, `find(sequence)` returns a quoted message or undefined; `handlersOf(message)` are those of `messageItem`.
 */
export function conversationItems(view, handlersOf) {
  const { log, me, unreadFrom } = view;
  const items = [];
  const all = [...log.timeline, ...view.pending.map((draft) => pendingMessage(draft, me))];
  const beginning = all.length ? "This is where the chat begins." : "Nothing here yet. Say hello!";
  if (!log.hasOlder) items.push(line("beginning", beginning));
  let isDivided = !unreadFrom;
  all.forEach((entry, index) => {
    const previous = all[index - 1];
    if (!previous || dayOf(previous.created_at) !== dayOf(entry.created_at))
      items.push(line("day", dayLabel(entry.created_at), entry.created_at));
    const isDivider = !isDivided && entry.sequence >= unreadFrom && isFromOther(entry, me);
    if (isDivider) items.push(line("unread", "New messages"));
    isDivided ||= isDivider;
    items.push(
      kindOf(entry) === "notice"
        ? line("event", noticeText(entry, view), entry.sequence)
        : messageItemOf(view, entry, { previous: isDivider ? null : previous, next: all[index + 1] }, handlersOf),
    );
  });
  return items;
}

const isFromOther = (entry, me) => kindOf(entry) === "message" && entry.sender_id !== me;

function pendingMessage({ clientMessageId, fields, queuedAt, error, state }, me) {
  return {
    ...fields,
    client_message_id: clientMessageId,
    sender_id: me,
    created_at: new Date(queuedAt).toISOString(),
    pendingState: state,
    error,
  };
}

function messageItemOf(view, message, { previous, next }, handlersOf) {
  const { chat, me, name } = view;
  const mine = message.sender_id === me;
  const isDeleted = Boolean(message.deleted_at);
  const props = {
    me,
    mine,
    sequence: message.sequence,
    sender: message.sender_id,
    name: chat.type === "group" && !mine ? name(message.sender_id) : "",
    text: message.content,
    at: message.created_at,
    edited: isDeleted ? null : message.edited_at,
    deleted: isDeleted,
    hasMenu: Boolean(message.sequence) && !isDeleted,
    state: stateOf(view, message),
    error: message.error ? errorText(message.error) : "",
    first: !isSameBlock(previous, message),
    last: !isSameBlock(message, next),
    mentions: (message.mentions ?? []).map((userId) => [userId, name(userId)]),
    mentionsMe: !mine && Boolean(message.mentions?.includes(me)),
    pinned: !isDeleted && view.log.pins.includes(message.sequence),
    quote: message.reply_to && !isDeleted ? quoteOf(view, message.reply_to) : null,
    reactions: (message.reactions ?? []).map((reaction) => reactionOf(view, message, reaction)),
  };
  const key = mine ? `mine ${message.client_message_id}` : `message ${message.sequence}`;
  return { key, signature: JSON.stringify(props), build: () => messageItem(props, handlersOf(message)) };
}

/** Of one's own messages how far they have come, and of all whether a change waits. */
function stateOf(view, message) {
  if (message.deleted_at) return "";
  if (view.changing.has(message.sequence)) return "sending";
  if (message.sender_id !== view.me) return "";
  return message.pendingState ?? tickOf(message, { ...view, members: view.chat.members });
}

function quoteOf({ find, me, name }, sequence) {
  const quoted = find(sequence);
  if (!quoted) return { sequence, name: "…", text: "" };
  const text = quoted.deleted_at ? "Deleted message" : plainText(quoted.content).slice(0, QUOTE_LENGTH);
  return { sequence, sender: quoted.sender_id, name: quoted.sender_id === me ? "You" : name(quoted.sender_id), text };
}

/** The list of the server is the first twenty: one's own reaction may be behind it. */
function reactionOf({ log, me, name }, { sequence }, { emoji, count, user_ids: userIds }) {
  const mine = log.hasReacted(sequence, emoji, me);
  const others = userIds.filter((userId) => userId !== me).map((userId) => name(userId) || "…");
  const names = mine ? ["You", ...others] : others;
  if (count > names.length) names.push(`${count - names.length} more`);
  return { emoji, count, names, mine };
}

function isSameBlock(one, other) {
  if (!one || !other || one.sender_id !== other.sender_id) return false;
  if (kindOf(one) !== "message" || kindOf(other) !== "message") return false;
  return (
    dayOf(one.created_at) === dayOf(other.created_at) &&
    new Date(other.created_at) - new Date(one.created_at) < BLOCK_MS
  );
}
