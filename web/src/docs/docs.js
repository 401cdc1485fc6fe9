// The API page: draws the server's own descriptions and lets the reader try each call. It needs no internet.

import { code, drawSchema, exampleOf, hint, pretty, prose, resolve } from "./schema.js";
import { byId, element } from "./element.js";

const heading = (text) => element("h3", {}, text);
const fold = (...summary) => element("details", {}, element("summary", {}, ...summary));

async function load(path, place, draw) {
  try {
    const response = await fetch(path);
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    place.replaceChildren(...draw(await response.json()));
  } catch (error) {
    place.replaceChildren(element("p", { className: "error" }, `No description to show: ${error.message}`));
  }
}

// HTTP

function drawOperations(root) {
  byId("about").replaceChildren(...prose(root.info?.description));
  // In the document's own order.
  const groups = Object.fromEntries((root.tags ?? []).map(({ name }) => [name, []]));
  for (const [path, item] of Object.entries(root.paths ?? {})) {
    for (const [verb, operation] of Object.entries(item)) {
      const group = (groups[operation.tags?.[0] ?? "other"] ??= []);
      if (operation.responses) group.push(drawOperation(root, path, verb, operation));
    }
  }
  return Object.entries(groups).flatMap(([tag, operations]) => [heading(tag), ...operations]);
}

function drawOperation(root, path, verb, operation) {
  const { summary, description, requestBody, responses, security = [] } = operation;
  const parameters = (operation.parameters ?? []).map((parameter) => resolve(root, parameter));
  const [body] = Object.values(resolve(root, requestBody).content ?? {});
  const box = fold(element("span", { className: "verb" }, verb.toUpperCase()), element("code", {}, path), hint(summary));
  box.append(...prose(description));
  const schemes = security.flatMap(Object.keys);
  if (schemes.length > 0) box.append(hint(`Authorization: ${schemes.join(" or ")}`));
  if (parameters.length > 0) {
    const fields = parameters.map(({ name, description, schema }) => [name, { ...resolve(root, schema), description }]);
    const required = parameters.filter((parameter) => parameter.required).map(({ name }) => name);
    box.append(heading("Parameters"), drawSchema(root, { properties: Object.fromEntries(fields), required }));
  }
  if (body) box.append(heading("Request body"), ...drawContent(root, body));
  box.append(heading("Answers"));
  for (const [status, reference] of Object.entries(responses)) {
    const { description, content = {} } = resolve(root, reference);
    const answer = fold(element("code", {}, status), hint(description));
    answer.append(...Object.values(content).flatMap((content) => drawContent(root, content)));
    box.append(answer);
  }
  box.append(heading("Try it"), tryForm(root, path, verb, parameters, body));
  return box;
}

function drawContent(root, content) {
  const schema = resolve(root, content.schema);
  return [...prose(schema.description), drawSchema(root, schema), ...examplesOf(root, content).map(code)];
}

function examplesOf(root, { example, examples, schema }) {
  if (examples) return Object.values(examples).map((named) => pretty(resolve(root, named).value));
  return [pretty(example ?? exampleOf(root, schema))];
}

function tryForm(root, path, verb, parameters, body) {
  const form = element("form");
  const inputs = parameters.map((parameter) => {
    const input = element("input", { required: parameter.required === true });
    form.append(element("label", {}, `${parameter.name} (${parameter.in})`, input));
    return { parameter, input };
  });
  const bodyField = element("textarea", { rows: 7, spellcheck: false });
  if (body) {
    bodyField.value = examplesOf(root, body)[0];
    form.append(element("label", {}, "Body", bodyField));
  }
  const result = element("div", { ariaLive: "polite" });
  form.append(element("button", { className: "primary" }, "Send"), result);
  form.onsubmit = async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    const headers = body ? { "content-type": "application/json" } : {};
    if (byId("token").value) headers.authorization = `Bearer ${byId("token").value}`;
    let address = path;
    for (const { parameter, input } of inputs) {
      if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") query.set(parameter.name, input.value);
    }
    if (query.size > 0) address += `?${query}`;
    const request = { method: verb.toUpperCase(), headers, body: body && bodyField.value };
    result.replaceChildren(...(await attempt(address, request)));
  };
  return form;
}

async function attempt(address, request) {
  try {
    const response = await fetch(address, request);
    let text = await response.text();
    try {
      const answer = JSON.parse(text);
      if (answer.token) byId("token").value = answer.token;
      text = pretty(answer);
    } catch {
      // Metrics and pages are not JSON.
    }
    return [element("p", {}, `${request.method} ${address}: ${response.status}`), code(text)];
  } catch (error) {
    return [element("p", { className: "error" }, error.message)];
  }
}

// WebSocket

/** AsyncAPI speaks from the server's side: what it receives, the client sends. */
function drawFrames(root) {
  const drawDirection = (wanted) =>
    Object.values(root.operations ?? {})
      .filter(({ action }) => action === wanted)
      .flatMap(({ messages = [] }) => messages.map((message) => drawFrame(root, resolve(root, message))));
  return [
    ...prose(root.info?.description),
    heading("Client to server"),
    ...drawDirection("receive"),
    heading("Server to client"),
    ...drawDirection("send"),
    ...drawTable("Close codes", ["code", "name", "remedy", "meaning"], root["x-close-codes"]),
    ...drawTable("Error codes", ["code", "status", "remedy", "meaning"], root["x-error-codes"]),
  ];
}

function drawFrame(root, { name, payload, examples = [] }) {
  const schema = resolve(root, payload);
  const box = fold(element("code", {}, name), hint(schema.description));
  box.append(drawSchema(root, schema), ...examples.map((example) => code(pretty(example.payload))));
  return box;
}

function drawTable(title, columns, rows) {
  if (!rows) return [];
  const line = (cell, values) => element("tr", {}, ...values.map((value) => element(cell, {}, value)));
  const lines = rows.map((row) => line("td", columns.map((column) => row[column])));
  return [heading(title), element("table", {}, line("th", columns), ...lines)];
}

load("/openapi.json", byId("operations"), drawOperations);
load("/asyncapi.json", byId("frames"), drawFrames);
