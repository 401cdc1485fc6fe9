// A user of the web client: what the user does, and what the page shows.

import { waitUntil } from "./wait.mjs";

export class User {
  constructor(name, env, context) {
    Object.assign(this, { name, env, context });
  }

  get password() {
    return `${this.name}-password`;
  }

  /** Opens the web client in a new tab and uses that tab from now on. */
  async openTab() {
    this.page = await this.context.newPage();
    this.env.watch(this.page, this.name);
    await this.page.goto(this.env.proxy.url);
    return this.page;
  }

  async signUp() {
    const { page } = this;
    await page.getByRole("button", { name: "Create account" }).click();
    await this.#fillIn();
    await page.getByRole("button", { name: "Create account" }).click();
    await this.isOnline();
  }

  async logIn() {
    await this.#fillIn();
    await this.page.getByRole("button", { name: "Log in", exact: true }).click();
    await this.isOnline();
  }

  async #fillIn() {
    await this.page.getByLabel("User ID").fill(this.name);
    await this.page.getByLabel("Password", { exact: true }).fill(this.password);
  }

  async isOnline() {
    await this.page.locator('[data-connection="online"]').waitFor();
  }

  // Conversations

  get search() {
    return this.page.getByRole("combobox", { name: "Search people and chats" });
  }

  /** Searches for a person and opens the chat with the first result. */
  async startChatWith(text) {
    await this.search.fill(text);
    await this.page.getByRole("option").first().click();
    await this.composer.waitFor();
  }

  async open(title) {
    await this.row(title).getByRole("link").click();
    await this.composer.waitFor();
  }

  row(title) {
    return this.page.locator("[data-conversation-id]").filter({ hasText: title }).first();
  }

  get conversationId() {
    return new URL(this.page.url()).hash.slice(1);
  }

  // Messages

  get composer() {
    return this.page.getByRole("textbox", { name: /^Message to / });
  }

  async send(...texts) {
    for (const text of texts) {
      await this.composer.fill(text);
      await this.composer.press("Enter");
    }
  }

  message(text) {
    return this.page.locator("[data-message-id]").filter({ hasText: text }).last();
  }

  async sees(text) {
    await this.message(text).waitFor();
  }

  /** Waits for a state of the message: queued, sending, sent, delivered, read or failed. */
  async seesTick(text, state, timeout_ms) {
    await waitUntil(`"${text}" of ${this.name} is ${state}`, async () => {
      const found = await this.message(text).getAttribute("data-state", { timeout: 1_000 }).catch(() => null);
      return [found === state, found];
    }, timeout_ms);
  }

  /** The texts of the drawn messages, in order. */
  async texts() {
    return this.page.locator("[data-message-id] .content").allInnerTexts();
  }

  async seesTexts(texts) {
    await waitUntil(`${this.name} sees ${texts.length} messages`, async () => {
      const found = await this.texts();
      return [JSON.stringify(found) === JSON.stringify(texts), found];
    });
  }

  /** Everything that the browser has stored for the page, as text. */
  async storedData() {
    return this.page.evaluate(async () => {
      const answer = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
      const found = [{ ...localStorage }, { ...sessionStorage }];
      for (const { name } of await indexedDB.databases()) {
        const database = await answer(indexedDB.open(name));
        for (const store of database.objectStoreNames) {
          found.push(await answer(database.transaction(store).objectStore(store).getAll()));
        }
        database.close();
      }
      return JSON.stringify(found);
    });
  }
}
