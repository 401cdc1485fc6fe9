// The language of the page: chosen by the browser or in Settings, with English as the fallback.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SIZES } from "../harness/list.mjs";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

const LANGUAGES = [
  { locale: "de-AT", lang: "de", userId: "Benutzer-ID", password: "Passwort", logIn: "Anmelden", createAccount: "Konto erstellen", wrong: "Benutzer-ID oder Passwort ist falsch.", settings: "Einstellungen", chats: "Chats" },
  { locale: "es-MX", lang: "es", userId: "ID de usuario", password: "Contraseña", logIn: "Iniciar sesión", createAccount: "Crear cuenta", wrong: "ID de usuario o contraseña incorrectos.", settings: "Ajustes", chats: "Chats" },
  // No catalogue: the page is in English.
  { locale: "fr-FR", lang: "en", userId: "User ID", password: "Password", logIn: "Log in", createAccount: "Create account", wrong: "Incorrect user ID or password.", settings: "Settings", chats: "Chats" },
  // No catalogue, and a right-to-left language: the direction is that of the English texts.
  { locale: "ar-EG", lang: "en", userId: "User ID", password: "Password", logIn: "Log in", createAccount: "Create account", wrong: "Incorrect user ID or password.", settings: "Settings", chats: "Chats" },
];

const attributesOf = (page) => page.evaluate(() => [document.documentElement.lang, document.documentElement.dir]);

const isWithinWidth = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll(".scroller, .inbox, .details-body")].every((each) => each.scrollWidth <= each.clientWidth));

for (const { locale, lang, userId, password, logIn, createAccount, wrong, settings, chats } of LANGUAGES) {
  test(`a browser in ${locale} shows the page in ${lang}`, () =>
    withEnvironment(async (env) => {
      await env.server.account("alice");
      const { page } = await env.user("alice", { locale });
      await page.getByLabel(userId).fill("alice");
      assert.deepEqual(await attributesOf(page), [lang, "ltr"]);
      await page.getByRole("button", { name: createAccount }).waitFor();
      await page.getByLabel(password, { exact: true }).fill("not this one");
      await page.getByRole("button", { name: logIn, exact: true }).click();
      await page.getByRole("alert").getByText(wrong).waitFor();
      await page.getByLabel(password, { exact: true }).fill("alice-password");
      await page.getByRole("button", { name: logIn, exact: true }).click();
      await page.getByRole("heading", { name: chats }).waitFor();
      await page.getByRole("button", { name: settings, exact: true }).click();
      await page.getByRole("dialog", { name: settings }).waitFor();
      assert.ok(await isWithinWidth(page), "no element is wider than the page");
    }));
}

test("a_language_chosen_in_settings_applies_at_once_and_after_a_reload", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    await bob.send(await bob.direct("alice"), "hello");
    await alice.row("hello").waitFor();
    const { page } = alice;
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("Language").selectOption({ label: "Deutsch" });
    await page.getByRole("dialog", { name: "Einstellungen" }).waitFor();
    assert.deepEqual(await attributesOf(page), ["de", "ltr"]);
    await page.getByRole("button", { name: "Schließen" }).click();
    await alice.row("1 ungelesene Nachricht").waitFor();
    await page.reload();
    await page.getByRole("combobox", { name: "Personen und Chats suchen" }).waitFor();
    await page.getByRole("button", { name: "Einstellungen", exact: true }).click();
    await page.getByLabel("Sprache").selectOption({ label: "Automatisch" });
    await page.getByRole("dialog", { name: "Settings" }).waitFor();
    assert.equal(await page.evaluate(() => localStorage.getItem("bluetick:language")), null);
  }));

test("a_translated_page_loads_without_a_network", () =>
  withEnvironment(async (env) => {
    await env.server.account("alice");
    const { page } = await env.user("alice", { locale: "de-DE" });
    await page.getByLabel("Benutzer-ID").fill("alice");
    await page.getByLabel("Passwort", { exact: true }).fill("alice-password");
    await page.getByRole("button", { name: "Anmelden", exact: true }).click();
    await page.getByRole("combobox", { name: "Personen und Chats suchen" }).waitFor();
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    env.proxy.mode = "closed";
    await page.reload();
    await page.getByRole("combobox", { name: "Personen und Chats suchen" }).waitFor();
  }));

test("a_page_in_english_does_not_load_other_languages", () =>
  withEnvironment(async (env) => {
    // Without the service worker, which caches every language in the background.
    const alice = await env.user("alice", { serviceWorkers: "block" });
    const loaded = [];
    alice.page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
    await alice.page.reload();
    await alice.signUp();
    assert.ok(loaded.some((path) => path.endsWith(".js")));
    assert.deepEqual(loaded.filter((path) => /\/assets\/(de|es)-/.test(path)), []);
  }));

for (const [size, options] of Object.entries(SIZES)) {
  test(`in the direction rtl on ${size}, no page scrolls sideways and the panes are mirrored`, () =>
    withEnvironment(async (env) => {
      // No shipped language is written from right to left, so the test sets the direction.
      const alice = await env.user("alice", options);
      const { page } = alice;
      const setDirection = () => page.evaluate(() => (document.documentElement.dir = "rtl"));
      await setDirection();
      assert.ok(await isWithinWidth(page), "the log-in screen");
      await alice.signUp();
      const bob = await env.server.account("bob", "Bob Builder");
      const id = await bob.direct("alice");
      for (const text of ["hello", "a longer message with several words in it ".repeat(6), "Donaudampfschifffahrt".repeat(20)]) await bob.send(id, text);
      await alice.open("Bob");
      // On a phone, Enter starts a new line.
      await alice.composer.fill("an answer");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      assert.ok(await isWithinWidth(page), "the conversation");
      const own = await alice.message("an answer").boundingBox();
      const other = await alice.message("hello").boundingBox();
      assert.ok(own.x < other.x, `own messages are on the left: ${JSON.stringify({ own, other })}`);
      await page.getByRole("button", { name: "Info", exact: true }).click();
      await page.getByRole("complementary").waitFor();
      assert.ok(await isWithinWidth(page), "the chat info");
      if (size === "desktop") {
        const sidebar = await page.getByRole("navigation").boundingBox();
        assert.ok(sidebar.x > 600, `the sidebar is on the right: ${JSON.stringify(sidebar)}`);
        const panel = await page.getByRole("complementary").boundingBox();
        assert.ok(panel.x < 50, `the details panel is on the left: ${JSON.stringify(panel)}`);
        await alice.row("Bob").click({ button: "right" });
        const menu = await page.getByRole("menu").boundingBox();
        assert.ok(menu.x >= 0 && menu.x + menu.width <= 1280, JSON.stringify(menu));
        await page.keyboard.press("Escape");
        await waitUntil("the menu is closed", async () => [(await page.getByRole("menu").count()) === 0, ""]);
      }
    }));
}
