// The SDK in a page of another origin, such as the operator's own application. The server allows
// the origin, or not.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import http from "node:http";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { withEnvironment } from "../harness/environment.mjs";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const FILES = /^\/sdk\/([\w-]+(?:\/[\w-]+)*\.js)$/;

before(() => promisify(execFile)("npm", ["run", "build", "-w", "sdk/typescript"], { cwd: ROOT }));

/** Serves an empty page and the SDK on a port of its own. */
async function inApp(run) {
  const app = http.createServer(async (request, response) => {
    const [, file] = FILES.exec(request.url) ?? [];
    const body = file ? await readFile(`${ROOT}sdk/typescript/dist/${file}`).catch(() => null) : "<!doctype html><title>App</title>";
    response.writeHead(body === null ? 404 : 200, { "content-type": file ? "text/javascript" : "text/html" }).end(body);
  });
  app.listen(0, "127.0.0.1");
  await once(app, "listening");
  try {
    await run(`http://127.0.0.1:${app.address().port}`);
  } finally {
    app.closeAllConnections();
    app.close();
  }
}

async function openApp(env, app) {
  const page = await (await env.browser.newContext()).newPage();
  await page.goto(app);
  return page;
}

test("the_sdk_on_an_allowed_origin_signs_up_sends_changes_settings_and_leaves_a_group", () =>
  inApp((app) =>
    withEnvironment(async (env) => {
      const bob = await env.server.account("bob");
      const page = await openApp(env, app);
      const done = await page.evaluate(async (url) => {
        const { BluetickClient, signUp } = await import("/sdk/index.js");
        const { token } = await signUp(url, { userId: "alice", password: "alice-password" });
        const client = new BluetickClient({ url, token, userId: "alice" });
        const until = (holds) => new Promise((resume) => {
          const look = () => holds() && (stop(), resume());
          const stop = client.subscribe(look);
          look();
        });
        await client.start();
        const chat = await client.openDirect("bob");
        chat.send("across origins");
        await until(() => chat.messages.at(-1)?.state === "sent");
        const { pinned } = await chat.settings({ pinned: true });
        const group = await client.createGroup("Tea", ["bob"]);
        await group.leave();
        const { error } = client.connection;
        await client.stop();
        return { pinned, error, id: chat.id };
      }, env.server.url);
      assert.deepEqual([done.pinned, done.error], [true, null]);
      const { messages } = await bob.call("GET", `/v1/conversations/${done.id}/messages`);
      assert.deepEqual(messages.map(({ content }) => content), ["across origins"]);
    }, { env: { BLUETICK_SERVER__ALLOWED_ORIGINS: app } })));

test("a_page_of_an_allowed_origin_can_read_an_error_of_the_server", () =>
  inApp((app) =>
    withEnvironment(async (env) => {
      const page = await openApp(env, app);
      const code = await page.evaluate(async (url) => {
        const { logIn } = await import("/sdk/index.js");
        return logIn(url, { userId: "nobody", password: "wrong password" }).catch((error) => error.code);
      }, env.server.url);
      assert.equal(code, "invalid_credentials");
    }, { env: { BLUETICK_SERVER__ALLOWED_ORIGINS: `https://other.example, ${app}` } })));

test("the_sdk_on_a_refused_origin_names_the_setting_for_calls_and_for_the_websocket", () =>
  inApp((app) =>
    withEnvironment(async (env) => {
      const alice = await env.server.account("alice");
      const page = await openApp(env, app);
      const said = await page.evaluate(async ([url, token]) => {
        const { BluetickClient, logIn } = await import("/sdk/index.js");
        const call = await logIn(url, { userId: "alice", password: "alice-password" }).catch(({ code, message }) => ({ code, message }));
        const client = new BluetickClient({ url, token, userId: "alice" });
        const trouble = new Promise((resume) => client.on("trouble", resume));
        await client.start();
        const socket = await trouble;
        const { error } = client.connection;
        await client.stop();
        return { call, socket, error };
      }, [env.server.url, alice.token]);
      assert.equal(said.call.code, "network");
      for (const text of [said.call.message, said.socket, said.error]) {
        assert.ok(text.includes("server.allowed_origins") && text.includes(app) && text.includes(env.server.url), text);
      }
    })));
