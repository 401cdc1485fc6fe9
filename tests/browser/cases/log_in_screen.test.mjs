// The first screen: the form that logs in, and the button to create an account.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SIZES } from "../harness/list.mjs";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

for (const [size, options] of Object.entries(SIZES)) {
  test(`a first visit on ${size} shows the log-in form and a create account button without scrolling`, () =>
    withEnvironment(async (env) => {
      const { page } = await env.user("alice", options);
      const create = page.getByRole("button", { name: "Create account" });
      const logIn = page.getByRole("button", { name: "Log in", exact: true });
      await create.waitFor();
      assert.equal(await create.count(), 1);
      assert.equal(await logIn.getAttribute("type"), "submit");
      const [createBox, logInBox] = [await create.boundingBox(), await logIn.boundingBox()];
      const { height } = page.viewportSize();
      assert.ok(createBox.y > logInBox.y + logInBox.height && createBox.y + createBox.height <= height, JSON.stringify(createBox));
      assert.ok(createBox.width === logInBox.width && createBox.height >= 44, `as wide as the log-in button: ${JSON.stringify({ createBox, logInBox })}`);
    }));
}

test("the_keyboard_order_is_fields_then_log_in_then_create_account", () =>
  withEnvironment(async (env) => {
    const { page } = await env.user("alice");
    await page.getByRole("button", { name: "Create account" }).waitFor();
    const focused = () => page.evaluate(() => document.activeElement.name || document.activeElement.textContent);
    const order = [await focused()];
    for (let step = 0; step < 5; step++) {
      await page.keyboard.press("Tab");
      order.push(await focused());
    }
    assert.deepEqual(order, ["user_id", "password", "Show", "Log in", "Create account", "API documentation"]);
  }));

test("empty_and_invalid_fields_show_errors_in_german_until_they_are_corrected", () =>
  withEnvironment(async (env) => {
    const { page } = await env.user("alice", { locale: "de-DE" });
    const userId = page.getByLabel("Benutzer-ID");
    const password = page.getByLabel("Passwort", { exact: true });
    const errors = () => page.locator(".field-error").allTextContents();
    /** The text that a screen reader reads with the field. */
    const describedBy = (field) => field.evaluate((each) => document.getElementById(each.getAttribute("aria-describedby"))?.textContent);
    const focused = () => page.evaluate(() => document.activeElement.name);

    await page.getByRole("button", { name: "Konto erstellen" }).waitFor();
    await page.getByRole("button", { name: "Anmelden", exact: true }).click();
    assert.deepEqual(await errors(), ["Gib deine Benutzer-ID ein.", "Gib dein Passwort ein."]);
    assert.equal(await describedBy(userId), "Gib deine Benutzer-ID ein.");
    assert.equal(await describedBy(password), "Gib dein Passwort ein.");
    assert.deepEqual([await userId.getAttribute("aria-invalid"), await password.getAttribute("aria-invalid"), await focused()], ["true", "true", "user_id"]);

    await userId.fill("alice liddell");
    assert.deepEqual(await errors(), ["Gib dein Passwort ein."], "typing removes the error of that field");
    assert.equal(await userId.getAttribute("aria-invalid"), null);
    await page.getByRole("button", { name: "Anmelden", exact: true }).click();
    assert.deepEqual(await errors(), ["Eine Benutzer-ID enthält keine Leerzeichen.", "Gib dein Passwort ein."]);

    await page.getByRole("button", { name: "Konto erstellen" }).click();
    assert.deepEqual(await errors(), [], "the other form starts without errors");
    await userId.fill("alice");
    await password.fill("short");
    await page.getByRole("button", { name: "Konto erstellen" }).click();
    assert.deepEqual(await errors(), ["Mindestens 8 Zeichen."]);
    assert.deepEqual([await describedBy(password), await focused()], ["Mindestens 8 Zeichen.", "password"]);
    await password.fill("alice-password");
    await page.getByRole("button", { name: "Konto erstellen" }).click();
    await page.locator('[data-connection="online"]').waitFor();
  }));

test("create_account_opens_the_sign_up_form_and_log_in_returns_with_the_typed_user_id", () =>
  withEnvironment(async (env) => {
    const { page } = await env.user("alice");
    await page.getByLabel("User ID").fill("alice");
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByLabel("Your name").waitFor();
    assert.equal(await page.getByRole("button", { name: "Create account" }).getAttribute("type"), "submit");
    await waitUntil("the user ID has the focus", async () => {
      const name = await page.evaluate(() => document.activeElement.name);
      return [name === "user_id", name];
    });
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await page.getByLabel("Your name").waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("User ID").inputValue(), "alice");
  }));
