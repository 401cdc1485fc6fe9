// Keeps a directory to one process at a time: a file in it names the process that has it. A process that died without a
// word is found out by its number and the moment it began, and its lock is taken over. It sees processes of one machine
// only.

import { constants, copyFile, link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BluetickError } from "../errors.ts";

interface Holder {
  readonly pid: number;
  /** The moment it began, as the system counts; null where the system does not tell. */
  readonly began: string | null;
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there and belongs to somebody else.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** A number may be given again to another process. */
async function beganAt(pid: number): Promise<string | null> {
  try {
    const line = await readFile(`/proc/${pid}/stat`, "utf8");
    // The name of the program is in parentheses and may contain anything; the moment is the 20th field after it.
    return line.slice(line.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}

const textOf = (path: string): Promise<string | null> => readFile(path, "utf8").catch(() => null);

/** Null where it is nobody who is still there. */
async function livingHolder(text: string): Promise<Holder | null> {
  try {
    const { pid, began } = JSON.parse(text) as Holder;
    if (!isAlive(pid)) return null;
    const now = await beganAt(pid);
    return began !== null && now !== null && began !== now ? null : { pid, began };
  } catch {
    return null;
  }
}

export class DirectoryLock {
  #directory: string;
  #path: string;
  #users = 0;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(directory: string) {
    this.#directory = directory;
    this.#path = join(directory, "lock");
  }

  /** Everybody in this process may have it, and each lets go of it once. Rejects with `storage_in_use`. */
  acquire(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#users === 0) await this.#take();
      this.#users += 1;
    });
  }

  release(): Promise<void> {
    return this.#inTurn(async () => {
      this.#users -= 1;
      if (this.#users > 0) return;
      const { pid } = JSON.parse((await textOf(this.#path)) ?? "{}") as Partial<Holder>;
      if (pid === process.pid) await rm(this.#path, { force: true });
    });
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => {});
    return done;
  }

  async #take(): Promise<void> {
    await mkdir(this.#directory, { recursive: true });
    const own = `${this.#path}.${process.pid}`;
    const holder: Holder = { pid: process.pid, began: await beganAt(process.pid) };
    // Written first and then given its name, so that nobody ever reads half of it.
    await writeFile(own, JSON.stringify(holder), { mode: 0o600 });
    try {
      for (let attempt = 0; !(await this.#claim(own)); attempt += 1) {
        if (attempt === 10) throw this.#inUse("another process");
      }
    } finally {
      await rm(own, { force: true });
    }
  }

  /** False when it is worth another attempt. */
  async #claim(own: string): Promise<boolean> {
    if (await this.#name(own)) return true;
    const text = await textOf(this.#path);
    if (text === null) return false;
    const holder = await livingHolder(text);
    if (holder) throw this.#inUse(`process ${holder.pid}`);
    const old = `${own}.old`;
    await rename(this.#path, old).catch(() => {});
    // Somebody else may have taken it over in between; then it is theirs and is put back.
    const taken = await textOf(old);
    if (taken !== null && taken !== text) await link(old, this.#path).catch(() => {});
    await rm(old, { force: true });
    return false;
  }

  /** False when the name is taken. */
  async #name(own: string): Promise<boolean> {
    try {
      // Some file systems know no links.
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
    return new BluetickError("storage_in_use", `The storage in ${this.#directory} is in use by ${by}. One process uses it at a time.`);
  }
}
