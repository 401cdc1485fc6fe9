// Generates src/generated.ts from docs/openapi.json and docs/websocket.json. With --check, writes
// nothing and fails if the file is out of date. Types that are not on the wire do not belong here.

import { readFileSync, writeFileSync } from "node:fs";

const at = (path) => new URL(path, import.meta.url);
const read = (path) => JSON.parse(readFileSync(at(path), "utf8"));
const TARGET = at("../src/generated.ts");

const http = read("../../../docs/openapi.json");
const frames = read("../../../docs/websocket.json");

const pascal = (name) => name.replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase());
const byName = ([one], [other]) => (one < other ? -1 : one > other ? 1 : 0);

function comment(text, indent) {
  if (!text) return "";
  const lines = text.trim().split("\n");
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`;
}

const joined = (types, operator) => {
  const distinct = [...new Set(types)];
  return distinct.length === 1 ? distinct[0] : distinct.map((type) => (/ [|&] /.test(type) ? `(${type})` : type)).join(` ${operator} `);
};

function typeOf(schema, indent) {
  if (schema.$ref) return pascal(schema.$ref.split("/").at(-1));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.oneOf) return joined(schema.oneOf.map((each) => typeOf(each, indent)), "|");
  if (schema.allOf) return joined(schema.allOf.map((each) => typeOf(each, indent)), "&");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type }, indent)).join(" | ");
  switch (schema.type) {
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "array": {
      const item = typeOf(schema.items, indent);
      return / [|&] /.test(item) ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      return objectType(schema, indent);
    default:
      throw new Error(`unsupported schema: ${JSON.stringify(schema)}`);
  }
}

function objectType({ properties, required = [], additionalProperties }, indent) {
  if (!properties) return `Record<string, ${additionalProperties ? typeOf(additionalProperties, indent) : "unknown"}>`;
  const inner = `${indent}  `;
  const fields = Object.entries(properties).map(([name, schema]) => {
    const optional = required.includes(name) ? "" : "?";
    return `${comment(schema.description, inner)}${inner}${name}${optional}: ${typeOf(schema, inner)};\n`;
  });
  return `{\n${fields.join("")}${indent}}`;
}

function declared(name, schema) {
  return `${comment(schema.description, "")}export type ${pascal(name)} = ${typeOf(schema, "")};\n`;
}

function framesOf(operation) {
  const names = operation.messages.map(({ $ref }) => $ref.split("/").at(-1));
  return names.map((name) => pascal(`${name}_frame`)).join("\n  | ");
}

const remedies = (codes, wanted) => codes.filter(({ remedy }) => wanted.includes(remedy)).map(({ code }) => JSON.stringify(code));

const schemas = { ...frames.components.schemas, ...http.components.schemas };
const errors = http["x-error-codes"];
const text = [
  "// Generated from docs/openapi.json and docs/websocket.json by scripts/generate.mjs. Do not edit.\n",
  ...Object.entries(schemas).sort(byName).map(([name, schema]) => declared(name, schema)),
  `/** A frame from a client. */\nexport type ClientFrame =\n  | ${framesOf(frames.operations.fromClient)};\n`,
  `/** A frame from the server. */\nexport type ServerFrame =\n  | ${framesOf(frames.operations.fromServer)};\n`,
  `/** The error codes of the server. */\nexport type ErrorCode =\n  | ${errors.map(({ code }) => JSON.stringify(code)).join("\n  | ")};\n`,
  `/** Error codes after which the same request may succeed later. */\nexport const RETRY_CODES: readonly string[] = [\n  ${remedies(errors, ["retry", "reconnect"]).join(",\n  ")},\n];\n`,
].join("\n");

if (process.argv.includes("--check")) {
  let present = "";
  try {
    present = readFileSync(TARGET, "utf8");
  } catch {
    // A missing file is out of date.
  }
  if (present !== text) {
    console.error("sdk/typescript/src/generated.ts is out of date. Run: npm run generate -w sdk/typescript");
    process.exit(1);
  }
} else {
  writeFileSync(TARGET, text);
}
