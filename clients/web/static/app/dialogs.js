/** The dialogs to start a chat and to see and change its details. */

import { avatar } from "./avatar.js";
import { busy, confirmDialog, field, formOf, h, icon, iconButton, openDialog, toast } from "./dom.js";
import { fullTime, phoneNumber } from "./format.js";

const HOUR = 3_600_000;
const FOREVER = "9999-12-31T00:00:00.000Z";
const ROLES = { owner: "Owner", admin: "Admin", member: "Member" };

const phoneInput = () => h("input", { type: "tel", autocomplete: "off", placeholder: "+1 415 555 0123" });

/** Create a direct chat or a group; `onOpen` gets its id. */
export function openNewChat({ chats, me, onOpen }) {
  const key = crypto.randomUUID();
  const content = h("div.body", {});
  const kinds = [
    ["direct", "Direct chat", "person"],
    ["group", "Group", "group"],
  ].map(([kind, label, picture]) =>
    h(
      "label.segment",
      {},
      h("input", { type: "radio", name: "kind", value: kind, checked: kind === "direct", onchange: () => show(kind) }),
      icon(picture),
      label,
    ),
  );
  const create = async (draft) => {
    const chatId = await chats.create(draft, key);
    dialog.close();
    onOpen(chatId);
  };
  const show = (kind) => {
    const form = kind === "direct" ? directForm({ chats, create }) : groupForm({ chats, me, create });
    content.replaceChildren(h("div.segments", { role: "radiogroup", "aria-label": "Kind of chat" }, kinds), form);
    form.querySelector("input")?.focus();
  };
  const dialog = openDialog("New chat", content);
  show("direct");
}

function directForm({ chats, create }) {
  const phone = field("Phone number", phoneInput(), "With country code. They need to be on Parley already.");
  const submit = async () => {
    const person = await chats.requests.lookUp(phoneNumber(phone.input.value));
    await create({ type: "direct", members: [person.user_id] });
  };
  return formOf(phone, submit, phone.element, actions("Start chat"));
}

function groupForm({ chats, me, create }) {
  const chosen = new Map();
  const list = h("ul.chips", { "aria-label": "Members" });
  const name = field("Group name", h("input", { maxlength: "100", autocomplete: "off" }));
  const phone = field("Add people by phone number", phoneInput());
  const render = () =>
    list.replaceChildren(
      ...[...chosen.values()].map((person) =>
        h(
          "li.chip",
          {},
          avatar(person.user_id, person.display_name, { size: "tiny" }),
          h("span", { dir: "auto" }, person.display_name),
          iconButton(
            "close",
            `Take ${person.display_name} off the list`,
            () => (chosen.delete(person.user_id), render()),
          ),
        ),
      ),
    );
  const add = () =>
    busy(
      phone.element,
      async () => {
        phone.showError("");
        const person = await chats.requests.lookUp(phoneNumber(phone.input.value));
        if (person.user_id === me.user_id) return phone.showError("You are in the group anyway.");
        chosen.set(person.user_id, person);
        phone.input.value = "";
        phone.input.focus();
        render();
      },
      phone.showError,
    );
  phone.input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !phone.input.value) return;
    event.preventDefault();
    add();
  });
  phone.input.after(h("button.secondary.inline", { type: "button", onclick: add }, "Add"));
  const submit = async () => {
    if (!name.input.value.trim()) return name.showError("A group needs a name.");
    await create({ type: "group", name: name.input.value, members: [...chosen.keys()] });
  };
  return formOf(name, submit, name.element, phone.element, list, actions("Create group"));
}

/** Details of a chat: mute, and for groups name, members, roles and leaving. */
export function openDetails({ chatId, chats, me }) {
  const chat = () => chats.get(chatId);
  const isGroup = chat().type === "group";
  const members = h("ul.members", { "aria-label": "Members" });
  const count = h("h3", {}, "Members");
  const content = h("div.body", {});
  let memberList = [];

  const load = async () => {
    memberList = [...(await chats.members(chatId, { reload: true })).values()];
    if (dialog.open) render();
  };
  const act = (control, work) => busy(control, async () => (await work(), await load()));
  const render = () => {
    const rank = Object.keys(ROLES);
    memberList.sort(
      (one, other) =>
        rank.indexOf(one.role) - rank.indexOf(other.role) || one.display_name.localeCompare(other.display_name),
    );
    const role = memberList.find((member) => member.user_id === me.user_id)?.role ?? "member";
    count.textContent = `Members · ${memberList.length}`;
    members.replaceChildren(...memberList.map((member) => memberRow({ chatId, member, role, me, chats, act })));
    const manages = role !== "member";
    content.replaceChildren(
      ...[
        isGroup
          ? renameForm({ chatId, chats, chat: chat(), manages })
          : h(
              "p.about",
              {},
              avatar(chats.avatarId(chat()), chats.title(chat()), { size: "large" }),
              h("strong", { dir: "auto" }, chats.title(chat())),
            ),
        muteControl({ chatId, chats, chat: chat() }),
        isGroup ? count : null,
        isGroup && manages ? addForm({ chatId, chats, load }) : null,
        isGroup ? members : null,
        isGroup ? leaveButton({ chatId, chats, close: () => dialog.close() }) : null,
        h("p.hint", {}, `Since ${fullTime(chat().created_at)}`),
      ].filter(Boolean),
    );
  };

  const dialog = openDialog(isGroup ? "About this group" : "About this chat", content, { className: "sheet" });
  const refresh = ({ detail }) =>
    (detail.chat_id ?? detail) === chatId && (chat() ? load().catch(() => {}) : dialog.close());
  chats.addEventListener("members", refresh);
  chats.addEventListener("left", refresh);
  dialog.addEventListener("close", () => {
    chats.removeEventListener("members", refresh);
    chats.removeEventListener("left", refresh);
  });
  render();
  load().catch((error) => toast(error.message));
}

function memberRow({ chatId, member, role, me, chats, act }) {
  const isMe = member.user_id === me.user_id;
  const name = member.display_name;
  const mayRemove = !isMe && (role === "owner" || (role === "admin" && member.role === "member"));
  const change = async (select) => {
    const question = [`Make ${name} the owner?`, { detail: "You become an admin.", action: "Hand over" }];
    if (select.value === "owner" && !(await confirmDialog(...question))) select.value = member.role;
    else await act(select, () => chats.requests.changeRole(chatId, member.user_id, select.value));
  };
  const select = h(
    "select",
    { "aria-label": `Role of ${name}`, onchange: () => change(select) },
    Object.entries(ROLES).map(([value, label]) => h("option", { value, selected: value === member.role }, label)),
  );
  const remove = async (event) => {
    const button = event.currentTarget;
    if (await confirmDialog(`Remove ${name}?`, { action: "Remove" }))
      await act(button, () => chats.requests.removeMember(chatId, member.user_id));
  };
  return h(
    "li.member",
    {},
    avatar(member.user_id, name, { size: "small" }),
    h("span.member-name", { dir: "auto" }, name, isMe ? h("span.you", {}, " (you)") : null),
    role === "owner" && !isMe ? select : h("span.role", { "data-role": member.role }, ROLES[member.role]),
    mayRemove ? iconButton("close", `Remove ${name}`, remove) : null,
  );
}

function renameForm({ chatId, chats, chat, manages }) {
  const picture = avatar(chat.chat_id, chat.name, { size: "large", group: true });
  if (!manages) return h("p.about", {}, picture, h("strong", { dir: "auto" }, chat.name));
  const name = field("Group name", h("input", { value: chat.name, maxlength: "100", autocomplete: "off" }));
  const submit = async () => {
    await chats.requests.rename(chatId, name.input.value);
    toast("The group has its new name.");
  };
  name.input.after(h("button.secondary.inline", { type: "submit" }, "Rename"));
  return formOf(name, submit, h("div.about", {}, picture), name.element);
}

function addForm({ chatId, chats, load }) {
  const phone = field("Add somebody by phone number", phoneInput());
  phone.input.after(h("button.secondary.inline", { type: "submit" }, "Add"));
  const submit = async () => {
    const person = await chats.requests.lookUp(phoneNumber(phone.input.value));
    await chats.requests.addMember(chatId, person.user_id);
    phone.input.value = "";
    await load();
  };
  return formOf(phone, submit, phone.element);
}

function muteControl({ chatId, chats, chat }) {
  const isMuted = chats.isMuted(chat);
  const choices = [
    ["", isMuted ? "Unmute" : "Not muted"],
    [HOUR, "For an hour"],
    [8 * HOUR, "For 8 hours"],
    [168 * HOUR, "For a week"],
    ["ever", "Until I unmute"],
  ];
  const current = isMuted
    ? h(
        "option",
        { value: "keep", selected: true },
        chat.muted_until.startsWith("9") ? "Muted" : `Until ${fullTime(chat.muted_until)}`,
      )
    : null;
  const change = () => {
    const until = { "": null, ever: FOREVER }[select.value];
    const moment = until === undefined ? new Date(Date.now() + Number(select.value)).toISOString() : until;
    busy(select, () => chats.mute(chatId, moment));
  };
  const select = h(
    "select",
    { onchange: change },
    current,
    choices.map(([value, label]) => h("option", { value }, label)),
  );
  return field("Mute", select, "A muted chat does not count in the title of the page.").element;
}

function leaveButton({ chatId, chats, close }) {
  const leave = async (event) => {
    const button = event.currentTarget;
    const isConfirmed = await confirmDialog("Leave this group?", {
      detail: "You no longer get its messages, and only a member can add you again.",
      action: "Leave",
    });
    if (isConfirmed) await busy(button, async () => (await chats.leave(chatId), close()));
  };
  return h("button.danger.quiet", { type: "button", onclick: leave }, "Leave group");
}

const actions = (label) => h("div.actions", {}, h("button.primary", { type: "submit" }, label));
