// Tests the tick rule against the table that the server shares. The movement of read states does
// not belong here.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { tickState } from "../src/index.ts";

interface Case {
  seq: number;
  last_delivered_seq: number;
  last_read_seq: number;
  tick: string;
}

test("every_case_of_the_shared_table_has_its_tick", () => {
  const table = new URL("../../../../docs/ticks.json", import.meta.url);
  const { cases } = JSON.parse(readFileSync(table, "utf8")) as { cases: Case[] };
  assert(cases.length > 10);
  for (const { seq, last_delivered_seq, last_read_seq, tick } of cases) {
    assert.equal(tickState(seq, last_delivered_seq, last_read_seq), tick, `${seq} ${last_delivered_seq} ${last_read_seq}`);
  }
});
