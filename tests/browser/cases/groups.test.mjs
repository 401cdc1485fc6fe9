import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

async function createGroup(user, title, members) {
  const { page } = user;
  await page.getByRole("button", { name: "New group" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Group name").fill(title);
  for (const member of members) {
    await dialog.getByRole("combobox").fill(member);
    await dialog.getByRole("option").filter({ hasText: member }).first().click();
  }
  await dialog.getByRole("button", { name: "Create group" }).click();
  await user.composer.waitFor();
}

test("every_member_of_a_new_group_gets_a_message_and_its_sender_sees_the_readers", () =>
  withEnvironment(async (env) => {
    const [alice, bob] = [await env.signedUp("alice"), await env.signedUp("bob")];
    await env.server.account("carol");
    await createGroup(alice, "Tea party", ["bob", "carol"]);
    await alice.send("Who brings the cake?");
    await alice.seesTick("Who brings the cake?", "sent");
    await bob.open("Tea party");
    await bob.sees("Who brings the cake?");
    await bob.send("I do");
    await alice.sees("I do");

    await alice.message("Who brings the cake?").getByRole("button").click();
    const info = alice.page.getByRole("complementary", { name: "Message info" });
    await info.getByRole("list", { name: "Read by" }).getByText("bob").waitFor();
    await info.getByRole("list", { name: "Not delivered yet" }).getByText("carol").waitFor();

    // The ticks turn blue when the last member has read the message.
    assert.equal(await alice.message("Who brings the cake?").getAttribute("data-state"), "sent");
    const carol = await env.user("carol");
    await carol.logIn();
    await alice.seesTick("Who brings the cake?", "delivered");
    await carol.open("Tea party");
    await alice.seesTick("Who brings the cake?", "read");
  }));

test("a_removed_member_loses_the_group_and_an_added_member_sees_only_new_messages", () =>
  withEnvironment(async (env) => {
    const [alice, bob] = [await env.signedUp("alice"), await env.signedUp("bob")];
    await env.server.account("carol");
    await createGroup(alice, "Tea party", ["bob"]);
    await alice.send("before carol");
    await bob.open("Tea party");
    await bob.sees("before carol");

    const { page } = alice;
    await page.getByRole("button", { name: "Info", exact: true }).click();
    const info = page.getByRole("complementary", { name: "Chat info" });
    await info.getByRole("button", { name: "Add members" }).click();
    await info.getByRole("combobox").fill("carol");
    await info.getByRole("option").filter({ hasText: "carol" }).first().click();
    await info.getByRole("button", { name: "Add", exact: true }).click();
    await alice.sees("carol");
    const carol = await env.user("carol");
    await carol.logIn();
    await carol.open("Tea party");
    await alice.send("after carol");
    await carol.sees("after carol");
    assert.equal(await carol.message("before carol").count(), 0);

    await info.getByRole("button", { name: "Remove bob" }).click();
    await waitUntil("the group is gone for bob", async () => [(await bob.row("Tea party").count()) === 0, ""]);
  }));
