// Locks a directory for one process of this machine: a file in it names the process. If that
// process has died, which its process id and start time show, the lock is taken over. The content
// of the directory does not belong here.

import { constants, copyFile, link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BluetickError } from "../errors.ts";

/** The content of the lock file. */
interface Holder {
  readonly pid: number;
  /**
   * When the process started, in the units of the system; null if the system does not report it.
   */
  readonly began: string | null;
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // The process exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** Returns when a process started, because systems reuse process ids. */
async function beganAt(pid: number): Promise<string | null> {
  try {
    const line = await readFile(`/proc/${pid}/stat`, "utf8");
    // The name of the program is in parentheses and can contain any character. The start time is
    // the 20th field after it.
    return line.slice(line.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}

const textOf = (path: string): Promise<string | null> => readFile(path, "utf8").catch(() => null);

/** Returns the process that a lock file names, or null if it is not running. */
async function aliveHolder(text: string): Promise<Holder | null> {
  try {
    const { pid, began } = JSON.parse(text) as Holder;
    if (!isAlive(pid)) return null;
    const now = await beganAt(pid);
    return began !== null && now !== null && began !== now ? null : { pid, began };
  } catch {
    return null;
  }
}

/** The lock of one directory, shared by all users in this process. */
export class DirectoryLock {
  #directory: string;
  #path: string;
  #users = 0;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(directory: string) {
    this.#directory = directory;
    this.#path = join(directory, "lock");
  }

  /**
   * Acquires the lock for one user in this process; each user calls `release` once. Rejects with
   * `storage_in_use`.
   */
  acquire(): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#users === 0) await this.#acquireFile();
      this.#users += 1;
    });
  }

  release(): Promise<void> {
    return this.#enqueue(async () => {
      this.#users -= 1;
      if (this.#users > 0) return;
      const { pid } = JSON.parse((await textOf(this.#path)) ?? "{}") as Partial<Holder>;
      if (pid === process.pid) await rm(this.#path, { force: true });
    });
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => {});
    return done;
  }

  async #acquireFile(): Promise<void> {
    await mkdir(this.#directory, { recursive: true });
    const own = `${this.#path}.${process.pid}`;
    const holder: Holder = { pid: process.pid, began: await beganAt(process.pid) };
    // Write the file before it gets its name, so that no process reads a half-written file.
    await writeFile(own, JSON.stringify(holder), { mode: 0o600 });
    try {
      for (let attempt = 0; !(await this.#claim(own)); attempt += 1) {
        if (attempt === 10) throw this.#inUse("another process");
      }
    } finally {
      await rm(own, { force: true });
    }
  }

  /** Tries once to acquire the lock. Returns false if another attempt may succeed. */
  async #claim(own: string): Promise<boolean> {
    if (await this.#link(own)) return true;
    const text = await textOf(this.#path);
    if (text === null) return false;
    const holder = await aliveHolder(text);
    if (holder) throw this.#inUse(`process ${holder.pid}`);
    const old = `${own}.old`;
    await rename(this.#path, old).catch(() => {});
    // Another process may have taken the lock over in between. Restore its file then.
    const taken = await textOf(old);
    if (taken !== null && taken !== text) await link(old, this.#path).catch(() => {});
    await rm(old, { force: true });
    return false;
  }

  /** Gives the file its name. Returns false if the name exists. */
  async #link(own: string): Promise<boolean> {
    try {
      // Some file systems have no hard links.
      await link(own, this.#path).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "EEXIST") throw error;
        return copyFile(own, this.#path, constants.COPYFILE_EXCL);
      });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      return false;
    }
  }

  #inUse(by: string): BluetickError {
    return new BluetickError("storage_in_use", `The storage in ${this.#directory} is in use by ${by}. Only one process can use it at a time.`);
  }
}
