import assert from "node:assert";
import { readFileSync } from "node:fs";
import test from "node:test";
import { tickState } from "../../web/ticks.js";

test("every case of the shared table", () => {
  const { cases } = JSON.parse(readFileSync(new URL("../../docs/ticks.json", import.meta.url)));
  assert(cases.length > 10);
  for (const { seq, last_delivered_seq, last_read_seq, tick } of cases) {
    assert.equal(tickState(seq, last_delivered_seq, last_read_seq), tick, `${seq} ${last_delivered_seq} ${last_read_seq}`);
  }
});
