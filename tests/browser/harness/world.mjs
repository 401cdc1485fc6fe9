// A server, a breakable network in front of it, and people with a browser each. `inWorld` cleans up after itself and
// fails the test when a page had an error nobody expected.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { Person } from "./person.mjs";
import { Proxy } from "./proxy.mjs";
import { Server } from "./server.mjs";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];

export function openBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

export async function inWorld(story, settings = {}) {
  const world = new World();
  world.server = await Server.start(settings.env);
  try {
    world.proxy = await Proxy.before(() => world.server.url);
    world.browser = await openBrowser();
    await story(world);
    assert.deepEqual(world.errors, [], "no page had an error");
  } finally {
    await world.browser?.close();
    world.proxy?.stop();
    await world.server.stop();
  }
}

class World {
  errors = [];

  /** Somebody with a browser of their own, not logged in yet. */
  async person(name, options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    const person = new Person(name, this, context);
    await person.openTab();
    return person;
  }

  /** Somebody who has just signed up. */
  async signedUp(name, options) {
    const person = await this.person(name, options);
    await person.signUp();
    return person;
  }

  watch(page, name) {
    page.on("pageerror", (error) => this.errors.push(`${name}: ${error.stack ?? error}`));
    page.on("console", (message) => {
      if (message.type() !== "error") return;
      // The browser itself reports every request that the broken network or a refused log-in ends.
      if (/Failed to load resource|WebSocket connection to|net::ERR_|fetching the script/.test(message.text())) return;
      this.errors.push(`${name}: ${message.text()}`);
    });
  }
}
