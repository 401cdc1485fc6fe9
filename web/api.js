// The HTTP half of the contract. Knows paths and the shape of errors; nothing about what is on the screen.

const TIMEOUT_MS = 20_000;

/** A refusal by the server (with its code), or `network` when no answer came. */
const failure = (status, code, message) => Object.assign(new Error(message), { status, code });

async function request(method, path, body, token) {
  const headers = {};
  if (token) headers.authorization = `Bearer ${token}`;
  if (body) headers["content-type"] = "application/json";
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  let response, text;
  try {
    response = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
    text = await response.text();
  } catch {
    throw failure(0, "network", "The server cannot be reached. Check the connection and try again.");
  }
  let answer = null;
  try {
    answer = JSON.parse(text);
  } catch {
    // No body, or a proxy's page; the status says enough.
  }
  if (response.ok) return answer;
  const { code = "unknown", message = `The server answered ${response.status}.` } = answer?.error ?? {};
  throw failure(response.status, code, message);
}

export const signUp = (user_id, password) => request("POST", "/v1/signup", { user_id, password });
export const logIn = (user_id, password) => request("POST", "/v1/login", { user_id, password });

/** Calls on behalf of one user. `onExpired` hears of a token that is no longer good. */
export class Api {
  constructor(token, onExpired) {
    this.token = token;
    this.onExpired = onExpired;
  }

  inbox = (query) => this.#call("GET", `/conversations?${new URLSearchParams(query)}`);
  startDirect = (peer) => this.#call("POST", "/conversations", { kind: "direct", peer });
  startGroup = (title, members) => this.#call("POST", "/conversations", { kind: "group", title, members });
  conversation = (id) => this.#call("GET", `/conversations/${id}`);
  setConversation = (id, change) => this.#call("PATCH", `/conversations/${id}/settings`, change);
  messages = (id, query) => this.#call("GET", `/conversations/${id}/messages?${new URLSearchParams(query)}`);
  receipts = (id, seq) => this.#call("GET", `/conversations/${id}/status?seq=${seq}`);
  presence = (id) => this.#call("GET", `/conversations/${id}/presence`);
  addMember = (id, user) => this.#call("POST", `/conversations/${id}/members`, { members: [user] });
  removeMember = (id, user) => this.#call("DELETE", `/conversations/${id}/members/${encodeURIComponent(user)}`);
  profile = () => this.#call("GET", "/me");
  setProfile = (change) => this.#call("PATCH", "/me", change);

  async #call(method, path, body) {
    try {
      return await request(method, `/v1${path}`, body, this.token);
    } catch (error) {
      if (error.status === 401) this.onExpired();
      throw error;
    }
  }
}
