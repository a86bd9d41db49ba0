/**
 * The web client's own code beside a chat: reads commands as lines of JSON and answers each with a line.
 *
 * `{open: chatId}` opens a chat on a live connection; `{state: chatId, until: sequence}` waits for that entry, reads
 * the whole history and answers what is shown; `{replay: [operation, …]}` answers what recorded operations of another
 * client's log leave in a log of `protocol/log.js`.
 */
import { createInterface } from "node:readline";
import { ChatLog, Parley, Session } from "../../../clients/web/static/parley.js";

const POLL_MS = 10;
const [url, login] = process.argv.slice(2);
const session = new Session({ url });
session.open(JSON.parse(login));
const parley = new Parley({ session });

const shown = (log) => ({ timeline: log.timeline, pins: log.pins, skipped: log.skipped });
const pause = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));

/** A killed process answers nothing: ask until another one, or the same, does. */
async function untilAnswered(request) {
  for (;;) {
    try {
      return await request();
    } catch (error) {
      if (!error.retryable) throw error;
      await pause();
    }
  }
}

async function open(chatId) {
  await untilAnswered(() => parley.open(chatId, { limit: 3 }));
  await untilAnswered(() => parley.loadPins(chatId));
  return {};
}

async function state(chatId, until) {
  for (parley.nudge(); parley.lastSeen(chatId) < until; await pause());
  const log = parley.log(chatId);
  while (log.hasOlder) await untilAnswered(() => parley.loadOlder(chatId, { limit: 7 }));
  return shown(log);
}

function replay(operations) {
  const log = new ChatLog();
  const reads = new Map();
  for (const { name, read, entries } of operations) {
    if (name === "begin_read") reads.set(read, log.beginRead());
    else if (name === "end_page") log.endPage(reads.get(read), entries);
    else if (name === "end_pins") log.endPins(reads.get(read), entries);
    else if (name === "cancel_read") log.cancelRead(reads.get(read));
    else log.apply(entries[0]);
  }
  return shown(log);
}

parley.start();
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const answer = command.open
    ? await open(command.open)
    : command.state
      ? await state(command.state, command.until)
      : replay(command.replay);
  console.log(JSON.stringify(answer));
}
process.exit(0);
