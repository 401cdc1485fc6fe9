import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

test("enter_waits_for_the_answer_to_the_current_text", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice", { serviceWorkers: "block" });
    for (const name of ["bob", "carol"]) await env.server.account(name);
    const { page } = alice;
    let answer;
    const isAsked = new Promise((resolve) => void page.route(/people\?search=carol/, (route) => resolve((answer = () => route.continue()))));
    await alice.search.fill("bo");
    await page.getByRole("option").filter({ hasText: "bob" }).waitFor();
    await alice.search.fill("carol");
    await page.keyboard.press("Enter");
    await isAsked;
    assert.equal(await alice.composer.count(), 0, "no chat is open yet");
    await answer();
    await page.getByRole("heading", { name: "carol" }).waitFor();

    // The people picker of a group does the same.
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
    await page.getByRole("list", { name: "Selected" }).getByText("carol").waitFor();
    assert.equal(await page.getByRole("list", { name: "Selected" }).getByText("bob").count(), 0);
  }));

test("an_unknown_user_of_a_server_with_sign_up_is_not_offered_in_the_search_and_for_a_group", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice", { serviceWorkers: "block" });
    await env.server.account("bob");
    const { page } = alice;
    const created = [];
    page.on("request", (request) => request.method() === "POST" && request.url().endsWith("/v1/conversations") && created.push(request.url()));
    await alice.search.fill("zed");
    await page.getByText("No results found").waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("No results found").click();
    assert.equal(await page.getByRole("option").count(), 0);
    // A known user is still offered.
    await alice.search.fill("bo");
    await page.getByRole("option").filter({ hasText: "bob" }).waitFor();
    await page.getByRole("button", { name: "New group" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("combobox").fill("zed");
    await dialog.getByText("No results found").waitFor();
    await page.keyboard.press("Enter");
    assert.equal(await dialog.getByRole("option").count(), 0);
    assert.equal(await dialog.getByRole("list", { name: "Selected" }).count(), 0);
    await dialog.getByRole("combobox").fill("bo");
    await dialog.getByRole("option").filter({ hasText: "bob" }).click();
    await dialog.getByRole("list", { name: "Selected" }).getByText("bob").waitFor();
    assert.deepEqual(created, []);
  }));

/**
 * Simulates a server without sign-up, whose users come from the operator's own product. The search
 * has no results.
 */
async function hasForeignUsers(page) {
  await page.route("**/v1/server", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), signup: false } });
  });
  await page.route(/people\?search=/, (route) => route.fulfill({ json: { people: [] } }));
}

test("a_chat_with_a_user_who_was_not_found_starts_after_a_second_enter_or_a_click_on_the_question", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice", { serviceWorkers: "block" });
    for (const name of ["zedd", "zoe"]) await env.server.account(name);
    const { page } = alice;
    await hasForeignUsers(page);
    await alice.search.fill("zed");
    await page.keyboard.press("Enter");
    await page.getByRole("option").getByText("User “zed” was not found. Start a chat anyway?").waitFor();
    await page.getByText("Press Enter again to start a chat anyway.").waitFor({ state: "attached" });
    assert.equal(await alice.composer.count(), 0);
    await alice.search.fill("zedd");
    const question = page.getByRole("option").getByText("User “zedd” was not found. Start a chat anyway?");
    await question.waitFor();
    const { isWhole, lines } = await question.evaluate((element) => {
      const hint = element.closest(".hint");
      return { isWhole: hint.scrollWidth <= hint.clientWidth, lines: hint.clientHeight / parseFloat(getComputedStyle(hint).lineHeight) };
    });
    assert.ok(isWhole && lines > 1.5, `the question wraps: ${lines} lines`);
    for (let time = 0; time < 2; time++) await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "zedd" }).waitFor();
    await alice.search.fill("zoe");
    await page.getByRole("option").getByText("User “zoe” was not found. Start a chat anyway?").click();
    await page.getByRole("heading", { name: "zoe" }).waitFor();
  }));

test("an_unknown_user_error_names_the_user_for_a_chat_and_for_a_group", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice", { serviceWorkers: "block" });
    const { page } = alice;
    await hasForeignUsers(page);
    const refusal = { error: { code: "unknown_user", message: "there is no user zed" } };
    await page.route("**/v1/conversations", (route) => (route.request().method() === "POST" ? route.fulfill({ status: 404, json: refusal }) : route.continue()));
    await alice.search.fill("zed");
    await page.getByRole("option").getByText("User “zed” was not found").waitFor();
    for (let time = 0; time < 2; time++) await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("User “zed” doesn't exist.").waitFor();
    assert.equal(await alice.composer.count(), 0);
    await page.getByRole("button", { name: "New group" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Group name").fill("Tea");
    await dialog.getByRole("combobox").fill("zed");
    await dialog.getByRole("option").getByText("User “zed” was not found. Add anyway?").click();
    await dialog.getByRole("button", { name: "Create group" }).click();
    await dialog.getByRole("alert").getByText("User “zed” doesn't exist.").waitFor();
  }));

test("a_conversation_beyond_the_first_page_is_found_and_the_title_shows_that_more_exist", () =>
  withEnvironment(async (env) => {
    const bob = await env.server.account("bob");
    await env.server.account("alice");
    for (let number = 1; number <= 70; number++) {
      const group = { kind: "group", title: `Project ${number}.`, members: ["alice"] };
      const { conversation_id } = await bob.call("POST", "/v1/conversations", group);
      await bob.send(conversation_id, "hello");
    }
    const alice = await env.user("alice");
    await alice.logIn();
    await waitUntil("the title counts what is known", async () => {
      const title = await alice.page.title();
      return [/^\(\d+\+\) /.test(title), title];
    });
    await alice.search.fill("Project 1.");
    await alice.page.getByRole("option").filter({ hasText: "Project 1." }).click();
    await alice.page.getByRole("heading", { name: "Project 1." }).waitFor();
    await alice.sees("hello");
  }));
