// Starts the real server as a child process on a free port with a fresh data directory, and stops
// it by its handle. Users do not belong here; `fixture.ts` creates them.

import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Relative to `build/test/support`. */
const DEFAULT_BINARY = fileURLToPath(new URL("../../../../../target/debug/bluetick", import.meta.url));
/** Upper bound on the start of the server. */
const STARTS_WITHIN_MS = 30_000;
/** Settings without rate limits. With limits, large tests would fail. */
const NO_LIMITS = {
  BLUETICK_LIMITS__SENDS_PER_SECOND: "0",
  BLUETICK_LIMITS__REQUESTS_PER_SECOND: "0",
  BLUETICK_LIMITS__ACKS_PER_SECOND: "0",
  BLUETICK_LIMITS__LOGINS_PER_MINUTE: "0",
  BLUETICK_LIMITS__LOGINS_PER_ADDRESS_PER_MINUTE: "0",
  BLUETICK_LIMITS__CONVERSATIONS_PER_USER_PER_DAY: "0",
  BLUETICK_LIMITS__GROUP_INVITATIONS_PER_USER_PER_HOUR: "0",
  BLUETICK_LIMITS__MEMBERS_ADDED_PER_USER_PER_HOUR: "0",
};

/** The running servers. They end with the test process. */
const running = new Set<ChildProcess>();
process.once("exit", () => running.forEach((child) => child.kill("SIGKILL")));
process.once("SIGTERM", () => process.exit(1));

export class Server {
  url = "";
  readonly directory: string;
  #settings: Record<string, string>;
  #child: ChildProcess | null = null;

  private constructor(directory: string, settings: Record<string, string>) {
    this.directory = directory;
    this.#settings = settings;
  }

  static async start(settings: Record<string, string> = {}): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "bluetick-sdk-")), settings);
    await server.#spawn("127.0.0.1:0");
    return server;
  }

  get address(): { host: string; port: number } {
    const { hostname, port } = new URL(this.url);
    return { host: hostname, port: Number(port) };
  }

  async #spawn(listen: string): Promise<void> {
    const binary = process.env["BLUETICK_BINARY"] ?? DEFAULT_BINARY;
    if (!existsSync(binary)) throw new Error(`no server binary at ${binary}: build it (cargo build -p bluetick) or set BLUETICK_BINARY`);
    const child = spawn(binary, ["serve", "--listen", listen, "--data-dir", this.directory], {
      // The server reads every variable that starts with `BLUETICK_` as a setting, so pass no
      // others.
      env: { PATH: process.env["PATH"], ...NO_LIMITS, ...this.#settings },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    let output = "";
    const found = new Promise<string>((resolve, reject) => {
      const look = (chunk: Buffer): void => {
        if (output.length > 100_000) return;
        output += chunk.toString();
        const url = /http:\/\/[\d.]+:\d+/.exec(output)?.[0];
        if (url) resolve(url);
      };
      child.stdout.on("data", look);
      child.stderr.on("data", look);
      child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${output}`)));
      setTimeout(() => reject(new Error(`the server did not start: ${output}`)), STARTS_WITHIN_MS).unref();
    });
    this.url = await found;
  }

  /** Kills the server, like a power failure. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Ends the server gracefully, like an operator: clients get a reconnect delay. */
  async terminate(): Promise<void> {
    await this.#end("SIGTERM");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  }

  /** Starts the server again on the same address with the same data. */
  async startAgain(): Promise<void> {
    await this.#spawn(new URL(this.url).host);
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true });
  }
}
