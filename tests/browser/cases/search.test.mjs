import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

test("Enter means what is typed, not what was found for an earlier text", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice", { serviceWorkers: "block" });
    for (const name of ["bob", "carol"]) await world.server.account(name);
    const { page } = alice;
    let answer;
    const isAsked = new Promise((resolve) => void page.route(/people\?search=carol/, (route) => resolve((answer = () => route.continue()))));
    await alice.search.fill("bo");
    await page.getByRole("option").filter({ hasText: "bob" }).waitFor();
    await alice.search.fill("carol");
    await page.keyboard.press("Enter");
    await isAsked;
    assert.equal(await alice.composer.count(), 0, "nobody is written to yet");
    await answer();
    await page.getByRole("heading", { name: "carol" }).waitFor();

    // Choosing people for a group is the same.
    await page.unrouteAll();
    const isAskedAgain = new Promise((resolve) => void page.route(/people\?search=carol/, (route) => resolve((answer = () => route.continue()))));
    await page.getByRole("button", { name: "New group" }).click();
    const field = page.getByRole("dialog").getByRole("combobox");
    await field.fill("bo");
    await page.getByRole("dialog").getByRole("option").filter({ hasText: "bob" }).waitFor();
    await field.fill("carol");
    await page.keyboard.press("Enter");
    await isAskedAgain;
    await answer();
    await page.getByRole("list", { name: "Chosen" }).getByText("carol").waitFor();
    assert.equal(await page.getByRole("list", { name: "Chosen" }).getByText("bob").count(), 0);
  }));

test("a user that a server with sign-up does not know is not offered, in the search and for a group", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice", { serviceWorkers: "block" });
    await world.server.account("bob");
    const { page } = alice;
    const created = [];
    page.on("request", (request) => request.method() === "POST" && request.url().endsWith("/v1/conversations") && created.push(request.url()));
    await alice.search.fill("zed");
    await page.getByText("No match found.").waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("No match found.").click();
    assert.equal(await page.getByRole("option").count(), 0);
    // Whoever is known is still offered.
    await alice.search.fill("bo");
    await page.getByRole("option").filter({ hasText: "bob" }).waitFor();
    await page.getByRole("button", { name: "New group" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("combobox").fill("zed");
    await dialog.getByText("No match found.").waitFor();
    await page.keyboard.press("Enter");
    assert.equal(await dialog.getByRole("option").count(), 0);
    assert.equal(await dialog.getByRole("list", { name: "Chosen" }).count(), 0);
    await dialog.getByRole("combobox").fill("bo");
    await dialog.getByRole("option").filter({ hasText: "bob" }).click();
    await dialog.getByRole("list", { name: "Chosen" }).getByText("bob").waitFor();
    assert.deepEqual(created, []);
  }));

/**
 * The page takes the server for one without sign-up, whose users come from the operator's own
 * product, and the search finds nobody.
 */
async function hasForeignUsers(page) {
  await page.route("**/v1/server", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), signup: false } });
  });
  await page.route(/people\?search=/, (route) => route.fulfill({ json: { people: [] } }));
}

test("a user the search does not find is written to after a second Enter or a click on the question", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice", { serviceWorkers: "block" });
    for (const name of ["zedd", "zoe"]) await world.server.account(name);
    const { page } = alice;
    await hasForeignUsers(page);
    await alice.search.fill("zed");
    await page.keyboard.press("Enter");
    await page.getByRole("option").getByText("No user “zed” was found. Start a chat anyway?").waitFor();
    await page.getByText("Press Enter again to start a chat anyway.").waitFor({ state: "attached" });
    assert.equal(await alice.composer.count(), 0);
    await alice.search.fill("zedd");
    const question = page.getByRole("option").getByText("No user “zedd” was found. Start a chat anyway?");
    await question.waitFor();
    const { isWhole, lines } = await question.evaluate((element) => {
      const hint = element.closest(".hint");
      return { isWhole: hint.scrollWidth <= hint.clientWidth, lines: hint.clientHeight / parseFloat(getComputedStyle(hint).lineHeight) };
    });
    assert.ok(isWhole && lines > 1.5, `the question wraps: ${lines} lines`);
    for (let time = 0; time < 2; time++) await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "zedd" }).waitFor();
    await alice.search.fill("zoe");
    await page.getByRole("option").getByText("No user “zoe” was found. Start a chat anyway?").click();
    await page.getByRole("heading", { name: "zoe" }).waitFor();
  }));

test("a user the server does not know is told as such, in a chat and in a group", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice", { serviceWorkers: "block" });
    const { page } = alice;
    await hasForeignUsers(page);
    const refusal = { error: { code: "unknown_user", message: "there is no user zed" } };
    await page.route("**/v1/conversations", (route) => (route.request().method() === "POST" ? route.fulfill({ status: 404, json: refusal }) : route.continue()));
    await alice.search.fill("zed");
    await page.getByRole("option").getByText("No user “zed” was found").waitFor();
    for (let time = 0; time < 2; time++) await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("No such user: zed.").waitFor();
    assert.equal(await alice.composer.count(), 0);
    await page.getByRole("button", { name: "New group" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Group name").fill("Tea");
    await dialog.getByRole("combobox").fill("zed");
    await dialog.getByRole("option").getByText("No user “zed” was found. Add anyway?").click();
    await dialog.getByRole("button", { name: "Create group" }).click();
    await dialog.getByRole("alert").getByText("No such user: zed.").waitFor();
  }));

test("a conversation far down the list is found, and the title says that there is more", () =>
  inWorld(async (world) => {
    const bob = await world.server.account("bob");
    await world.server.account("alice");
    for (let number = 1; number <= 70; number++) {
      const group = { kind: "group", title: `Project ${number}.`, members: ["alice"] };
      const { conversation_id } = await bob.call("POST", "/v1/conversations", group);
      await bob.send(conversation_id, "hello");
    }
    const alice = await world.person("alice");
    await alice.logIn();
    await expectSoon("the title counts what is known", async () => {
      const title = await alice.page.title();
      return [/^\(\d+\+\) /.test(title), title];
    });
    await alice.search.fill("Project 1.");
    await alice.page.getByRole("option").filter({ hasText: "Project 1." }).click();
    await alice.page.getByRole("heading", { name: "Project 1." }).waitFor();
    await alice.sees("hello");
  }));
