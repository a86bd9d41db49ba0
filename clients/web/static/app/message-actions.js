/** What a member can do with a message, and the dialogs about it. */

import { kindOf } from "../parley.js";
import { avatar } from "./avatar.js";
import { confirmDialog, errorText, h, openDialog, toast } from "./dom.js";
import { openMenu } from "./menu.js";
import { seenBy } from "./ticks.js";

const EMOJI = ["👍", "❤️", "😂", "🎉", "😮", "😢", "🙏", "🔥"];

export class MessageActions {
  #chatId;
  #chats;
  #people;
  #parley;
  #onReply;
  #onEdit;

  constructor({ chatId, chats, people, parley, onReply, onEdit }) {
    this.#chatId = chatId;
    this.#chats = chats;
    this.#people = people;
    this.#parley = parley;
    this.#onReply = onReply;
    this.#onEdit = onEdit;
  }

  get #myId() {
    return this.#parley.session.user?.user_id;
  }

  /** Whether a stored message has any. */
  has(message) {
    return Boolean(message.sequence) && kindOf(message) === "message" && !message.deleted_at;
  }

  canEdit(message) {
    return this.has(message) && message.sender_id === this.#myId;
  }

  openMenu(message, item, point) {
    const anchor = item.querySelector(".message-menu-button");
    const list = item.parentElement;
    openMenu({
      label: "Message actions",
      anchor,
      point,
      // The item is another one if the message changed meanwhile.
      returnTo: () => list.querySelector(`[data-sequence="${message.sequence}"]`),
      emoji: EMOJI.map((emoji) => ({ emoji, isChosen: this.#hasReacted(message, emoji) })),
      onEmoji: (emoji) => this.react(message, emoji),
      actions: this.#actions(message),
    });
  }

  reply(message) {
    this.#onReply(message);
  }

  edit(message) {
    if (this.canEdit(message)) this.#onEdit(message);
  }

  /** Add the reaction, or remove one's own. */
  react(message, emoji) {
    const action = this.#hasReacted(message, emoji) ? "remove" : "add";
    this.#parley.react(this.#chatId, message.sequence, emoji, action);
  }

  #actions(message) {
    const chat = this.#chats.get(this.#chatId);
    const mine = message.sender_id === this.#myId;
    const isGroup = chat.type === "group";
    const manages = isGroup && chat.role !== "member";
    const isPinned = this.#parley.log(this.#chatId).pins.includes(message.sequence);
    const action = (icon, label, run, isDangerous = false) => ({ icon, label, run, isDangerous });
    return [
      action("reply", "Reply", () => this.#onReply(message)),
      mine && action("pencil", "Edit", () => this.#onEdit(message)),
      action("copy", "Copy text", () => this.#copy(message)),
      (!isGroup || manages) && action("pin", isPinned ? "Unpin" : "Pin", () => this.#pin(message, isPinned)),
      message.reactions && action("smile", "Who reacted", () => this.#showReactions(message)),
      mine && isGroup && action("delivered", "Seen by", () => this.#showSeenBy(message)),
      (mine || manages) && action("trash", "Delete", () => this.#delete(message), true),
    ].filter(Boolean);
  }

  #hasReacted(message, emoji) {
    return this.#parley.log(this.#chatId).hasReacted(message.sequence, emoji, this.#myId);
  }

  #copy(message) {
    navigator.clipboard.writeText(message.content).then(
      () => toast("Copied."),
      () => toast("The browser does not allow to copy."),
    );
  }

  #pin(message, isPinned) {
    this.#parley.pin(this.#chatId, message.sequence, isPinned ? "remove" : "add");
  }

  async #delete(message) {
    const detail = "It disappears for everybody. That it was there stays visible.";
    if (await confirmDialog("Delete this message?", { detail, action: "Delete" }))
      this.#parley.delete(this.#chatId, message.sequence);
  }

  async #showReactions(message) {
    const path = `/api/chats/${this.#chatId}/messages/${message.sequence}/reactions`;
    try {
      const items = await this.#parley.listAll(path);
      const rows = items.map(({ user_id: userId, emoji }) => this.#personRow(userId, emoji));
      openDialog("Reactions", h("div.body", {}, h("ul.members", {}, rows)));
    } catch (error) {
      toast(errorText(error));
    }
  }

  async #showSeenBy(message) {
    try {
      await this.#parley.loadReceipts(this.#chatId);
      const members = await this.#chats.members(this.#chatId);
      const receipts = this.#parley.marks.receipts(this.#chatId);
      const { read, delivered } = seenBy(message, { members, receipts, me: this.#myId });
      const section = (title, userIds) => {
        if (!userIds.length) return [];
        const rows = userIds.map((userId) => this.#personRow(userId));
        return [h("h3", {}, `${title} · ${userIds.length}`), h("ul.members", {}, rows)];
      };
      const found = [...section("Seen by", read), ...section("Delivered to", delivered)];
      openDialog("Seen by", h("div.body", {}, found.length ? found : h("p", {}, "Nobody yet.")));
    } catch (error) {
      toast(errorText(error));
    }
  }

  #personRow(userId, emoji = "") {
    const name = this.#people.name(userId) || "…";
    return h(
      "li.member",
      {},
      avatar(userId, name, { size: "small" }),
      h("span.member-name", { dir: "auto" }, userId === this.#myId ? "You" : name),
      emoji,
    );
  }
}
