/** Building the page. Text goes in as text nodes only: there is no way to hand in markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element: `h("button.primary", { onclick: save, disabled: true, "aria-label": "Save" }, "Save")`.
 * Functions become listeners, true and false set and leave out an attribute, everything else is an attribute.
 */
export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function icon(name, label = null) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("viewBox", "0 0 24 24");
  if (label) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
  } else {
    svg.setAttribute("aria-hidden", "true");
  }
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function iconButton(name, label, onclick, attributes = {}) {
  return h(
    "button.icon-button",
    { type: "button", "aria-label": label, title: label, onclick, ...attributes },
    icon(name),
  );
}

/** A form field with its label and a place for its error. `field.complain("…")` shows one, `""` takes it away. */
export function field(label, input, hint = "") {
  const id = `f-${crypto.randomUUID()}`;
  const error = h("p.field-error", { id: `${id}-e`, role: "alert" });
  input.id = id;
  input.setAttribute("aria-describedby", `${id}-h ${id}-e`);
  const element = h(
    "div.field",
    {},
    h("label", { for: id }, label),
    input,
    hint ? h("p.hint", { id: `${id}-h` }, hint) : null,
    error,
  );
  return {
    element,
    input,
    complain(text) {
      error.textContent = text;
      input.toggleAttribute("aria-invalid", Boolean(text));
      if (text) input.focus();
    },
  };
}

/** A modal dialog that removes itself. Escape and a click beside it close it. */
export function openDialog(title, content, { className = "dialog" } = {}) {
  const heading = h("h2", { id: `d-${crypto.randomUUID()}` }, title);
  const dialog = h(
    `dialog.${className}`,
    { "aria-labelledby": heading.id },
    h(
      "header",
      {},
      heading,
      iconButton("close", "Close", () => dialog.close()),
    ),
    content,
  );
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Ask before something that cannot be undone. Resolves to whether to go on. */
export function confirmed(question, { detail = "", action = "OK" } = {}) {
  return new Promise((resolve) => {
    const answer = (yes) => () => {
      resolve(yes);
      dialog.close();
    };
    const buttons = h(
      "div.actions",
      {},
      h("button.quiet", { type: "button", onclick: answer(false) }, "Cancel"),
      h("button.danger", { type: "button", onclick: answer(true) }, action),
    );
    const dialog = openDialog(question, h("div.body", {}, detail ? h("p", {}, detail) : null, buttons));
    dialog.addEventListener("close", () => resolve(false));
  });
}

/** A line at the edge of the screen that goes away by itself. */
export function toast(text) {
  const line = h("p.toast", {}, text);
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), 6_000);
}

/** Tell people who listen to the page. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Run a form's or button's work once at a time; failures are told by `complain`, or by a toast. */
export async function busy(control, work, complain = toast) {
  if (control.getAttribute("aria-busy") === "true") return;
  control.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    complain(sentence(error));
    if (error.name !== "ParleyError") throw error;
  } finally {
    control.removeAttribute("aria-busy");
  }
}

/** What went wrong, for people. */
export function sentence(error) {
  const fields = Object.values(error.errors ?? {}).flat();
  return fields[0] ?? error.message;
}
