import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

test("two people sign up, find each other, and the tick goes from one to two to blue", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await world.server.account("bob", "Bob Builder");
    await alice.startChatWith("build");
    await alice.say("Is anybody there?");
    await alice.seesTick("Is anybody there?", "sent");

    // Bob comes: his device has the message, and he has not looked yet.
    const bob = await world.person("bob");
    await bob.logIn();
    await alice.seesTick("Is anybody there?", "delivered");
    await expectSoon("one unread", async () => {
      const row = await bob.row("alice").innerText();
      return [/1 unread/.test(row) && row.includes("Is anybody there?"), row];
    });
    await expectSoon("the title counts it", async () => [/^\(1\)/.test(await bob.page.title()), await bob.page.title()]);

    await bob.open("alice");
    await bob.sees("Is anybody there?");
    await alice.seesTick("Is anybody there?", "read");
    await expectSoon("nothing unread", async () => [(await bob.page.title()) === "Bluetick", await bob.page.title()]);

    await bob.say("I am.");
    await alice.sees("I am.");
    await bob.seesTick("I am.", "read");
    assert.deepEqual(await alice.texts(), ["Is anybody there?", "I am."]);
  }));

test("who writes is shown as writing, and who is there as being there", () =>
  inWorld(async (world) => {
    const [alice, bob] = [await world.signedUp("alice"), await world.signedUp("bob")];
    await alice.startChatWith("bob");
    await alice.say("hello");
    await bob.open("alice");
    await alice.page.getByRole("main").getByText("online").waitFor();
    await bob.composer.pressSequentially("I am thin");
    await alice.page.getByRole("main").getByText(/(typing|writing)/i).waitFor();
    await bob.say("I am thinking");
    await alice.sees("I am thinking");
    await alice.page.getByRole("main").getByText(/(typing|writing)/i).waitFor({ state: "detached" });
    await bob.context.close();
    await alice.page.getByRole("main").getByText(/last seen/i).waitFor();
  }));

test("a wrong password, a name that is taken and one that cannot be are told, and nothing typed is lost", () =>
  inWorld(async (world) => {
    await world.server.account("alice");
    const somebody = await world.person("alice");
    const { page } = somebody;
    await page.getByLabel("User ID").fill("alice");
    await page.getByLabel("Password", { exact: true }).fill("not this one");
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await expectSoon("a word about it", async () => {
      const said = await page.getByRole("alert").innerText();
      return [said.length > 5, said];
    });
    assert.equal(await page.getByLabel("User ID").inputValue(), "alice");
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByLabel("Password", { exact: true }).fill("long enough");
    await page.getByRole("button", { name: "Create account" }).click();
    await expectSoon("that it is taken", async () => {
      const said = await page.getByRole("alert").innerText();
      return [/taken|exists/i.test(said), said];
    });
    await page.getByRole("button", { name: "Log in instead" }).click();
    await somebody.logIn();
  }));

test("what the server says about a field of the sign-up stands below that field", () =>
  inWorld(async (world) => {
    const { page } = await world.person("alice", { serviceWorkers: "block" });
    const refusals = [
      [409, "name_reserved", "this user_id is reserved; choose another", "User ID", "This user ID is reserved."],
      [409, "user_exists", "the user_id is taken", "User ID", "is taken"],
      [400, "invalid_request", "password: this password is one of the most common ones; choose another", "Password", "This password is too common."],
      [400, "invalid_request", "user_id: has a character that cannot be seen", "User ID", "Has a character that cannot be seen."],
    ];
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByLabel("User ID").fill("admin");
    await page.getByLabel("Password", { exact: true }).fill("password1");
    for (const [status, code, message, label, words] of refusals) {
      await page.route("**/v1/signup", (route) => route.fulfill({ status, json: { error: { code, message } } }));
      await page.getByRole("button", { name: "Create account" }).click();
      const field = page.getByLabel(label, { exact: true });
      await expectSoon(`${words} at ${label}`, async () => {
        const said = await page.getByRole("alert").allInnerTexts();
        return [said.length === 1 && said[0].includes(words), said];
      });
      assert.equal(await field.getAttribute("aria-invalid"), "true");
      const described = await field.getAttribute("aria-describedby");
      assert.ok((await page.locator(`[id="${described}"]`).innerText()).includes(words));
      assert.ok(await field.evaluate((element) => element === document.activeElement));
      await page.unrouteAll();
    }
    await page.getByRole("button", { name: "Log in instead" }).click();
    assert.equal(await page.getByRole("alert").count(), 0);
  }));

for (const [what, answered, wanted] of [["names 14 characters", 14, 14], ["names none", undefined, 8]]) {
  test(`the sign-up asks for a password of ${wanted} characters when the server ${what}`, () =>
    inWorld(async (world) => {
      const person = await world.person("alice", { serviceWorkers: "block" });
      const { page } = person;
      await page.route("**/v1/server", async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), password_min_length: answered } });
      });
      await page.reload();
      await page.getByRole("button", { name: "Create account" }).click();
      await page.getByText(`Use at least ${wanted} characters.`).waitFor();
      await page.getByLabel("User ID").fill("alice");
      const field = page.getByLabel("Password", { exact: true });
      await field.pressSequentially("x".repeat(wanted - 1));
      assert.equal(await field.evaluate((element) => element.validity.tooShort), true);
      await field.pressSequentially("y");
      assert.equal(await field.evaluate((element) => element.validity.valid), true);
    }));
}

test("logging out ends every tab of the person and leaves nothing of the conversations in the browser", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await world.server.account("bob");
    await alice.startChatWith("bob");
    await alice.say("a secret between us");
    await alice.seesTick("a secret between us", "sent");
    const other = alice.page;
    await alice.openTab();
    await alice.isOnline();
    await alice.page.getByRole("button", { name: "Settings", exact: true }).click();
    await alice.page.getByRole("button", { name: "Log out" }).click();
    for (const page of [alice.page, other]) await page.getByLabel("User ID").waitFor();
    // The other tab erases as well, in its own time: it may have been writing.
    await expectSoon("nothing is left", async () => [!(await alice.remembered()).includes("a secret between us"), ""]);
  }));

test("a server without sign-up offers none", () =>
  inWorld(
    async (world) => {
      const { page } = await world.person("alice");
      await page.getByRole("button", { name: "Log in", exact: true }).waitFor();
      // An answer that says yes would have shown it by then.
      await page.evaluate(() => fetch("/v1/server"));
      assert.equal(await page.getByRole("button", { name: "Create account" }).count(), 0);
    },
    { env: { BLUETICK_AUTH__SIGNUP: "false" } },
  ));
