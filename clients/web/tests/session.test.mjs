import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import { Session } from "../static/parley.js";
import { FakeSocket, FakeStorage, LOGIN, fakeFetch, flushPromises, inboxOf, startClient } from "./doubles.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
afterEach(() => mock.timers.reset());

const REFRESHED = { session_id: "s", access_token: "token-2", refresh_token: "refresh-2", expires_in: 900 };
const refreshing = { ...inboxOf(), "POST /api/auth/refresh": () => [200, REFRESHED] };

function session(routes, storage = new FakeStorage()) {
  const fetch = fakeFetch(routes);
  return { session: new Session({ url: "http://here", storage, fetch }), fetch, storage };
}

describe("Logging in", () => {
  test("a login survives a reload", async () => {
    const { session: first, storage } = session({ "POST /api/auth/verify": () => [201, LOGIN] });
    assert.equal(await first.verify({ phoneNumber: "+1", code: "123456", deviceId: "d" }), true);
    assert.equal(session({}, storage).session.user.user_id, "me");
  });

  test("the login id of the code is sent with it", async () => {
    const { session: one, fetch } = session({
      "POST /api/auth/request-code": () => [202, { login_id: "login_1", expires_in: 300, resend_after: 30 }],
      "POST /api/auth/verify": () => [200, LOGIN],
    });
    const { login_id: loginId } = await one.requestCode("+1");
    await one.verify({ phoneNumber: "+1", code: "123456", deviceId: "d", loginId });
    await one.requestCode("+1", loginId);
    assert.deepEqual(
      fetch.calls.map(({ body }) => body?.login_id),
      [undefined, "login_1", "login_1"],
    );
  });

  test("an error response has its code and its fields", async () => {
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

  test("a missing network is a retryable error", async () => {
    const { session: one } = session({});
    await assert.rejects(one.requestCode("+1"), { code: "unreachable", retryable: true });
  });

  test("so is an answer that breaks off, and every request has a timeout", async () => {
    const signals = [];
    const fetch = async (_, { signal }) => {
      signals.push(signal);
      return { status: 200, ok: true, json: () => Promise.reject(new TypeError("aborted")) };
    };
    const one = new Session({ url: "http://here", fetch });
    await assert.rejects(one.verify({ phoneNumber: "+1" }), { code: "unreachable", retryable: true });
    assert.ok(signals[0] instanceof AbortSignal);
    assert.equal(one.isOpen, false);
  });
});

describe("Tokens", () => {
  test("concurrent callers share one refresh of an expired token", async () => {
    const { session: one, fetch } = session(refreshing);
    one.open(LOGIN);
    mock.timers.tick(899_000);
    assert.deepEqual(await Promise.all([one.token(), one.token(), one.token()]), ["token-2", "token-2", "token-2"]);
    assert.equal(fetch.calls.length, 1);
    assert.equal(one.user.user_id, "me", "a refresh keeps the user");
  });

  test("a token that another tab has refreshed is used", async () => {
    const { session: one, fetch, storage } = session(refreshing);
    one.open(LOGIN);
    const { session: other } = session(refreshing, storage);
    mock.timers.tick(899_000);
    await other.token();
    assert.equal(await one.token(), "token-2");
    assert.equal(fetch.calls.length, 0);
  });

  test("a request with an expired token is repeated with a new one", async () => {
    const check = (_, headers) =>
      headers.Authorization === "Bearer token-2" ? [200, "yes"] : [401, { code: "token_expired" }];
    const { session: one } = session({ ...refreshing, "GET /api/users/me": check });
    one.open(LOGIN);
    assert.equal(await one.request("GET", "/api/users/me"), "yes");
  });

  test("a rejected refresh ends the session; an unreachable server does not", async () => {
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

  test("a login in another tab ends this session", () => {
    const { session: one, storage } = session({});
    one.open(LOGIN);
    let ended = 0;
    one.addEventListener("ended", () => (ended += 1));
    const { session: other } = session({}, storage);
    other.open({ ...LOGIN, session_id: "t", access_token: "token-9" });
    one.adopt();
    assert.equal(ended, 1);
  });

  test("a logout in another tab ends this session", () => {
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

  test("a fresh token is sent over the connection before the old one expires", async () => {
    const { client } = await startClient({ routes: refreshing });
    mock.timers.tick(870_000);
    FakeSocket.last.serverSend({ type: "heartbeat_ack" });
    await flushPromises();
    assert.deepEqual(FakeSocket.last.sent("authenticate"), [{ type: "authenticate", access_token: "token-2" }]);
    assert.equal(client.state, "online");
  });

  test("4401 gets a new token and reconnects with it", async () => {
    await startClient({ routes: refreshing });
    FakeSocket.last.serverClose(4401);
    await flushPromises();
    mock.timers.tick(1_000);
    await flushPromises();
    assert.deepEqual(FakeSocket.last.protocols, ["parley.v1", "bearer.token-2"]);
  });

  test("an answer that is no end of the session is tried again", async () => {
    let answer = [502, { code: "internal_error" }];
    await startClient({ routes: { ...inboxOf(), "POST /api/auth/refresh": () => answer } });
    FakeSocket.last.serverClose(4401);
    await flushPromises();
    mock.timers.tick(900_000);
    await flushPromises();
    assert.equal(FakeSocket.opened.length, 1);
    answer = [200, REFRESHED];
    mock.timers.tick(15_000);
    await flushPromises();
    assert.deepEqual(FakeSocket.last.protocols, ["parley.v1", "bearer.token-2"]);
  });

  test("4403 ends the session without a reconnect", async () => {
    const { client, session: one, of } = await startClient();
    FakeSocket.last.serverClose(4403);
    mock.timers.tick(60_000);
    await flushPromises();
    assert.equal(client.state, "ended");
    assert.equal(one.isOpen, false);
    assert.deepEqual(of("ended"), [{ reason: "session_revoked" }]);
    assert.equal(FakeSocket.opened.length, 1);
  });
});
