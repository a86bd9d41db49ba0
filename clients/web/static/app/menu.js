/** A pop-up menu with a row of emoji and a list of actions. By keyboard: arrows, Home, End, Enter, Escape. */

import { h, icon } from "./dom.js";

const MARGIN_PX = 8;

/**
 * Open a menu at `anchor`, or at `point` in the window. `emoji` are `{emoji, isChosen}`, `actions` are
 * `{icon, label, run, isDangerous}`; `onEmoji` gets the chosen one. After it is closed focus returns to what
 * `returnTo()` finds, unless an action moved it.
 */
export function openMenu({ label, anchor, point, emoji = [], onEmoji, actions, returnTo }) {
  const choose = (run) => () => {
    menu.hidePopover();
    run();
  };
  const menu = h(
    "div.menu",
    { role: "menu", "aria-label": label, popover: "auto", onkeydown: (event) => onKeyDown(menu, event) },
    emoji.length
      ? h(
          "div.menu-emoji",
          { role: "group", "aria-label": "React" },
          emoji.map(({ emoji: each, isChosen }) =>
            h(
              "button",
              {
                type: "button",
                role: "menuitemcheckbox",
                tabindex: "-1",
                "aria-checked": String(isChosen),
                onclick: choose(() => onEmoji(each)),
              },
              each,
            ),
          ),
        )
      : null,
    actions.map(({ icon: picture, label: text, run, isDangerous }) =>
      h(
        isDangerous ? "button.menu-item.is-dangerous" : "button.menu-item",
        { type: "button", role: "menuitem", tabindex: "-1", onclick: choose(run) },
        icon(picture),
        text,
      ),
    ),
  );
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState === "open") return;
    const hasFocus = menu.contains(document.activeElement) || document.activeElement === document.body;
    menu.remove();
    if (hasFocus) returnTo()?.focus();
  });
  document.body.append(menu);
  menu.showPopover();
  place(menu, point ?? corner(anchor));
  items(menu)[0]?.focus();
  return menu;
}

const items = (menu) => [...menu.querySelectorAll("[role^=menuitem]")];

function corner(anchor) {
  const { left, bottom } = anchor.getBoundingClientRect();
  return { x: left, y: bottom };
}

/** Within the window. */
function place(menu, { x, y }) {
  const { width, height } = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(MARGIN_PX, Math.min(x, innerWidth - width - MARGIN_PX))}px`;
  menu.style.top = `${Math.max(MARGIN_PX, Math.min(y, innerHeight - height - MARGIN_PX))}px`;
}

function onKeyDown(menu, event) {
  const all = items(menu);
  const index = all.indexOf(document.activeElement);
  const inEmoji = document.activeElement.getAttribute("role") === "menuitemcheckbox";
  const firstAction = all.findIndex((item) => item.getAttribute("role") === "menuitem");
  const to = {
    ArrowDown: inEmoji ? firstAction : index + 1,
    ArrowUp: index === firstAction ? 0 : inEmoji ? all.length - 1 : index - 1,
    ArrowRight: inEmoji ? index + 1 : index,
    ArrowLeft: inEmoji ? index - 1 : index,
    Home: 0,
    End: all.length - 1,
    Tab: index,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  all[(to + all.length) % all.length]?.focus();
}
