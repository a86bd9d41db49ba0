/** Builds the list item of one message from plain properties. */

import { avatar } from "./avatar.js";
import { h, icon } from "./dom.js";
import { fullTime, hue, joinNames, timeOfDay } from "./format.js";
import { parse, render } from "./markup.js";

const STATES = {
  sending: ["clock", "Sending"],
  failed: ["alert", "Not sent"],
  sent: ["sent", "Sent"],
  delivered: ["delivered", "Delivered to everybody"],
  read: ["delivered", "Read by everybody"],
};

/**
 * `on` has the handlers `menu(item, point)`, `react(emoji)`, `jump(sequence)`, `retry()` and `discard()`.
 * Controls have `data-focus`, by which the list finds them again after a change.
 */
export function messageItem(props, on) {
  const item = h(
    "li.message",
    {
      tabindex: "-1",
      "data-sequence": props.sequence,
      "data-state": props.state || null,
      oncontextmenu: props.hasMenu ? (event) => onContextMenu(event, item, on) : null,
    },
    picture(props),
    h(
      "div.bubble",
      {},
      props.name && props.first ? h("span.sender", { dir: "auto", "data-hue": hue(props.sender) }, props.name) : null,
      props.mine ? h("span.sr-only", {}, "You: ") : null,
      props.quote ? quote(props.quote, on) : null,
      text(props),
      meta(props),
      props.hasMenu ? menuButton(props, () => on.menu(item)) : null,
    ),
    props.reactions.length ? reactions(props.reactions, on) : null,
    props.state === "failed" ? failure(props.error, on) : null,
  );
  for (const name of ["mine", "first", "last", "deleted", "mentionsMe"])
    item.classList.toggle(name === "mentionsMe" ? "mentions-me" : name, Boolean(props[name]));
  return item;
}

/** A selection keeps the browser's own menu. */
function onContextMenu(event, item, on) {
  if (!getSelection().isCollapsed || event.target.closest("a")) return;
  event.preventDefault();
  on.menu(item, { x: event.clientX, y: event.clientY });
}

function picture({ mine, name, last, sender }) {
  if (mine || !name) return null;
  return last ? avatar(sender, name, { size: "small" }) : h("span.avatar-space", {});
}

function text(props) {
  if (props.deleted) return h("span.text", {}, "This message was deleted");
  return h("span.text", { dir: "auto" }, render(parse(props.text, new Map(props.mentions)), props.me));
}

function meta(props) {
  const edited = props.edited ? h("span", { title: `Edited ${fullTime(props.edited)}` }, "edited") : null;
  return h(
    "span.meta",
    {},
    props.pinned ? icon("pin", "Pinned") : null,
    edited,
    h("time", { datetime: props.at, title: fullTime(props.at) }, timeOfDay(props.at)),
    props.state ? icon(...STATES[props.state]) : null,
  );
}

/** Not in the tab order, which would be long: arrow keys lead to a message, Enter opens its menu. */
function menuButton({ mine, name }, onclick) {
  const label = `Actions for ${mine ? "your message" : name ? `the message of ${name}` : "the message"}`;
  const attributes = { type: "button", tabindex: "-1", "aria-haspopup": "menu", "aria-label": label, onclick };
  return h("button.message-menu-button", { ...attributes, "data-focus": "menu" }, icon("down"));
}

function quote({ sequence, name, text: quoted, sender }, on) {
  return h(
    "button.quote",
    {
      type: "button",
      "data-focus": "quote",
      "data-hue": hue(sender ?? ""),
      "aria-label": `In reply to ${name}: ${quoted}. Go to it`,
      onclick: () => on.jump(sequence),
    },
    h("span.quote-name", { dir: "auto" }, name),
    h("span.quote-text", { dir: "auto" }, quoted),
  );
}

function reactions(list, on) {
  return h(
    "div.reactions",
    { role: "group", "aria-label": "Reactions" },
    list.map(({ emoji, count, names, mine }) =>
      h(
        "button.reaction",
        {
          type: "button",
          "data-focus": `reaction ${emoji}`,
          "aria-pressed": String(mine),
          "aria-label": `${emoji} ${joinNames(names)}`,
          title: joinNames(names),
          onclick: () => on.react(emoji),
        },
        h("span", {}, emoji),
        h("span.reaction-count", {}, String(count)),
      ),
    ),
  );
}

function failure(error, on) {
  return h(
    "div.failure",
    { role: "alert" },
    icon("alert"),
    h("span", {}, error || "Not sent."),
    h("button.link", { type: "button", onclick: on.retry }, "Try again"),
    h("button.link", { type: "button", onclick: on.discard }, "Discard"),
  );
}
