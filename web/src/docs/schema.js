// JSON Schema for people: draws a schema as a list of fields, and makes up an example where there is none.

import { element } from "./element.js";

export const pretty = (value) => JSON.stringify(value, null, 2);
export const code = (text) => element("pre", { tabIndex: 0 }, text);
export const hint = (text = "") => element("span", { className: "hint" }, " ", ...inline(text));

/** The thing itself, where `value` may be a reference to it. */
export function resolve(root, value) {
  let found = value;
  for (let hops = 0; found?.$ref && hops < 20; hops++) {
    const path = found.$ref.slice(2).split("/");
    found = path.reduce((at, part) => at?.[part.replaceAll("~1", "/")], root);
  }
  return found ?? {};
}

/** Text in which `backticks` mark code; blank lines part paragraphs. */
const inline = (text) => text.split("`").map((part, at) => (at % 2 ? element("code", {}, part) : part));
export const prose = (text = "") => text.split("\n\n").map((paragraph) => element("p", {}, ...inline(paragraph)));

const FACTS = ["minimum", "maximum", "minLength", "maxLength", "default"];

function typeName(root, { type = [], items, const: only, enum: values, oneOf, anyOf }) {
  const choices = oneOf ?? anyOf;
  if (only !== undefined) return pretty(only);
  if (values) return values.map(pretty).join(" or ");
  if (choices) return choices.map((choice) => typeName(root, resolve(root, choice))).join(" or ");
  const name = [type].flat().join(" or ");
  return items ? `${name} of ${typeName(root, resolve(root, items))}` : name;
}

/** `above` holds the schemas around this one, so that a recursive schema ends. */
export function drawSchema(root, reference, above = []) {
  const schema = resolve(root, reference);
  const box = element("div");
  if (above.includes(schema)) return box;
  const inner = [...above, schema];
  const parts = [schema.allOf, schema.oneOf, schema.anyOf, schema.items].flat().filter(Boolean);
  for (const part of parts) box.append(...prose(resolve(root, part).description), drawSchema(root, part, inner));
  const fields = Object.entries(schema.properties ?? {});
  if (schema.additionalProperties?.type) fields.push(["(any name)", schema.additionalProperties]);
  const lines = fields.map(([name, field]) => drawField(root, name, field, schema.required?.includes(name), inner));
  if (lines.length > 0) box.append(element("ul", {}, ...lines));
  return box;
}

function drawField(root, name, reference, required, above) {
  const field = resolve(root, reference);
  const facts = FACTS.filter((fact) => field[fact] !== undefined).map((fact) => `${fact} ${field[fact]}`);
  const words = [typeName(root, field), required ? "required" : "optional", ...facts].filter(Boolean).join(", ");
  const description = prose(reference.description ?? field.description);
  return element("li", {}, element("code", {}, name), hint(words), ...description, drawSchema(root, field, above));
}

/** An example value: the document's own, or one made from the types. */
export function exampleOf(root, reference, depth = 0) {
  const schema = resolve(root, reference);
  const given = schema.example ?? schema.examples?.[0] ?? schema.const ?? schema.default ?? schema.enum?.[0];
  if (given !== undefined || depth > 6) return given;
  const inner = (part) => exampleOf(root, part, depth + 1);
  const choice = (schema.oneOf ?? schema.anyOf)?.find(({ type }) => type !== "null");
  if (choice) return inner(choice);
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map(inner));
  if (schema.items) return [inner(schema.items)];
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => [name, inner(field)]);
  if (fields.length > 0) return Object.fromEntries(fields);
  return { string: "", integer: 1, number: 1, boolean: false, object: {} }[[schema.type].flat()[0]] ?? null;
}
