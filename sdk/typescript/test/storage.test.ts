// Runs the contract of `Storage` against every adapter, and tests the files of the file storage.
// The client's choice of records does not belong here.

import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { appendFile, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileStorage, indexedDbStorage, memoryStorage } from "../src/node/index.ts";
import type { Storage } from "../src/node/index.ts";

let made = 0;
const directories: string[] = [];
async function directory(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "bluetick-storage-"));
  directories.push(made);
  return made;
}
after(() => Promise.all(directories.map((path) => rm(path, { recursive: true, force: true }))));

/** Every adapter by name, opened in an empty location. */
const ADAPTERS: Record<string, () => Promise<Storage>> = {
  memory: async () => memoryStorage(),
  file: async () => fileStorage(await directory()),
  IndexedDB: async () => indexedDbStorage(`conformance ${(made += 1)}`),
};

for (const [name, make] of Object.entries(ADAPTERS)) {
  describe(`${name} storage`, () => {
    test("read_returns_the_written_records_by_kind_and_key", async () => {
      const storage = await make();
      await storage.write("alice", [
        { kind: "inbox", key: "one", value: { text: "ä 🎈 \n", list: [1, { deep: null }] } },
        { kind: "inbox", key: "two", value: 2 },
        { kind: "outbox", key: "one", value: "other kind" },
      ]);
      assert.deepEqual(await storage.read("alice", "inbox"), new Map<string, unknown>([["one", { text: "ä 🎈 \n", list: [1, { deep: null }] }], ["two", 2]]));
      assert.deepEqual(await storage.read("alice", "inbox", ["two", "three"]), new Map([["two", 2]]));
      assert.deepEqual(await storage.read("alice", "messages"), new Map());
      await storage.close();
    });

    test("writes_take_effect_in_call_order", async () => {
      const storage = await make();
      const writes = Array.from({ length: 50 }, (_, value) => storage.write("alice", [{ kind: "meta", key: "count", value }]));
      writes.push(storage.write("alice", [{ kind: "meta", key: "gone", value: 1 }]), storage.write("alice", [{ kind: "meta", key: "gone" }]));
      await Promise.all(writes);
      assert.deepEqual(await storage.read("alice", "meta"), new Map([["count", 49]]));
      await storage.close();
    });

    test("clear_removes_one_scope_and_keeps_scopes_with_the_same_prefix", async () => {
      const storage = await make();
      for (const scope of ["alice", "alice at home", "", "al"]) await storage.write(scope, [{ kind: "meta", key: "who", value: scope }]);
      await storage.clear("alice");
      assert.deepEqual(await storage.read("alice", "meta"), new Map());
      for (const scope of ["alice at home", "", "al"]) assert.deepEqual(await storage.read(scope, "meta"), new Map([["who", scope]]));
      await storage.close();
    });

    test("write_with_an_uncopyable_value_keeps_none_of_its_changes", async () => {
      const storage = await make();
      const circle: { self?: unknown; call?: unknown } = { call: () => {} };
      circle.self = circle;
      // An adapter may throw synchronously or reject.
      const refused = Promise.resolve().then(() => storage.write("alice", [{ kind: "meta", key: "good", value: 1 }, { kind: "inbox", key: "bad", value: circle }]));
      await assert.rejects(refused);
      assert.deepEqual(await storage.read("alice", "meta"), new Map());
      await storage.write("alice", [{ kind: "meta", key: "after", value: 1 }]);
      assert.deepEqual(await storage.read("alice", "meta"), new Map([["after", 1]]));
      await storage.close();
    });

    test("changing_a_written_or_read_value_does_not_change_the_record", async () => {
      const storage = await make();
      const value = { text: "as written" };
      const written = storage.write("alice", [{ kind: "meta", key: "one", value }]);
      value.text = "changed afterwards";
      await written;
      const read = (await storage.read("alice", "meta")).get("one") as { text: string };
      assert(["as written", "changed afterwards"].includes(read.text));
      read.text = "changed by a reader";
      assert.notEqual(((await storage.read("alice", "meta")).get("one") as { text: string }).text, "changed by a reader");
      await storage.close();
    });

    test("read_after_close_returns_the_records", async () => {
      const storage = await make();
      await storage.write("alice", [{ kind: "outbox", key: "one", value: 1 }]);
      await storage.close();
      assert.deepEqual(await storage.read("alice", "outbox"), new Map([["one", 1]]));
      await storage.close();
    });
  });
}

test("file_with_a_cut_last_line_keeps_the_whole_lines", async () => {
  const path = await directory();
  const storage = fileStorage(path);
  await storage.write("alice", [{ kind: "outbox", key: "one", value: 1 }]);
  await storage.close();
  const [file] = await readdir(path);
  await appendFile(join(path, file as string), '[{"kind":"outbox","key":"two","va');
  assert.deepEqual(await storage.read("alice", "outbox"), new Map([["one", 1]]));
  await storage.write("alice", [{ kind: "outbox", key: "three", value: 3 }]);
  await storage.close();
  assert.deepEqual(await storage.read("alice", "outbox"), new Map([["one", 1], ["three", 3]]));
  await storage.close();
});

test("damaged_lines_are_skipped_and_reported_once", async () => {
  const path = await directory();
  const storage = fileStorage(path);
  await storage.write("alice", [{ kind: "outbox", key: "one", value: 1 }]);
  await storage.close();
  const [file] = await readdir(path);
  await appendFile(join(path, file as string), '[{"kind":"outbox","key\u0000\n42\n[{"kind":"outbox","key":"two","value":2}]\n');
  assert.deepEqual(await storage.read("alice", "outbox"), new Map([["one", 1], ["two", 2]]));
  assert.match((storage.troubles?.() ?? []).join(), /^2 lines/);
  assert.deepEqual(storage.troubles?.(), []);
  await storage.close();
});

test("directory_in_use_is_refused_and_the_lock_of_a_dead_process_is_taken_over", async () => {
  const path = await directory();
  const inspect = `import { fileStorage } from ${JSON.stringify(new URL("../src/node/index.js", import.meta.url).href)};
    const storage = fileStorage(process.argv[1]);
    await storage.write("alice", [{ kind: "outbox", key: "theirs", value: 2 }]).then(() => console.log("written"), ({ code }) => console.log(code));
    process.kill(process.pid, "SIGKILL");`;
  const other = (): string => spawnSync(process.execPath, ["--input-type=module", "-e", inspect, path], { encoding: "utf8" }).stdout.trim();
  const storage = fileStorage(path);
  await storage.write("alice", [{ kind: "outbox", key: "ours", value: 1 }]);
  assert.equal(other(), "storage_in_use");
  await storage.close();
  assert.equal(other(), "written");
  assert.deepEqual(await storage.read("alice", "outbox"), new Map([["ours", 1], ["theirs", 2]]));
  await storage.close();
  // Another process has the process id of the dead one. Only some systems report start times.
  if (existsSync("/proc/self/stat")) await writeFile(join(path, "lock"), JSON.stringify({ pid: process.pid, began: "1" }));
  assert.equal((await storage.read("alice", "outbox")).size, 2);
  await storage.close();
  assert.deepEqual((await readdir(path)).filter((name) => name.startsWith("lock")), []);
});

test("overwritten_records_do_not_grow_the_file", async () => {
  const path = await directory();
  const storage = fileStorage(path);
  const value = "x".repeat(10_000);
  for (let count = 0; count < 200; count += 1) await storage.write("alice", [{ kind: "messages", key: "one", value }]);
  const { size } = await import("node:fs/promises").then(async ({ stat }) => stat(join(path, (await readdir(path)).find((name) => name.endsWith(".jsonl")) as string)));
  assert(size < 500_000, `${size} bytes`);
  await storage.close();
});
