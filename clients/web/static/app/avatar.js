import { h, icon } from "./dom.js";
import { hue, initials } from "./format.js";

/** A round picture made of letters. Decoration: the name stands beside it. */
export function avatar(id, name, { group = false, size = "" } = {}) {
  const inside = name && name !== "…" ? initials(name) : icon(group ? "group" : "person");
  return h(
    `span.avatar${size ? `.${size}` : ""}${group ? ".square" : ""}`,
    { "data-hue": hue(id), "aria-hidden": "true" },
    inside,
  );
}
