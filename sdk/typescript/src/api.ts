// The HTTP half of the contract: paths, tokens and the shape of errors. What the answers mean is decided elsewhere.

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

const TIMEOUT_MS = 20_000;

export type Fetch = typeof fetch;

/** Without a slash at its end. */
export const baseOf = (url: string): string => url.replace(/\/+$/, "");

type Query = Record<string, string | number | boolean | undefined>;

const queryOf = (query: Query): string => {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
};

/** What ends with a client. */
interface UnderWay {
  readonly calls: Set<AbortController>;
  isStopped: boolean;
}

async function request<Answer>(call: Fetch, url: string, method: string, body?: unknown, token?: string, underWay?: UnderWay): Promise<Answer> {
  if (underWay?.isStopped) throw new BluetickError("stopped", "The client has stopped.");
  const headers: Record<string, string> = {};
  if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const own = new AbortController();
  const timer = setTimeout(() => own.abort(), TIMEOUT_MS);
  underWay?.calls.add(own);
  const options: RequestInit = { method, headers, signal: own.signal };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response: Response;
  let text: string;
  try {
    response = await call(url, options);
    text = await response.text();
    noteAnswer(url);
  } catch (cause) {
    if (underWay?.isStopped) throw new BluetickError("stopped", "The client has stopped.");
    const message = originHint(url) ?? "The server cannot be reached. Check the connection and try again.";
    throw new BluetickError("network", message, 0, null, { cause });
  } finally {
    clearTimeout(timer);
    underWay?.calls.delete(own);
  }
  let answer: unknown = null;
  try {
    answer = JSON.parse(text);
  } catch {
    // No body, or a proxy's page; the status says enough.
  }
  if (response.ok) return answer as Answer;
  const { code = response.status >= 500 ? "internal" : "unknown", message = `The server answered ${response.status}.` } =
    (answer as Partial<ErrorBody> | null)?.error ?? {};
  const after_s = Number(response.headers.get("retry-after") ?? Number.NaN);
  throw new BluetickError(code, message, response.status, Number.isFinite(after_s) ? after_s * 1_000 : null);
}

const sessionOf = ({ token, user_id, expires_at }: TokenBody): Session => ({ token, userId: user_id, expiresAt: expires_at });

export interface Credentials {
  readonly userId: string;
  readonly password: string;
}

/** Makes an account and logs in. */
export async function signUp(url: string, account: Credentials & { readonly displayName?: string }, call: Fetch = fetch): Promise<Session> {
  const { userId: user_id, password, displayName: display_name } = account;
  const body = { user_id, password, ...(display_name ? { display_name } : {}) };
  return sessionOf(await request<TokenBody>(call, `${baseOf(url)}/v1/signup`, "POST", body));
}

export async function logIn(url: string, { userId: user_id, password }: Credentials, call: Fetch = fetch): Promise<Session> {
  return sessionOf(await request<TokenBody>(call, `${baseOf(url)}/v1/login`, "POST", { user_id, password }));
}

/** Makes the token void, and with `everywhere` all others of the user that were issued until now. */
export async function logOut(url: string, token: string, { everywhere = false } = {}, call: Fetch = fetch): Promise<void> {
  await request(call, `${baseOf(url)}/v1/logout`, "POST", { everywhere }, token);
}

/** What a server offers to people it does not know yet. */
export interface ServerOffer {
  readonly version: string;
  readonly canSignUp: boolean;
  /** Otherwise tokens come from the operator's own product. */
  readonly canLogIn: boolean;
  /** The largest content of one message; 0: there is no limit. */
  readonly contentBytes: number;
  /** The minimum length of a new password. */
  readonly passwordMinLength: number;
}

/** Where a server does not tell. */
const PASSWORD_MIN_LENGTH = 8;

export async function serverOffer(url: string, call: Fetch = fetch): Promise<ServerOffer> {
  const { version, signup, login, content_bytes, password_min_length = PASSWORD_MIN_LENGTH } = await request<ServerBody>(call, `${baseOf(url)}/v1/server`, "GET");
  return { version, canSignUp: signup, canLogIn: login, contentBytes: content_bytes, passwordMinLength: password_min_length };
}

/** Where tokens come from. */
export interface Tokens {
  current(): Promise<string>;
  /** Another one than `refused`; null when there is none, after which one is logged out. */
  fresh(refused: string, reason?: LoggedOut): Promise<string | null>;
}

/** Calls on behalf of one user. */
export class Api {
  #base: string;
  #tokens: Tokens;
  #fetch: Fetch;
  #underWay: UnderWay = { calls: new Set(), isStopped: false };

  constructor(url: string, tokens: Tokens, call: Fetch) {
    this.#base = `${baseOf(url)}/v1`;
    this.#tokens = tokens;
    this.#fetch = call;
  }

  /** Ends what is under way. */
  stop(): void {
    this.#underWay.isStopped = true;
    for (const call of this.#underWay.calls) call.abort();
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
      return await request<Answer>(this.#fetch, this.#base + path, method, body, token, this.#underWay);
    } catch (error) {
      if (!(error instanceof BluetickError) || error.status !== 401) throw error;
      const fresh = await this.#tokens.fresh(token, error.code === "token_revoked" ? "revoked" : "expired");
      if (fresh === null) throw error;
      return request<Answer>(this.#fetch, this.#base + path, method, body, fresh, this.#underWay);
    }
  }
}
