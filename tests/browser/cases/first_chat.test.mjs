import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

test("a_message_between_two_new_users_gets_one_tick_then_two_then_blue_ones", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await env.server.account("bob", "Bob Builder");
    await alice.startChatWith("build");
    await alice.send("Is anybody there?");
    await alice.seesTick("Is anybody there?", "sent");

    // The device of bob has received the message, and bob has not opened the chat.
    const bob = await env.user("bob");
    await bob.logIn();
    await alice.seesTick("Is anybody there?", "delivered");
    await waitUntil("one unread", async () => {
      const row = await bob.row("alice").innerText();
      return [/1 unread/.test(row) && row.includes("Is anybody there?"), row];
    });
    await waitUntil("the title counts it", async () => [/^\(1\)/.test(await bob.page.title()), await bob.page.title()]);

    await bob.open("alice");
    await bob.sees("Is anybody there?");
    await alice.seesTick("Is anybody there?", "read");
    await waitUntil("nothing unread", async () => [(await bob.page.title()) === "Bluetick", await bob.page.title()]);

    await bob.send("I am.");
    await alice.sees("I am.");
    await bob.seesTick("I am.", "read");
    assert.deepEqual(await alice.texts(), ["Is anybody there?", "I am."]);
  }));

test("typing_and_presence_of_the_other_user_are_shown", () =>
  withEnvironment(async (env) => {
    const [alice, bob] = [await env.signedUp("alice"), await env.signedUp("bob")];
    await alice.startChatWith("bob");
    await alice.send("hello");
    await bob.open("alice");
    await alice.page.getByRole("main").getByText("online").waitFor();
    await bob.composer.pressSequentially("I am thin");
    await alice.page.getByRole("main").getByText(/typing/i).waitFor();
    await bob.send("I am thinking");
    await alice.sees("I am thinking");
    await alice.page.getByRole("main").getByText(/typing/i).waitFor({ state: "detached" });
    await bob.context.close();
    await alice.page.getByRole("main").getByText(/last seen/i).waitFor();
  }));

test("a_wrong_password_and_a_taken_user_id_show_an_error_and_keep_the_typed_text", () =>
  withEnvironment(async (env) => {
    await env.server.account("alice");
    const alice = await env.user("alice");
    const { page } = alice;
    await page.getByLabel("User ID").fill("alice");
    await page.getByLabel("Password", { exact: true }).fill("not this one");
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await waitUntil("an error is shown", async () => {
      const said = await page.getByRole("alert").innerText();
      return [said.length > 5, said];
    });
    assert.equal(await page.getByLabel("User ID").inputValue(), "alice");
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByLabel("Password", { exact: true }).fill("long enough");
    await page.getByRole("button", { name: "Create account" }).click();
    await waitUntil("the user ID is reported as taken", async () => {
      const said = await page.getByRole("alert").innerText();
      return [/taken|exists/i.test(said), said];
    });
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await alice.logIn();
  }));

test("an_error_about_a_field_is_below_that_field_and_described_by_it", () =>
  withEnvironment(async (env) => {
    const { page } = await env.user("alice", { serviceWorkers: "block" });
    const refusals = [
      [409, "name_reserved", "this user_id is reserved; choose another", "User ID", "This user ID is reserved."],
      [409, "user_exists", "the user_id is taken", "User ID", "is already taken"],
      [400, "invalid_request", "password: this password is one of the most common ones; choose another", "Password", "This password is too common."],
      [400, "invalid_request", "user_id: has a character that cannot be seen", "User ID", "This user ID can't be used."],
    ];
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByLabel("User ID").fill("admin");
    await page.getByLabel("Password", { exact: true }).fill("password1");
    for (const [status, code, message, label, words] of refusals) {
      await page.route("**/v1/signup", (route) => route.fulfill({ status, json: { error: { code, message } } }));
      await page.getByRole("button", { name: "Create account" }).click();
      const field = page.getByLabel(label, { exact: true });
      await waitUntil(`${words} at ${label}`, async () => {
        const said = await page.getByRole("alert").allInnerTexts();
        return [said.length === 1 && said[0].includes(words), said];
      });
      assert.equal(await field.getAttribute("aria-invalid"), "true");
      const described = await field.getAttribute("aria-describedby");
      assert.ok((await page.locator(`[id="${described}"]`).innerText()).includes(words));
      assert.ok(await field.evaluate((element) => element === document.activeElement));
      await page.unrouteAll();
    }
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    assert.equal(await page.getByRole("alert").count(), 0);
  }));

for (const [what, answered, wanted] of [["requires 14 characters", 14, 14], ["reports no length", undefined, 8]]) {
  test(`the sign-up form requires a password of ${wanted} characters when the server ${what}`, () =>
    withEnvironment(async (env) => {
      const user = await env.user("alice", { serviceWorkers: "block" });
      const { page } = user;
      await page.route("**/v1/server", async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), password_min_length: answered } });
      });
      await page.reload();
      await page.getByRole("button", { name: "Create account" }).click();
      await page.getByText(`Use at least ${wanted} characters.`).waitFor();
      await page.getByLabel("User ID").fill("alice");
      const field = page.getByLabel("Password", { exact: true });
      const submit = page.getByRole("button", { name: "Create account" });
      await field.fill("x".repeat(wanted - 1));
      await submit.click();
      assert.deepEqual([await field.getAttribute("aria-invalid"), await page.locator(".field-error").allTextContents()], ["true", [`Use at least ${wanted} characters.`]]);
      await field.fill("xy".repeat(wanted / 2));
      await submit.click();
      await user.isOnline();
    }));
}

test("logging_out_ends_every_tab_of_the_user_and_deletes_the_stored_messages", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await env.server.account("bob");
    await alice.startChatWith("bob");
    await alice.send("a secret between us");
    await alice.seesTick("a secret between us", "sent");
    const other = alice.page;
    await alice.openTab();
    await alice.isOnline();
    await alice.page.getByRole("button", { name: "Settings", exact: true }).click();
    await alice.page.getByRole("button", { name: "Log out" }).click();
    for (const page of [alice.page, other]) await page.getByLabel("User ID").waitFor();
    // The other tab also deletes its data, and may finish later.
    await waitUntil("nothing is left", async () => [!(await alice.storedData()).includes("a secret between us"), ""]);
  }));

test("a_server_without_sign_up_shows_no_create_account_button", () =>
  withEnvironment(
    async (env) => {
      const { page } = await env.user("alice");
      await page.getByRole("button", { name: "Log in", exact: true }).waitFor();
      // With this answer, the page has received its own answer to the same request.
      await page.evaluate(() => fetch("/v1/server"));
      assert.equal(await page.getByRole("button", { name: "Create account" }).count(), 0);
    },
    { env: { BLUETICK_AUTH__SIGNUP: "false" } },
  ));
