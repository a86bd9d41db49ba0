import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { Session } from "../static/parley.js";
import { EMPTY_INBOX, FakeSocket, FakeStorage, LOGIN, fakeFetch, settled, startClient } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

const REFRESHED = { session_id: "s", access_token: "token-2", refresh_token: "refresh-2", expires_in: 900 };
const refreshing = { ...EMPTY_INBOX, "POST /api/auth/refresh": () => [200, REFRESHED] };

function session(routes, storage = new FakeStorage()) {
  const fetch = fakeFetch(routes);
  return { session: new Session({ url: "http://here", storage, fetch }), fetch, storage };
}

describe("Logging in", () => {
  test("a login is kept for the next page", async () => {
    const { session: first, storage } = session({ "POST /api/auth/verify": () => [201, LOGIN] });
    assert.equal(await first.verify({ phoneNumber: "+1", code: "123456", deviceId: "d" }), true);
    assert.equal(session({}, storage).session.user.user_id, "me");
  });

  test("a refusal tells its code and its fields", async () => {
    const problem = { code: "invalid_code", detail: "Wrong", errors: { code: ["No."] } };
    const { session: one } = session({ "POST /api/auth/verify": () => [401, problem] });
    await assert.rejects(one.verify({}), {
      code: "invalid_code",
      status: 401,
      errors: { code: ["No."] },
      message: "Wrong",
    });
    assert.equal(one.isOpen, false);
  });

  test("no network is a failure that may be retried", async () => {
    const { session: one } = session({});
    await assert.rejects(one.requestCode("+1"), { code: "unreachable", retryable: true });
  });
});

describe("Tokens", () => {
  test("an expired token is refreshed once, however many ask", async () => {
    const { session: one, fetch } = session(refreshing);
    one.open(LOGIN);
    mock.timers.tick(899_000);
    assert.deepEqual(await Promise.all([one.token(), one.token(), one.token()]), ["token-2", "token-2", "token-2"]);
    assert.equal(fetch.calls.length, 1);
    assert.equal(one.user.user_id, "me", "a refresh keeps the user");
  });

  test("a token that another tab has refreshed is taken over instead", async () => {
    const { session: one, fetch, storage } = session(refreshing);
    one.open(LOGIN);
    const { session: other } = session(refreshing, storage);
    mock.timers.tick(899_000);
    await other.token();
    assert.equal(await one.token(), "token-2");
    assert.equal(fetch.calls.length, 0);
  });

  test("a request whose token is refused as expired is repeated with a new one", async () => {
    const check = (_, headers) =>
      headers.Authorization === "Bearer token-2" ? [200, "yes"] : [401, { code: "token_expired" }];
    const { session: one } = session({ ...refreshing, "GET /api/users/me": check });
    one.open(LOGIN);
    assert.equal(await one.request("GET", "/api/users/me"), "yes");
  });

  test("a refused refresh ends the session; an unreachable server does not", async () => {
    const routes = {};
    const { session: one, storage } = session(routes);
    one.open(LOGIN);
    mock.timers.tick(899_000);
    await assert.rejects(one.token(), { code: "unreachable" });
    assert.equal(one.isOpen, true);
    routes["POST /api/auth/refresh"] = () => [401, { code: "session_revoked" }];
    await assert.rejects(one.token());
    assert.equal(one.isOpen, false);
    assert.equal(storage.getItem("parley.session"), null);
  });

  test("another login in another tab ends this one's session", () => {
    const { session: one, storage } = session({});
    one.open(LOGIN);
    let ended = 0;
    one.addEventListener("ended", () => (ended += 1));
    const { session: other } = session({}, storage);
    other.open({ ...LOGIN, session_id: "t", access_token: "token-9" });
    one.adopt();
    assert.equal(ended, 1);
  });

  test("a logout in another tab ends this one's session", () => {
    const { session: one, storage } = session({});
    one.open(LOGIN);
    const reasons = [];
    one.addEventListener("ended", ({ detail }) => reasons.push(detail.reason));
    storage.removeItem("parley.session");
    one.adopt();
    assert.deepEqual(reasons, ["logged_out"]);
  });
});

describe("Tokens of a connection", () => {
  test("the handshake carries the token in a subprotocol, never in the address", async () => {
    await startClient();
    assert.equal(FakeSocket.last.url, "ws://here/ws");
    assert.deepEqual(FakeSocket.last.protocols, ["parley.v1", "bearer.token-1"]);
  });

  test("the connection is given a fresh token before the old one ends", async () => {
    const { client } = await startClient({ routes: refreshing });
    mock.timers.tick(870_000);
    FakeSocket.last.says({ type: "heartbeat_ack" });
    await settled();
    assert.deepEqual(FakeSocket.last.sent("authenticate"), [{ type: "authenticate", access_token: "token-2" }]);
    assert.equal(client.state, "online");
  });

  test("4401 gets a new token and reconnects with it", async () => {
    await startClient({ routes: refreshing });
    FakeSocket.last.ends(4401);
    await settled();
    mock.timers.tick(1_000);
    await settled();
    assert.deepEqual(FakeSocket.last.protocols, ["parley.v1", "bearer.token-2"]);
  });

  test("4403 ends the session and does not come back", async () => {
    const { client, session: one, of } = await startClient();
    FakeSocket.last.ends(4403);
    mock.timers.tick(60_000);
    await settled();
    assert.equal(client.state, "ended");
    assert.equal(one.isOpen, false);
    assert.deepEqual(of("ended"), [{ reason: "session_revoked" }]);
    assert.equal(FakeSocket.opened.length, 1);
  });
});
