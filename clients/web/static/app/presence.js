/** Who types, who is online, and whose presence is watched. */

import { joinNames, lastSeen } from "./format.js";

const MAX_NAMED = 3;
const MAX_WATCHED_CHATS = 30;

/** "typing…", "Ada and Ben are typing…"; empty if nobody does. */
export function typingText(chat, { marks, people }) {
  const names = marks.typing(chat.chat_id).map((userId) => people.name(userId) || "Somebody");
  if (!names.length) return "";
  if (chat.type === "direct") return "typing…";
  if (names.length > MAX_NAMED) return "Several people are typing…";
  return `${joinNames(names)} ${names.length > 1 ? "are" : "is"} typing…`;
}

/** "online", "last seen at 10:06", "5 members, 2 online". */
export function presenceText(chat, { marks, partner }) {
  if (chat.type === "direct") {
    const { status, last_seen: seen } = marks.presence(partner) ?? {};
    if (status === "online") return "online";
    return seen ? lastSeen(seen) : "Direct chat";
  }
  if (!chat.members) return "Group";
  const online = [...chat.members.keys()].filter((userId) => marks.presence(userId)?.status === "online").length;
  const count = chat.members.size;
  return `${count} ${count === 1 ? "member" : "members"}${online ? `, ${online} online` : ""}`;
}

/** Watch the other person of the direct chats among the topmost, and of the open one; no longer those of the others. */
export function watchPartners({ chats, parley, open }) {
  for (const [place, chat] of chats.list().entries()) {
    if (chat.type !== "direct") continue;
    const isWatched = place < MAX_WATCHED_CHATS || chat.chat_id === open;
    const partner = isWatched && chats.partner(chat);
    if (partner || !isWatched) parley.watchPresence(chat.chat_id, partner ? [partner] : []);
  }
}
