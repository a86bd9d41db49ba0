/** Follows a chat with the earlier `parley.js`, sends a message, and prints each message as a line of JSON. */
import { Parley, Session } from "./parley.mjs";

const [url, chatId, login] = process.argv.slice(2);
const session = new Session({ url });
session.open(JSON.parse(login));
const parley = new Parley({ session });
parley.addEventListener("message", ({ detail }) => console.log(JSON.stringify(detail)));
parley.addEventListener("failed", ({ detail }) => console.error(detail.error.message));
parley.start();
parley.follow(chatId, 0);
parley.send(chatId, "from the earlier parley.js");
setTimeout(() => process.exit(1), 60_000);
