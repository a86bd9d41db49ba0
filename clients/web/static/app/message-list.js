/** The scrolling list of a conversation: keeps nodes, focus and position, and knows what is on the screen. */

import { h, icon, Press } from "./dom.js";

const BOTTOM_MARGIN_PX = 80; // closer than this counts as scrolled to the bottom
const DIVIDER_TOP_PX = 60;
const TARGET_MS = 2_000;

export class MessageList {
  #nodes = new Map();
  #on;
  #firstShown = 0;
  #isAtBottom = true;
  #unseen = 0;
  #press;
  #olderObserver;

  /**
   * `on` has the handlers `older()`, `scroll()`, `key(event, item)` for a focused message, and `released()`: render
   * again, an item that was pressed was not updated.
   */
  constructor({ on }) {
    this.#on = on;
    this.sentinel = h("li.sentinel", { "aria-hidden": "true" });
    this.list = h("ol.messages", {
      tabindex: "0",
      "aria-label": "Messages",
      onscroll: () => this.#onScroll(),
      onkeydown: (event) => this.#onKeyDown(event),
    });
    this.#press = new Press(this.list, { onRelease: () => this.#on.released() });
    this.jump = h(
      "button.jump",
      { type: "button", hidden: true, onclick: () => this.scrollToBottom() },
      icon("down"),
      h("span", {}),
    );
    this.element = h("div.scroll-frame", {}, this.list, this.jump);
    this.#olderObserver = new IntersectionObserver(([entry]) => entry.isIntersecting && this.#on.older(), {
      root: this.list,
      rootMargin: "400px 0px 0px",
    });
  }

  close() {
    this.#olderObserver.disconnect();
  }

  get isAtBottom() {
    return this.#isAtBottom;
  }

  /** The greatest sequence that is completely on the screen; 0 if there is none. */
  get lastVisible() {
    const bottom = this.list.scrollTop + this.list.clientHeight;
    const shown = [...this.list.querySelectorAll("[data-sequence]")];
    const last = shown.findLast((node) => node.offsetTop + node.offsetHeight <= bottom);
    return Number(last?.dataset.sequence ?? 0);
  }

  /** A message arrived that the reader does not see. */
  addUnseen() {
    if (!this.#isAtBottom) this.#unseen += 1;
  }

  /** Show these items. `first` is the first sequence of the log; at the top, older ones are requested if there are. */
  render(items, { first, hasOlder }) {
    const before = this.list.scrollHeight - this.list.scrollTop;
    const isPrepended = this.#firstShown && first < this.#firstShown;
    this.#reconcile(hasOlder ? [{ key: "older", signature: "", build: () => this.sentinel }, ...items] : items);
    this.#firstShown = first;
    if (this.#isAtBottom) this.list.scrollTop = this.list.scrollHeight;
    else if (isPrepended) this.list.scrollTop = this.list.scrollHeight - before;
    this.#renderJump();
  }

  /** If a page did not fill the screen, the observer saw no change: observe again. */
  observeOlder() {
    this.#olderObserver.unobserve(this.sentinel);
    if (this.sentinel.isConnected) this.#olderObserver.observe(this.sentinel);
  }

  scrollToBottom() {
    this.#isAtBottom = true;
    this.list.scrollTop = this.list.scrollHeight;
    this.#onScroll();
  }

  /** Show the first unread message under the top; without one, the end. */
  scrollToDivider() {
    const divider = this.list.querySelector(".unread");
    if (!divider) return this.scrollToBottom();
    this.list.scrollTop = divider.offsetTop - DIVIDER_TOP_PX;
    this.#onScroll();
  }

  /** Scroll to a message that is in the list, highlight it for a moment and focus it. Returns whether it is there. */
  scrollTo(sequence) {
    const item = this.list.querySelector(`[data-sequence="${sequence}"]`);
    if (!item) return false;
    this.#isAtBottom = false;
    item.scrollIntoView({ block: "center" });
    item.classList.add("is-target");
    setTimeout(() => item.classList.remove("is-target"), TARGET_MS);
    item.focus({ preventScroll: true });
    this.#onScroll();
    return true;
  }

  /** Update the list. An unchanged item keeps its node, and with it selection and focus; so does one that is pressed. */
  #reconcile(items) {
    const nodes = new Map();
    const focused = this.#focused();
    let cursor = this.list.firstChild;
    for (const { key, signature, build } of items) {
      const cached = this.#nodes.get(key);
      const isKept = cached && (cached.signature === signature || this.#press.isIn(cached.node));
      const entry = isKept ? cached : { node: build(), signature };
      const { node } = entry;
      nodes.set(key, entry);
      if (node === cursor) cursor = cursor.nextSibling;
      else this.list.insertBefore(node, cursor);
      if (cached && cached.node === focused?.item && node !== cached.node) focused.replacement = node;
    }
    while (cursor) {
      const next = cursor.nextSibling;
      cursor.remove();
      cursor = next;
    }
    this.#nodes = nodes;
    const { replacement, control } = focused ?? {};
    const next = replacement?.querySelector(`[data-focus="${control}"]`) ?? replacement;
    next?.focus({ preventScroll: true });
  }

  #focused() {
    const item = document.activeElement?.closest?.(".messages > li");
    return item && { item, control: document.activeElement.dataset.focus, replacement: null };
  }

  #onScroll() {
    const { scrollHeight, scrollTop, clientHeight } = this.list;
    this.#isAtBottom = scrollHeight - scrollTop - clientHeight < BOTTOM_MARGIN_PX;
    if (this.#isAtBottom) this.#unseen = 0;
    this.#renderJump();
    this.#on.scroll();
  }

  #renderJump() {
    this.jump.hidden = this.#isAtBottom;
    this.jump.lastChild.textContent = this.#unseen ? `${this.#unseen} new` : "";
    const label = this.#unseen ? `${this.#unseen} new messages: go to the end` : "Go to the end";
    this.jump.setAttribute("aria-label", label);
  }

  /** Arrow keys move between messages. */
  #onKeyDown(event) {
    const item = event.target.closest(".message");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (item && !step && event.target === item) return this.#on.key(event, item);
    if (!step || !this.list.children.length) return;
    const all = [...this.list.querySelectorAll(".message")];
    const next = item ? all[all.indexOf(item) + step] : step < 0 ? all.at(-1) : null;
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}
