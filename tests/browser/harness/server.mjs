// The real server as a child process, on a free port and in its own data directory.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const BINARY = process.env.BLUETICK_BINARY ?? fileURLToPath(new URL("../../../target/debug/bluetick", import.meta.url));
/** Time limit for the start of the server. If it is too short, tests fail on a slow machine. */
const START_MS = 60_000;

export class Server {
  #child = null;

  static async start(env = {}) {
    const server = new Server();
    server.env = env;
    server.directory = await mkdtemp(join(tmpdir(), "bluetick-browser-"));
    server.listen = "127.0.0.1:0";
    await server.resume();
    return server;
  }

  /** Starts again after `kill`, on the same port and data directory. */
  async resume() {
    const args = ["serve", "--listen", this.listen, "--data-dir", this.directory];
    const limits = [
      "SENDS_PER_SECOND",
      "REQUESTS_PER_SECOND",
      "LOGINS_PER_ADDRESS_PER_MINUTE",
      "CONVERSATIONS_PER_USER_PER_DAY",
      "GROUP_INVITATIONS_PER_USER_PER_HOUR",
      "MEMBERS_ADDED_PER_USER_PER_HOUR",
    ];
    const unlimited = Object.fromEntries(limits.map((limit) => [`BLUETICK_LIMITS__${limit}`, "0"]));
    // Only these variables: every name that starts with BLUETICK_ is a setting of the server.
    const env = { PATH: process.env.PATH, ...unlimited, ...this.env };
    const child = spawn(BINARY, args, { env, stdio: ["ignore", "pipe", "ignore"] });
    this.#child = child;
    const failed = new Promise((_, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the server exited with ${code} before it listened`)));
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
    this.url = await Promise.race([addressIn(child.stdout), failed]);
    clearTimeout(timer);
    child.removeAllListeners("exit");
    child.stdout.resume();
    this.listen = new URL(this.url).host;
  }

  async kill(signal = "SIGKILL") {
    const child = this.#child;
    this.#child = null;
    if (!child) return;
    const gone = once(child, "exit");
    child.kill(signal);
    await gone;
  }

  async stop() {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** One call of the API. */
  async call(method, path, token, body) {
    const headers = { "content-type": "application/json" };
    if (token) headers.authorization = `Bearer ${token}`;
    const answer = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    const json = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${json.error.code}`);
    return json;
  }

  /** Creates users without an account: users of the operator's own product, each with a token. */
  async mint(users) {
    const key = (await readFile(join(this.directory, "admin.key"), "utf8")).trim();
    for (const user_id of users) await this.call("POST", "/v1/tokens", key, { user_id, ttl_s: 3_600 });
  }

  /** Archives all messages and returns how many messages the archive holds. */
  async archive() {
    const key = (await readFile(join(this.directory, "admin.key"), "utf8")).trim();
    const { job_id } = await this.call("POST", "/v1/archive/run", key, { partial: true });
    for (;;) {
      const { cold, last_job } = await this.call("GET", "/v1/archive", key);
      if (last_job?.job_id === job_id) return cold.messages;
      await new Promise((resume) => setTimeout(resume, 50));
    }
  }

  /** A user with an account, without a browser. */
  async account(user_id, display_name) {
    const { token } = await this.call("POST", "/v1/signup", null, { user_id, display_name, password: `${user_id}-password` });
    const call = (method, path, body) => this.call(method, path, token, body);
    return {
      token,
      call,
      direct: async (peer) => (await call("POST", "/v1/conversations", { kind: "direct", peer })).conversation_id,
      send: (id, content) => call("POST", `/v1/conversations/${id}/messages`, { message_id: crypto.randomUUID(), content }),
    };
  }
}

async function addressIn(output) {
  for await (const line of createInterface({ input: output })) {
    const url = line.match(/http:\/\/[^/\s]+/)?.[0];
    if (url) return url;
  }
  throw new Error("the server printed no address");
}
