import { h, icon } from "./dom.js";
import { hue, initials } from "./format.js";

/** A coloured circle with initials. Hidden from screen readers: the name is always beside it. */
export function avatar(id, name, { group = false, size = "", isOnline = false } = {}) {
  const content = name && name !== "…" ? initials(name) : icon(group ? "group" : "person");
  return h(
    `span.avatar${size ? `.${size}` : ""}${group ? ".square" : ""}${isOnline ? ".is-online" : ""}`,
    { "data-hue": hue(id), "aria-hidden": "true" },
    content,
  );
}
