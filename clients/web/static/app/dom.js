/** DOM building blocks. Text is inserted as text nodes only, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element: `h("button.primary", { onclick: save, disabled: true, "aria-label": "Save" }, "Save")`.
 * A function becomes a listener, true an empty attribute; false, null and undefined are left out.
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

export function iconButton(name, label, onclick) {
  return h("button.icon-button", { type: "button", "aria-label": label, title: label, onclick }, icon(name));
}

/**
 * What is pressed in `element`. A browser makes no click of a press and a release on different nodes, so a list that
 * changes leaves the pressed node as it is, and renders again at `onRelease`, which comes after the click.
 */
export class Press {
  #target = null;

  constructor(element, { onRelease }) {
    const release = () => {
      this.#target = null;
      onRelease();
    };
    element.addEventListener("pointerdown", ({ target, button }) => {
      if (button !== 0) return;
      this.#target = target;
      const ended = new AbortController();
      const end = () => {
        ended.abort();
        setTimeout(release); // after the click
      };
      for (const type of ["pointerup", "pointercancel"]) addEventListener(type, end, { signal: ended.signal });
    });
  }

  isIn(node) {
    return node.contains(this.#target);
  }
}

/** A form field with its label, hint and error. `showError("")` removes the error. */
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
    showError(text) {
      error.textContent = text;
      input.toggleAttribute("aria-invalid", Boolean(text));
      if (text) input.focus();
    },
  };
}

/** A form whose submission runs `work`. The text of an error is shown at the field. */
export function formOf({ showError }, work, ...children) {
  const submit = async () => {
    showError("");
    await work();
  };
  const onsubmit = (event) => (event.preventDefault(), busy(form, submit, showError));
  const form = h("form", { novalidate: true, onsubmit }, ...children);
  return form;
}

/** Open a modal dialog. Escape or a click outside closes and removes it. */
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

/** Ask for confirmation. Resolves to true or false. */
export function confirmDialog(question, { detail = "", action = "OK" } = {}) {
  return new Promise((resolve) => {
    const choose = (isConfirmed) => () => {
      resolve(isConfirmed);
      dialog.close();
    };
    const buttons = h(
      "div.actions",
      {},
      h("button.quiet", { type: "button", onclick: choose(false) }, "Cancel"),
      h("button.danger", { type: "button", onclick: choose(true) }, action),
    );
    const dialog = openDialog(question, h("div.body", {}, detail ? h("p", {}, detail) : null, buttons));
    dialog.addEventListener("close", () => resolve(false));
  });
}

/** Show a short message for six seconds. */
export function toast(text) {
  const line = h("p.toast", {}, text);
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), 6_000);
}

/** Announce a text to screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Run `work` unless the control is already busy; pass the text of an error to `showError`. */
export async function busy(control, work, showError = toast) {
  if (control.getAttribute("aria-busy") === "true") return;
  control.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    showError(errorText(error));
    if (error.name !== "ParleyError") throw error;
  } finally {
    control.removeAttribute("aria-busy");
  }
}

/** The first field error, else the message. */
export function errorText(error) {
  const fields = Object.values(error.errors ?? {}).flat();
  return fields[0] ?? error.message;
}
