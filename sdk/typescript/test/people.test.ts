// Tests of the fetching and caching of display names. Profiles do not belong here.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { memoryStorage } from "../src/index.ts";
import { settled, started } from "./support/fake-server.ts";

test("group_larger_than_the_stored_names_fetches_each_name_once", async (t) => {
  let calls = 0;
  const answer: typeof fetch = async (url) => {
    calls += 1;
    const people = new URL(String(url)).searchParams.getAll("user_id").map((user_id) => ({ user_id, display_name: `Name of ${user_id}` }));
    return new Response(JSON.stringify({ people }));
  };
  const storage = memoryStorage();
  const client = await started(t, { fetch: answer, storage });
  const members = Array.from({ length: 2_500 }, (_, index) => `member-${index}`);
  const readNames = (): string[] => members.map((member) => client.people.name(member));
  for (let round = 0; round < 200; round += 1) {
    readNames();
    mock.timers.tick(100);
    await settled();
  }
  assert.equal(calls, 25);
  assert(readNames().every((name) => name.startsWith("Name of")));
  await client.stop();
  assert.equal((await storage.read("alice at http://server", "people")).size, 2_000, "the latest names are stored");
});
