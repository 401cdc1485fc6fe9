// The HTTP half of the server contract: paths, tokens, timeouts and error bodies. The rules for the
// answers do not belong here; `sync.ts` and `history.ts` apply them.

import { BluetickError } from "./errors.ts";
import { noteAnswer, originHint } from "./origin.ts";
import type {
  ConversationBody,
  ConversationDetailBody,
  ErrorBody,
  InboxEntryBody,
  InboxPageBody,
  PageBody,
  PeopleBody,
  PreferenceRequest,
  PresencesBody,
  ProfileBody,
  ProfileRequest,
  ReceiptsBody,
  ServerBody,
  StatusesBody,
  TokenBody,
} from "./generated.ts";
import type { LoggedOut, Session } from "./types.ts";

/** Upper bound on one HTTP call. A call that takes longer fails with the code `network`. */
const TIMEOUT_MS = 20_000;

export type Fetch = typeof fetch;

/** Removes the slashes at the end of a URL. */
export const baseOf = (url: string): string => url.replace(/\/+$/, "");

type Query = Record<string, string | number | boolean | undefined>;

const queryOf = (query: Query): string => {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
};

/** The HTTP calls in progress. `Api.stop` aborts them. */
interface PendingCalls {
  readonly calls: Set<AbortController>;
  isStopped: boolean;
}

async function request<Answer>(call: Fetch, url: string, method: string, body?: unknown, token?: string, pending?: PendingCalls): Promise<Answer> {
  if (pending?.isStopped) throw new BluetickError("stopped", "The client has stopped.");
  const headers: Record<string, string> = {};
  if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const own = new AbortController();
  const timer = setTimeout(() => own.abort(), TIMEOUT_MS);
  pending?.calls.add(own);
  const options: RequestInit = { method, headers, signal: own.signal };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response: Response;
  let text: string;
  try {
    response = await call(url, options);
    text = await response.text();
    noteAnswer(url);
  } catch (cause) {
    if (pending?.isStopped) throw new BluetickError("stopped", "The client has stopped.");
    const message = originHint(url) ?? "The server cannot be reached. Check the connection and try again.";
    throw new BluetickError("network", message, 0, null, { cause });
  } finally {
    clearTimeout(timer);
    pending?.calls.delete(own);
  }
  let answer: unknown = null;
  try {
    answer = JSON.parse(text);
  } catch {
    // The answer has no JSON body, or a proxy wrote the body. The status is enough.
  }
  if (response.ok) return answer as Answer;
  const { code = response.status >= 500 ? "internal" : "unknown", message = `The server answered ${response.status}.` } =
    (answer as Partial<ErrorBody> | null)?.error ?? {};
  const after_s = Number(response.headers.get("retry-after") ?? Number.NaN);
  throw new BluetickError(code, message, response.status, Number.isFinite(after_s) ? after_s * 1_000 : null);
}

const sessionOf = ({ token, user_id, expires_at }: TokenBody): Session => ({ token, userId: user_id, expiresAt: expires_at });

/** The user id and the password of an account. */
export interface Credentials {
  readonly userId: string;
  readonly password: string;
}

/** Creates an account and logs in. Rejects with a `BluetickError`. */
export async function signUp(url: string, account: Credentials & { readonly displayName?: string }, call: Fetch = fetch): Promise<Session> {
  const { userId: user_id, password, displayName: display_name } = account;
  const body = { user_id, password, ...(display_name ? { display_name } : {}) };
  return sessionOf(await request<TokenBody>(call, `${baseOf(url)}/v1/signup`, "POST", body));
}

/** Logs in with a password. Rejects with a `BluetickError`. */
export async function logIn(url: string, { userId: user_id, password }: Credentials, call: Fetch = fetch): Promise<Session> {
  return sessionOf(await request<TokenBody>(call, `${baseOf(url)}/v1/login`, "POST", { user_id, password }));
}

/**
 * Revokes the token. With `everywhere`, revokes all tokens of the user that the server has issued
 * so far.
 */
export async function logOut(url: string, token: string, { everywhere = false } = {}, call: Fetch = fetch): Promise<void> {
  await request(call, `${baseOf(url)}/v1/logout`, "POST", { everywhere }, token);
}

/** The features that a server announces before login. */
export interface ServerOffer {
  readonly version: string;
  readonly canSignUp: boolean;
  /** False if the operator's own product issues the tokens. */
  readonly canLogIn: boolean;
  /** The maximum size of the content of one message, in bytes. 0 means no limit. */
  readonly contentBytes: number;
  /** The minimum length of a new password. */
  readonly passwordMinLength: number;
}

/** The minimum length of a password for a server that does not announce one. */
const PASSWORD_MIN_LENGTH = 8;

/** Fetches the features that a server announces before login. Needs no token. */
export async function serverOffer(url: string, call: Fetch = fetch): Promise<ServerOffer> {
  const { version, signup, login, content_bytes, password_min_length = PASSWORD_MIN_LENGTH } = await request<ServerBody>(call, `${baseOf(url)}/v1/server`, "GET");
  return { version, canSignUp: signup, canLogIn: login, contentBytes: content_bytes, passwordMinLength: password_min_length };
}

/** The source of the tokens for HTTP calls and for the WebSocket. */
export interface Tokens {
  current(): Promise<string>;
  /**
   * Returns a token other than `refused`. Returns null if none is available; the client is then
   * logged out.
   */
  fresh(refused: string, reason?: LoggedOut): Promise<string | null>;
}

/**
 * The HTTP calls of one logged-in user. A call that the server answers with 401 is repeated once
 * with a fresh token.
 */
export class Api {
  #base: string;
  #tokens: Tokens;
  #fetch: Fetch;
  #pending: PendingCalls = { calls: new Set(), isStopped: false };

  constructor(url: string, tokens: Tokens, call: Fetch) {
    this.#base = `${baseOf(url)}/v1`;
    this.#tokens = tokens;
    this.#fetch = call;
  }

  /** Aborts the calls in progress and rejects later ones with `stopped`. */
  stop(): void {
    this.#pending.isStopped = true;
    for (const call of this.#pending.calls) call.abort();
  }

  inbox(query: { limit: number; archived: boolean; cursor?: string }): Promise<InboxPageBody> {
    return this.#call("GET", `/conversations${queryOf(query)}`);
  }

  openDirect(peer: string): Promise<ConversationBody> {
    return this.#call("POST", "/conversations", { kind: "direct", peer });
  }

  createGroup(title: string, members: readonly string[]): Promise<ConversationBody> {
    return this.#call("POST", "/conversations", { kind: "group", title, members });
  }

  conversation(id: string): Promise<ConversationDetailBody> {
    return this.#call("GET", `/conversations/${encodeURIComponent(id)}`);
  }

  changeSettings(id: string, change: PreferenceRequest): Promise<InboxEntryBody> {
    return this.#call("PATCH", `/conversations/${encodeURIComponent(id)}/settings`, change);
  }

  messages(id: string, query: { before_seq?: number; after_seq?: number; limit: number }): Promise<PageBody> {
    return this.#call("GET", `/conversations/${encodeURIComponent(id)}/messages${queryOf(query)}`);
  }

  markRead(id: string, seq: number): Promise<unknown> {
    return this.#call("POST", `/conversations/${encodeURIComponent(id)}/read`, { seq });
  }

  statuses(id: string): Promise<StatusesBody> {
    return this.#call("GET", `/conversations/${encodeURIComponent(id)}/status`);
  }

  receipts(id: string, seq: number): Promise<ReceiptsBody> {
    return this.#call("GET", `/conversations/${encodeURIComponent(id)}/status${queryOf({ seq })}`);
  }

  presence(id: string): Promise<PresencesBody> {
    return this.#call("GET", `/conversations/${encodeURIComponent(id)}/presence`);
  }

  addMembers(id: string, members: readonly string[]): Promise<ConversationBody> {
    return this.#call("POST", `/conversations/${encodeURIComponent(id)}/members`, { members });
  }

  removeMember(id: string, userId: string): Promise<unknown> {
    return this.#call("DELETE", `/conversations/${encodeURIComponent(id)}/members/${encodeURIComponent(userId)}`);
  }

  searchPeople(search: string, limit: number): Promise<PeopleBody> {
    return this.#call("GET", `/people${queryOf({ search, limit })}`);
  }

  people(userIds: readonly string[]): Promise<PeopleBody> {
    return this.#call("GET", `/people?${new URLSearchParams(userIds.map((id) => ["user_id", id]))}`);
  }

  profile(): Promise<ProfileBody> {
    return this.#call("GET", "/me");
  }

  changeProfile(change: ProfileRequest): Promise<ProfileBody> {
    return this.#call("PATCH", "/me", change);
  }

  async #call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const token = await this.#tokens.current();
    try {
      return await request<Answer>(this.#fetch, this.#base + path, method, body, token, this.#pending);
    } catch (error) {
      if (!(error instanceof BluetickError) || error.status !== 401) throw error;
      const fresh = await this.#tokens.fresh(token, error.code === "token_revoked" ? "revoked" : "expired");
      if (fresh === null) throw error;
      return request<Answer>(this.#fetch, this.#base + path, method, body, fresh, this.#pending);
    }
  }
}
