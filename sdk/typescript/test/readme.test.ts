// Runs the quick start of the README against the real server. Other examples do not belong here.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { promisify } from "node:util";
import { Fixture } from "./support/fixture.ts";

test("quick_start_of_the_readme_prints_its_expected_output_twice", async (t) => {
  const fixture = await Fixture.start();
  const directory = await mkdtemp(join(tmpdir(), "bluetick-readme-"));
  t.after(() => Promise.all([fixture.stop(), rm(directory, { recursive: true })]));
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const [, code] = /```js\n([\s\S]*?)```/.exec(readme) ?? [];
  assert(code && code.includes("@bluetick/client/node") && code.includes("http://127.0.0.1:8080"));
  const library = new URL("../src/node/index.js", import.meta.url).href;
  const file = join(directory, "quick-start.mjs");
  await writeFile(file, code.replace("@bluetick/client/node", library).replace("http://127.0.0.1:8080", fixture.server.url));
  for (const run of ["the first", "the second"]) {
    const { stdout } = await promisify(execFile)(process.execPath, [file], { timeout: 20_000 });
    assert.equal(stdout, "bob reads: Hello Bob!\nalice sees two blue ticks\n", `${run} time`);
  }
});
