/** Entry point: shows the login or the chats, and routes by the hash of the URL. */

import { Outbox, Parley, Session } from "../parley.js";
import { ChatList } from "./chat-list.js";
import { Chats } from "./chats.js";
import { addToDraft } from "./composer.js";
import { Conversation } from "./conversation.js";
import { openDetails, openNewChat } from "./dialogs.js";
import { errorText, h, icon, toast } from "./dom.js";
import { showLogin } from "./login.js";
import { People } from "./people.js";
import { watchPartners } from "./presence.js";
import { settingsPage } from "./settings.js";

const root = document.getElementById("app");
const session = new Session({ storage: localStorage });
let bannerTimer = 0;
const NOTICES = {
  session_revoked: "This device was logged out. Log in to go on.",
  invalid_refresh_token: "Your login has expired. Log in to go on.",
};

addEventListener("storage", ({ key }) => {
  if (key !== "parley.session" && key !== null) return;
  const wasOpen = session.isOpen;
  session.adopt();
  if (!wasOpen && session.isOpen) start();
});
start();

function start(notice = "") {
  if (session.isOpen) showChats();
  else showLogin(root, { session, notice, done: () => start() });
}

function showChats() {
  const { user_id: userId } = session.user;
  const people = new People({ session, storage: localStorage });
  const outbox = new Outbox({ storage: localStorage, prefix: `parley.outbox.${userId}.` });
  const parley = new Parley({ session, outbox });
  const tabs = new BroadcastChannel(`parley.${userId}`);
  const chats = new Chats({ parley, people, tabs });
  const listeners = new AbortController();
  const listen = (target, type, handler) => target.addEventListener(type, handler, { signal: listeners.signal });
  people.addNames([session.user]);

  const list = new ChatList({
    chats,
    people,
    session,
    marks: parley.marks,
    onNew: () => openNewChat({ chats, me: session.user, onOpen: (chatId) => (location.hash = `#/chat/${chatId}`) }),
    onTheme: switchTheme,
  });
  const banner = h("div.banner", { role: "status", hidden: true });
  const pane = h("main.pane", {});
  const layout = h("div.layout", {}, list.element, h("div.content", {}, banner, pane));
  root.replaceChildren(layout);
  let view = null;

  const route = () => {
    const chatId = /^#\/chat\/(chat_\w+)$/.exec(location.hash)?.[1];
    if (chatId && view?.chatId === chatId) return;
    view?.close?.();
    view = createView(chatId);
    layout.classList.toggle("has-pane", Boolean(chatId) || location.hash === "#/settings");
    pane.replaceChildren(view.element);
    list.select(chatId);
    if (chatId && matchMedia("(hover: hover)").matches) view.input?.focus();
  };

  const createView = (chatId) => {
    if (location.hash === "#/settings")
      return { element: settingsPage({ session, parley, onRenamed, onLogOut: logOut }) };
    if (!chatId) return { element: welcome() };
    if (!chats.get(chatId))
      return { element: h("div.welcome", {}, h("p", {}, chats.isLoaded ? "This chat is not here." : "Loading…")) };
    const view = new Conversation({
      chatId,
      chats,
      people,
      parley,
      onInfo: () => openDetails({ chatId, chats, me: session.user }),
    });
    view.chatId = chatId;
    return view;
  };

  const onRenamed = () => {
    people.addNames([session.user]);
    list.select(null);
  };

  const logOut = async () => {
    await session.request("POST", "/api/auth/logout").catch(() => {});
    session.end("logged_out");
  };

  listen(window, "hashchange", route);
  listen(chats, "list", () => {
    if (view && !view.chatId && /^#\/chat\//.test(location.hash)) route();
    showBadge(chats.unreadChats);
    watchPartners({ chats, parley, open: view?.chatId });
  });
  listen(parley, "failed", ({ detail }) => {
    if (detail.type === "send_message") return;
    const { chatId, clientMessageId, type, fields } = detail;
    toast(errorText(detail.error));
    parley.discard(clientMessageId);
    if (type !== "edit_message") return;
    if (view?.chatId === chatId && view.restore) view.restore(fields.content);
    else addToDraft(chatId, fields.content);
  });
  listen(chats, "left", ({ detail }) => {
    toast(`You are no longer in ${chats.title(detail)}.`);
    if (view?.chatId === detail.chat_id) location.hash = "#/";
  });
  listen(parley, "state", () => showState(banner, parley));
  listen(parley, "ended", ({ detail }) => {
    listeners.abort();
    view?.close?.();
    tabs.close();
    people.clear();
    showBadge(0);
    document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
    start(NOTICES[detail.reason] ?? "");
  });
  listen(window, "online", () => parley.nudge());
  listen(window, "offline", () => parley.lostNetwork());
  listen(window, "pagehide", () => parley.flush());
  listen(document, "visibilitychange", () => document.hidden || parley.nudge());
  route();
  parley.start();
}

/** How many chats have unread messages: in the title, and as a dot on the icon. */
function showBadge(unread) {
  document.title = unread ? `(${unread}) Parley` : "Parley";
  const address = `/static/parley/${unread ? "icon-unread" : "icon"}.svg`;
  const link = document.querySelector("link[rel=icon]");
  if (link.getAttribute("href") !== address) link.setAttribute("href", address);
}

/** Delay the banner, so that a short interruption does not show it. */
function showState(banner, parley) {
  clearTimeout(bannerTimer);
  if (parley.state === "online") {
    banner.hidden = true;
    return;
  }
  const show = () => {
    banner.hidden = false;
    banner.replaceChildren(icon("offline"), h("span", {}, "You are offline. What you write is kept and sent later."));
  };
  bannerTimer = setTimeout(show, parley.connections || !navigator.onLine ? 700 : 3_000);
}

function welcome() {
  return h(
    "div.welcome",
    {},
    icon("logo"),
    h("h1", {}, "Choose a chat"),
    h("p", {}, "Or start a new one with the pencil."),
  );
}

function switchTheme() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("parley.theme", dataset.theme);
}
