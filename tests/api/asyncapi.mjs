// Validates an AsyncAPI document with the parser that the AsyncAPI CLI uses. The CLI itself needs
// Node 24 and installs code generators, a web studio and a telemetry client.
//
//   node asyncapi.mjs DOCUMENT

import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";

// Newer versions of the format are not an error: the document names the version that it follows.
const ACCEPTED = new Set(["asyncapi-latest-version"]);

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], "utf8"));
const findings = diagnostics.filter(({ code }) => !ACCEPTED.has(code));
for (const { code, path, message } of findings) console.error(`${code} at ${path.join("/")}: ${message}`);
if (!document) console.error("the document cannot be parsed");
process.exit(document && findings.length === 0 ? 0 : 1);
