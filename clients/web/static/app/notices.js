/** The lines for notices: "Ada added Ben". */

import { joinNames } from "./format.js";

const ROLES = { owner: "the owner", admin: "an admin", member: "a member" };

/** `name(userId)` is a person's name; for the reader it is "You" at the start of a line and "you" elsewhere. */
export function noticeText({ sender_id: senderId, notice }, { name, me }) {
  const who = senderId === me ? "You" : name(senderId) || "Somebody";
  const others = (notice.user_ids ?? []).map((userId) => (userId === me ? "you" : name(userId) || "somebody"));
  const whom = joinNames(others);
  switch (notice.type) {
    case "chat_renamed":
      return `${who} renamed the group to “${notice.name}”`;
    case "chat_changed":
      return `${who} changed the settings of the group`;
    case "member_added":
      return `${who} added ${whom}`;
    case "member_removed":
      return `${who} removed ${whom}`;
    case "member_left":
      return `${who} left`;
    case "role_changed":
      return `${who} made ${others[0]} ${ROLES[notice.roles?.[0] ?? notice.role] ?? "a member"}`;
    default:
      return `${who} changed the group`;
  }
}
