/** Formatting of times, names and phone numbers. */

const DAY = 86_400_000;
const hours = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const longDay = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export const timeOfDay = (iso) => hours.format(new Date(iso));
export const fullTime = (iso) => full.format(new Date(iso));
export const dayOf = (iso) => new Date(iso).toDateString();

function daysAgo(iso, now) {
  return Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(iso).setHours(0, 0, 0, 0)) / DAY);
}

/** Today, Yesterday, or the date. */
export function dayLabel(iso, now = Date.now()) {
  const days = daysAgo(iso, now);
  if (days === 0) return "Today";
  return days === 1 ? "Yesterday" : longDay.format(new Date(iso));
}

/** The time today, the weekday this week, else the date. */
export function shortTime(iso, now = Date.now()) {
  const days = daysAgo(iso, now);
  if (days <= 0) return timeOfDay(iso);
  return days < 7 ? weekday.format(new Date(iso)) : date.format(new Date(iso));
}

/** One or two letters for an avatar. */
export function initials(name) {
  const words = name
    .trim()
    .split(/\s+/)
    .filter((word) => /^[\p{L}\p{N}]/u.test(word));
  if (!words.length) return [...name.trim()][0] ?? "?";
  const ends = words.length > 1 ? [words[0], words.at(-1)] : [words[0]];
  return ends.map((word) => [...word][0].toUpperCase()).join("");
}

/** Hash an id to one of twelve colours. */
export function hue(id) {
  let sum = 0;
  for (const character of id) sum = (sum * 31 + character.codePointAt(0)) >>> 0;
  return sum % 12;
}

/** Remove spaces, dots, dashes, slashes and brackets; replace a leading 00 by a plus. */
export function phoneNumber(text) {
  return text.replace(/[\s().\-/]/g, "").replace(/^00/, "+");
}

/** Names as a sentence has them: "Ada, Ben and Emi". */
export function joinNames(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** When somebody was last seen: "last seen at 10:06", "last seen yesterday at 10:06", "last seen 3 Jan". */
export function lastSeen(iso, now = Date.now()) {
  const days = daysAgo(iso, now);
  if (days > 1) return `last seen ${date.format(new Date(iso))}`;
  return `last seen ${days === 1 ? "yesterday " : ""}at ${timeOfDay(iso)}`;
}

export const byteLength = (text) => new TextEncoder().encode(text).length;
