// Opens /docs of a real server in Chromium and uses it as a reader does. The page must show both
// documents, search, follow a permalink and send a call. It must break no content security policy
// and must request nothing from another host.
//
//   node docs_page.mjs URL CHROMIUM [DIRECTORY_FOR_SCREENSHOTS]

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [url, executablePath, pictures] = process.argv.slice(2);
const SIZES = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };

/** Collects what the browser refuses or requests elsewhere. */
async function open(browser, viewport, path) {
  const page = await browser.newPage({ viewport });
  const problems = [];
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    const address = request.url();
    if (!address.startsWith(url) && !/^(data|blob):/.test(address)) problems.push(`request to ${address}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      console.error(`violation of ${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
    });
  });
  page.setDefaultTimeout(60_000);
  await page.goto(url + path);
  return { page, problems };
}

const picture = async (page, name) => {
  if (pictures) await page.screenshot({ path: `${pictures}/docs-${name}.png` });
};

async function readsHttp(browser, name, viewport) {
  const { page, problems } = await open(browser, viewport, "/docs");
  await page.getByRole("heading", { name: "Bluetick", exact: true }).waitFor();
  await page.getByRole("heading", { name: "accounts" }).first().waitFor();
  await picture(page, `http-${name}`);
  return { page, problems };
}

async function searches(page) {
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").first().waitFor();
  await page.keyboard.type("message history");
  await page.getByRole("option", { name: /Read message history/ }).first().waitFor();
  await picture(page, "search");
  await page.getByRole("option", { name: /Read message history/ }).first().click();
  await page.waitForURL(/#http\/tag\/messages\/GET\/v1\/conversations/);
}

async function followsPermalink(browser) {
  const { page, problems } = await open(browser, SIZES.desktop, PERMALINK);
  const title = page.getByRole("heading", { name: "Send a message" }).first();
  await title.waitFor();
  await page.getByText("--request POST").first().waitFor();
  await page.waitForFunction(() => scrollY > 1000);
  await picture(page, "permalink");
  return { page, problems };
}

async function sendsCall(browser) {
  const { page, problems } = await open(browser, SIZES.desktop, "/docs#http/tag/operations/GET/healthz");
  await page.getByRole("button", { name: /Test Request.*healthz/ }).first().click();
  await page.getByRole("dialog").waitFor();
  const answered = page.waitForResponse((response) => response.url() === `${url}/healthz`);
  await page.getByRole("dialog").getByRole("button", { name: /^Send/ }).first().click();
  assert.equal((await answered).status(), 200);
  await page.getByText("200 OK").first().waitFor();
  await picture(page, "call");
  return { page, problems };
}

async function readsWebSocket(browser, name, viewport) {
  const { page, problems } = await open(browser, viewport, "/docs?api=websocket");
  await page.getByRole("heading", { name: "Bluetick WebSocket" }).waitFor();
  // The viewer renders a channel when the reader scrolls to it; its name is in the navigation.
  await page.getByText("/v1/ws").first().waitFor({ state: "attached" });
  await page.getByText("hello_expected").first().waitFor();
  await picture(page, `websocket-${name}`);
  return { page, problems };
}

const PERMALINK = "/docs#http/tag/messages/POST/v1/conversations/{conversation_id}/messages";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let opened = 0;
try {
  const finish = async ({ page, problems }) => {
    assert.deepEqual(problems, []);
    await page.close();
    opened += 1;
  };
  for (const [name, viewport] of Object.entries(SIZES)) {
    await finish(await readsHttp(browser, name, viewport));
    await finish(await readsWebSocket(browser, name, viewport));
  }
  const searched = await readsHttp(browser, "search", SIZES.desktop);
  await searches(searched.page);
  await finish(searched);
  await finish(await followsPermalink(browser));
  await finish(await sendsCall(browser));
  // The web client does not load the viewer.
  const client = await open(browser, SIZES.desktop, "/");
  let loaded = 0;
  client.page.on("request", (request) => (loaded += request.url().includes("api-reference") ? 1 : 0));
  await client.page.reload({ waitUntil: "networkidle" });
  assert.equal(loaded, 0);
  await finish(client);
} finally {
  await browser.close();
}
assert.equal(opened, 8);
