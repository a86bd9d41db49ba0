/** What the ticks of an own message say. */

/** The members who count for a message: everybody else who was there when it was written. */
function audience(message, { members, me }) {
  return [...(members ?? new Map()).values()].filter(
    ({ user_id: userId, joined_at: joinedAt }) => userId !== me && !(joinedAt > message.created_at),
  );
}

/** `read` when everybody else has read it, `delivered` when everybody has got it, else `sent`. */
export function tickOf(message, { members, receipts, me }) {
  const marks = audience(message, { members, me }).map(({ user_id: userId }) => receipts.get(userId));
  if (!marks.length) return "sent";
  if (marks.every((mark) => mark?.read >= message.sequence)) return "read";
  return marks.every((mark) => mark?.delivered >= message.sequence) ? "delivered" : "sent";
}

/** Who has read a message, and whom it has only reached: `{read, delivered}`, lists of user ids. */
export function seenBy(message, { members, receipts, me }) {
  const ids = audience(message, { members, me }).map(({ user_id: userId }) => userId);
  const read = ids.filter((userId) => receipts.get(userId)?.read >= message.sequence);
  const delivered = ids.filter((id) => !read.includes(id) && receipts.get(id)?.delivered >= message.sequence);
  return { read, delivered };
}
