// A server with users and their clients, and helpers that wait for conditions. Assertions about
// behaviour do not belong here.

import type { TestContext } from "node:test";
import { BluetickClient, signUp } from "../../src/node/index.ts";
import type { ClientOptions, Conversation, Session } from "../../src/node/index.ts";
import { Server } from "./server.ts";

/** The password of every user. */
const PASSWORD = "correct horse battery";
/** Time limit of `until`. If it is too short, tests fail on a slow machine. */
const WITHIN_MS = 20_000;

/** Polls until the condition holds. Throws after `within_ms`. */
export async function until(holds: () => boolean | Promise<boolean>, condition: string, within_ms = WITHIN_MS): Promise<void> {
  const end = Date.now() + within_ms;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not true after ${within_ms} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/**
 * Waits until at most `left` messages are in the outbox. It has no total time limit, but each
 * message has one.
 */
export async function sentBut(left: number, client: BluetickClient): Promise<void> {
  for (let waiting = client.waitingCount; waiting > left; waiting = client.waitingCount) {
    await until(() => client.waitingCount < waiting, `one more of ${waiting} is sent`);
  }
}

/** The server of a test file. Each test creates its own users. */
export class Fixture {
  readonly server: Server;
  static #users = 0;

  private constructor(server: Server) {
    this.server = server;
  }

  static async start(settings: Record<string, string> = {}): Promise<Fixture> {
    return new Fixture(await Server.start(settings));
  }

  async stop(): Promise<void> {
    await this.server.stop();
  }

  /** Creates a user with a unique id. */
  user(name: string): Promise<Session> {
    Fixture.#users += 1;
    return signUp(this.server.url, { userId: `${name}-${Fixture.#users}`, password: PASSWORD });
  }

  /** Creates a client that stops with the test and reconnects quickly. */
  client(test: TestContext, session: Session, options: Partial<ClientOptions> = {}): BluetickClient {
    const { token, userId } = session;
    const client = new BluetickClient({ url: this.server.url, token, userId, random: () => 0.02, ...options });
    test.after(() => client.stop());
    return client;
  }

  /** Creates and starts a client, and waits until it has caught up. */
  async online(test: TestContext, session: Session, options: Partial<ClientOptions> = {}): Promise<BluetickClient> {
    const client = this.client(test, session, options);
    await client.start();
    await isOnline(client);
    return client;
  }

  /** Creates two online users with a conversation. */
  async pair(test: TestContext, options: Partial<ClientOptions> = {}): Promise<Pair> {
    const [aliceSession, bobSession] = [await this.user("alice"), await this.user("bob")];
    const alice = await this.online(test, aliceSession, options);
    const bob = await this.online(test, bobSession);
    const chat = await alice.openDirect(bob.userId);
    // Bob's inbox does not list the conversation before its first message, so open it here as well.
    const reply = await bob.openDirect(alice.userId);
    return { alice, bob, aliceSession, bobSession, chat, reply };
  }
}

export interface Pair {
  readonly alice: BluetickClient;
  readonly bob: BluetickClient;
  readonly aliceSession: Session;
  readonly bobSession: Session;
  readonly chat: Conversation;
  readonly reply: Conversation;
}

export const isOnline = (client: BluetickClient): Promise<void> => until(() => client.connection.caughtUp, `${client.userId} has caught up`);

export const isOffline = (client: BluetickClient): Promise<void> => until(() => client.connection.state !== "online", `${client.userId} is offline`);

export const texts = (conversation: Conversation): string[] => conversation.messages.map(({ content }) => content);

export const numbered = (count: number, from = 1): string[] => Array.from({ length: count }, (_, index) => `number ${from + index}`);

/** Reads all messages of a conversation from the server, the oldest first. */
export async function stored(url: string, { token }: Session, conversationId: string): Promise<{ seq: number; content: string; message_id: string }[]> {
  const all = [];
  for (let after: number | null = 0; after !== null; ) {
    const response: Response = await fetch(`${url}/v1/conversations/${conversationId}/messages?after_seq=${after}&limit=100`, { headers: { authorization: `Bearer ${token}` } });
    const page = (await response.json()) as { messages: { seq: number; content: string; message_id: string }[]; next_after_seq: number | null };
    all.push(...page.messages);
    after = page.next_after_seq;
  }
  return all;
}

/** Returns a generator of numbers from 0 up to 1 that is deterministic for a seed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
