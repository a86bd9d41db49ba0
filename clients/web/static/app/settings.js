/** The settings page: name, phone number, devices. */

import { avatar } from "./avatar.js";
import { busy, confirmDialog, field, formOf, h, icon, toast } from "./dom.js";
import { fullTime } from "./format.js";

export function settingsPage({ session, parley, onRenamed, onLogOut }) {
  const devices = h("ul", { "aria-label": "Devices" });
  const load = async () => {
    const sessions = await parley.listAll("/api/sessions");
    sessions.sort((one, other) => other.current - one.current || (one.created_at < other.created_at ? 1 : -1));
    devices.replaceChildren(...sessions.map((device) => deviceRow({ device, session, load, onLogOut })));
    others.hidden = sessions.length < 2;
  };
  const revokeOthers = async () => {
    const detail = "Every other browser and phone has to log in again.";
    if (!(await confirmDialog("Log out all other devices?", { detail, action: "Log them out" }))) return;
    await busy(others, async () => {
      await session.request("DELETE", "/api/sessions");
      await load();
    });
  };
  const others = h(
    "button.quiet.danger",
    { type: "button", hidden: true, onclick: revokeOthers },
    "Log out all other devices",
  );
  load().catch((error) => toast(error.message));
  return h(
    "section.settings",
    { "aria-label": "Settings" },
    h(
      "header",
      {},
      h("a.icon-button.back", { href: "#/", "aria-label": "Back to the chats" }, icon("back")),
      h("h1", {}, "Settings"),
    ),
    h(
      "div.settings-body",
      {},
      profile({ session, onRenamed }),
      privacy({ session }),
      h(
        "section.card",
        {},
        h("h2", {}, "Devices"),
        h("p.hint", {}, "Where you are logged in. A device you log out is disconnected at once."),
        devices,
        others,
      ),
    ),
  );
}

function profile({ session, onRenamed }) {
  const { user } = session;
  const name = field("Your name", h("input", { value: user.display_name, maxlength: "100", autocomplete: "name" }));
  name.input.after(h("button.secondary.inline", { type: "submit" }, "Save"));
  const submit = async () => {
    session.rename(await session.request("PATCH", "/api/users/me", { display_name: name.input.value }));
    onRenamed();
    toast("Saved.");
  };
  const form = formOf(name, submit, name.element);
  return h(
    "section.card",
    {},
    h("div.about", {}, avatar(user.user_id, user.display_name, { size: "large" }), h("p.hint", {}, user.phone_number)),
    form,
  );
}

function privacy({ session }) {
  const toggle = (name, label, hint) => {
    const checked = session.user[name] !== false;
    const input = h("input", { type: "checkbox", checked, onchange: () => save(name, input) });
    return h("label.switch", {}, input, h("span", {}, h("strong", {}, label), h("span.hint", {}, hint)));
  };
  const save = (name, input) =>
    busy(
      input,
      async () => session.rename(await session.request("PATCH", "/api/users/me", { [name]: input.checked })),
      (text) => {
        input.checked = !input.checked;
        toast(text);
      },
    );
  return h(
    "section.card",
    {},
    h("h2", {}, "Privacy"),
    toggle("read_receipts", "Read receipts", "Others see what you have read, and you see what they have read."),
    toggle("show_presence", "Online", "Others see when you are online and when you were last here."),
  );
}

function deviceRow({ device, session, load, onLogOut }) {
  const name = device.device_id.replace(/ #[0-9a-f]{4}$/, "");
  const revoke = async (event) => {
    const button = event.currentTarget;
    if (device.current) return busy(button, onLogOut);
    await busy(button, async () => {
      await session.request("DELETE", `/api/sessions/${device.session_id}`);
      await load();
    });
  };
  return h(
    "li.device",
    { "data-session": device.session_id },
    icon("device"),
    h(
      "span.device-text",
      {},
      h("strong", {}, name, device.current ? h("span.here", {}, "This device") : null),
      h("span.hint", {}, `Since ${fullTime(device.created_at)}`),
    ),
    h("button.quiet", { type: "button", onclick: revoke, "aria-label": `Log out ${name}` }, "Log out"),
  );
}
