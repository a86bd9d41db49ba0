/** The login page: phone number, code, and a name for new users. In embedded mode also the demo. */

import { avatar } from "./avatar.js";
import { busy, field, formOf, h, icon } from "./dom.js";
import { phoneNumber } from "./format.js";

const isEmbedded = document.documentElement.dataset.mode === "embedded";

/** Render the login into `root`; `done` is called when the session is open. */
export function showLogin(root, { session, notice = "", done }) {
  const step = h("div.login-step", {});
  const card = h(
    "main.login-card",
    {},
    h("div.brand", {}, icon("logo"), h("span", {}, "Parley")),
    notice ? h("p.notice", { role: "status" }, notice) : null,
    step,
  );
  root.replaceChildren(h("div.login", {}, card));
  askNumber(step, { session, done });
}

function askNumber(step, { session, done }, { number = "", loginId } = {}) {
  const phone = field(
    "Phone number",
    h("input", {
      type: "tel",
      name: "phone",
      autocomplete: "tel",
      placeholder: "+1 415 555 0123",
      required: true,
      value: number,
    }),
    "With country code. We send you a code to log in with.",
  );
  const submit = async () => {
    const typed = phoneNumber(phone.input.value);
    const sent = await session.requestCode(typed, typed === number ? loginId : undefined);
    askCode(step, { session, done, number: typed, loginId: sent.login_id });
  };
  const form = formOf(
    phone,
    submit,
    h("h1", {}, "Welcome"),
    phone.element,
    h("button.primary", { type: "submit" }, "Send code"),
  );
  step.replaceChildren(form);
  if (isEmbedded) step.append(demoSection({ session, done }));
  phone.input.focus();
}

function askCode(step, { session, done, number, loginId }) {
  const code = field(
    "Code",
    h("input.code", {
      name: "code",
      inputmode: "numeric",
      autocomplete: "one-time-code",
      pattern: "[0-9]{6}",
      maxlength: "6",
      placeholder: "······",
      required: true,
    }),
  );
  const showError = (text) => {
    if (text) code.input.value = "";
    code.showError(text);
  };
  const submit = async () => {
    const isNew = await session.verify({
      phoneNumber: number,
      code: code.input.value.trim(),
      deviceId: deviceId(),
      loginId,
    });
    if (isNew) askName(step, { session, done });
    else done();
  };
  code.input.addEventListener("input", () => code.input.value.length === 6 && form.requestSubmit());
  const form = formOf(
    { showError },
    submit,
    h("h1", {}, "Enter the code"),
    h("p.lead", {}, "We sent six digits to ", h("strong", {}, number), "."),
    isEmbedded
      ? h(
          "p.hint.local",
          {},
          icon("info"),
          "This is a local run: the code is printed in the terminal that runs Parley, and in its data directory.",
        )
      : null,
    code.element,
    h("button.primary", { type: "submit" }, "Log in"),
    h(
      "button.quiet",
      { type: "button", onclick: () => askNumber(step, { session, done }, { number, loginId }) },
      "Use another number",
    ),
  );
  step.replaceChildren(form);
  code.input.focus();
}

function askName(step, { session, done }) {
  const name = field(
    "Your name",
    h("input", { name: "name", autocomplete: "name", maxlength: "100", required: true }),
    "The people you write with see it.",
  );
  const submit = async () => {
    session.rename(await session.request("PATCH", "/api/users/me", { display_name: name.input.value }));
    done();
  };
  const form = formOf(
    name,
    submit,
    h("h1", {}, "Nice to meet you"),
    name.element,
    h("button.primary", { type: "submit" }, "Start"),
  );
  step.replaceChildren(form);
  name.input.focus();
}

function demoSection({ session, done }) {
  const people = h("div.demo-people", {});
  const logIn = (person) => (event) =>
    busy(event.currentTarget, async () => {
      session.open(await session.call("POST", "/api/demo/login", { name: person, device_id: deviceId() }));
      done();
    });
  const showPeople = async (button) => {
    const { people: names } = await session.call("GET", "/api/demo/people");
    const buttons = names.map((name) =>
      h("button.person", { type: "button", onclick: logIn(name) }, avatar(name, name), h("span", {}, name)),
    );
    people.replaceChildren(...buttons);
    button.remove();
    buttons[0]?.focus();
  };
  const button = h(
    "button.secondary",
    { type: "button", onclick: () => busy(button, () => showPeople(button)) },
    "Try the demo",
  );
  return h(
    "section.demo",
    { "aria-label": "Demo" },
    h("p.divider", {}, h("span", {}, "or, on this machine only")),
    button,
    people,
  );
}

/** Stable per browser, and readable in the list of devices. */
function deviceId() {
  let id = localStorage.getItem("parley.device");
  if (!id) {
    id = `${browser()} #${crypto.randomUUID().slice(0, 4)}`;
    localStorage.setItem("parley.device", id);
  }
  return id;
}

function browser() {
  const agent = navigator.userAgent;
  const name = [
    ["Edg/", "Edge"],
    ["Firefox/", "Firefox"],
    ["Chrome/", "Chrome"],
    ["Safari/", "Safari"],
  ].find(([mark]) => agent.includes(mark));
  const system = [
    ["Android", "Android"],
    ["iPhone", "iPhone"],
    ["iPad", "iPad"],
    ["Mac OS", "macOS"],
    ["Windows", "Windows"],
    ["Linux", "Linux"],
  ].find(([mark]) => agent.includes(mark));
  return `${name?.[1] ?? "Browser"} on ${system?.[1] ?? "a device"}`;
}
