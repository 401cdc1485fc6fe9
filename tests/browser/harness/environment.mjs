// A server, a proxy in front of it that can fail, and users with a browser context each.
// `withEnvironment` stops all of them, and fails the test when a page reported an error.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { Proxy } from "./proxy.mjs";
import { Server } from "./server.mjs";
import { User } from "./user.mjs";

/** Flags that keep the browser from using the network and the GPU. */
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];

export function openBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

export async function withEnvironment(run, settings = {}) {
  const env = new TestEnvironment();
  env.server = await Server.start(settings.env);
  try {
    env.proxy = await Proxy.start(() => env.server.url);
    env.browser = await openBrowser();
    await run(env);
    assert.deepEqual(env.errors, [], "no page had an error");
  } finally {
    await env.browser?.close();
    env.proxy?.stop();
    await env.server.stop();
  }
}

class TestEnvironment {
  errors = [];

  /** A user in a new browser context, not logged in. */
  async user(name, options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    const user = new User(name, this, context);
    await user.openTab();
    return user;
  }

  /** A user in a new browser context, with a new account. */
  async signedUp(name, options) {
    const user = await this.user(name, options);
    await user.signUp();
    return user;
  }

  watch(page, name) {
    page.on("pageerror", (error) => this.errors.push(`${name}: ${error.stack ?? error}`));
    page.on("console", (message) => {
      if (message.type() !== "error") return;
      // The browser logs every request that the closed proxy or a refused log-in ends.
      if (/Failed to load resource|WebSocket connection to|net::ERR_|fetching the script/.test(message.text())) return;
      this.errors.push(`${name}: ${message.text()}`);
    });
  }
}
