/** Login, tokens and REST requests. */

const REQUEST_TIMEOUT_MS = 20_000;

/** An error response. `code` is stable; `retryable` says whether the same request may succeed later. */
export class ParleyError extends Error {
  constructor({ code, detail, title, status = 0, errors = {}, retry_after: retryAfter = null }) {
    super(detail || title || code);
    this.name = "ParleyError";
    this.code = code;
    this.status = status;
    this.errors = errors;
    this.retryAfter = retryAfter;
  }

  get retryable() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

/**
 * A login session and its tokens. `storage` (getItem, setItem, removeItem) keeps the tokens and shares them between
 * tabs; without it they last as long as this object. Call `adopt` when another tab has changed the storage.
 */
export class Session extends EventTarget {
  #storage;
  #key;
  #fetch;
  #now;
  #state = null;
  #refreshing = null;

  constructor({ url = globalThis.location?.origin ?? "", storage = null, key = "parley.session", fetch, now } = {}) {
    super();
    this.url = url;
    this.#storage = storage;
    this.#key = key;
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#now = now ?? Date.now;
    this.adopt();
  }

  get isOpen() {
    return this.#state !== null;
  }

  get user() {
    return this.#state?.user ?? null;
  }

  get sessionId() {
    return this.#state?.session_id ?? null;
  }

  /** When the access token expires, in milliseconds since 1970. */
  get expiresAt() {
    return this.#state?.expires_at ?? 0;
  }

  /** Request a login code by SMS. Resolves to `{login_id, expires_in, resend_after}`, in seconds.
   * To send the code again, pass the last `login_id` for the number. */
  requestCode(phoneNumber, loginId) {
    return this.call("POST", "/api/auth/request-code", { phone_number: phoneNumber, login_id: loginId });
  }

  /** Log in. `loginId` is the `login_id` of `requestCode`. Resolves to whether the user is new. */
  async verify({ phoneNumber, code, deviceId, loginId }) {
    const body = { phone_number: phoneNumber, code, device_id: deviceId, login_id: loginId };
    const { status, data } = await this.#fetchJson("POST", "/api/auth/verify", body);
    this.open(data);
    return status === 201;
  }

  /** Start from the response of a login or a refresh. */
  open(login) {
    this.#save({ ...this.#state, ...login, expires_at: this.#now() + login.expires_in * 1000 });
  }

  /** Replace the stored user, as returned by the server. */
  rename(user) {
    this.#save({ ...this.#state, user });
  }

  /** Delete the tokens. `reason`: `logged_out`, or the server's error code. */
  end(reason) {
    if (this.#state === null) return;
    this.#save(null);
    this.#emit("ended", { reason });
  }

  /** Load the tokens from the storage. */
  adopt() {
    const stored = this.#storage?.getItem(this.#key);
    const before = this.#state;
    if (this.#storage) this.#state = stored ? JSON.parse(stored) : null;
    if (before && before.session_id !== this.#state?.session_id) this.#emit("ended", { reason: "logged_out" });
    else if (before?.access_token !== this.#state?.access_token) this.#emit("tokens", {});
  }

  /** An access token valid for at least `margin` ms, refreshed if needed. Rejects when the session is over. */
  async token({ renew = false, margin = 20_000 } = {}) {
    const previous = this.#state?.access_token;
    this.adopt();
    if (!this.#state) throw new ParleyError({ code: "authentication_required", status: 401, detail: "Not logged in" });
    const isFresh = this.expiresAt - this.#now() > margin;
    if (isFresh && !(renew && this.#state.access_token === previous)) return this.#state.access_token;
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    await this.#refreshing;
    return this.#state.access_token;
  }

  async #refresh() {
    try {
      this.open(await this.call("POST", "/api/auth/refresh", { refresh_token: this.#state.refresh_token }));
    } catch (error) {
      if (error.status === 401) this.end(error.code);
      throw error;
    }
  }

  /** An API request with this session's token. Refreshes an expired token and tries once more. */
  async request(method, path, body, headers = {}) {
    try {
      return await this.call(method, path, body, { ...headers, ...bearer(await this.token()) });
    } catch (error) {
      if (error.code === "session_revoked") this.end(error.code);
      if (error.code !== "token_expired") throw error;
    }
    return this.call(method, path, body, { ...headers, ...bearer(await this.token({ renew: true })) });
  }

  /** A request without a token. Rejects with `ParleyError`; without a response its code is `unreachable`, status 0. */
  async call(method, path, body, headers = {}) {
    return (await this.#fetchJson(method, path, body, headers)).data;
  }

  async #fetchJson(method, path, body, headers = {}) {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const options = { method, headers: { Accept: "application/json", ...headers }, cache: "no-store", signal };
    if (body !== undefined) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    let response, data;
    try {
      response = await this.#fetch(this.url + path, options);
      data = await readJson(response);
    } catch {
      throw new ParleyError({ code: "unreachable", detail: "The server cannot be reached." });
    }
    if (response.ok) return { status: response.status, data };
    const retryAfter = Number(response.headers.get("Retry-After")) || null;
    throw new ParleyError({ code: "internal_error", ...data, status: response.status, retry_after: retryAfter });
  }

  #save(state) {
    this.#state = state;
    if (state) this.#storage?.setItem(this.#key, JSON.stringify(state));
    else this.#storage?.removeItem(this.#key);
    if (state) this.#emit("tokens", {});
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** The body; null without one, also for an error page of a proxy, which is no JSON. */
async function readJson(response) {
  if (response.status === 204) return null;
  return response.ok ? response.json() : response.json().catch(() => null);
}

function bearer(token) {
  return { Authorization: `Bearer ${token}` };
}
