import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

async function makeGroup(person, title, members) {
  const { page } = person;
  await page.getByRole("button", { name: "New group" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Group name").fill(title);
  for (const member of members) {
    await dialog.getByRole("combobox").fill(member);
    await dialog.getByRole("option").filter({ hasText: member }).first().click();
  }
  await dialog.getByRole("button", { name: "Create group" }).click();
  await person.composer.waitFor();
}

test("a group is made, everybody in it gets the message, and one sees who has read it", () =>
  inWorld(async (world) => {
    const [alice, bob] = [await world.signedUp("alice"), await world.signedUp("bob")];
    await world.server.account("carol");
    await makeGroup(alice, "Tea party", ["bob", "carol"]);
    await alice.say("Who brings the cake?");
    await alice.seesTick("Who brings the cake?", "sent");
    await bob.open("Tea party");
    await bob.sees("Who brings the cake?");
    await bob.say("I do");
    await alice.sees("I do");

    await alice.message("Who brings the cake?").getByRole("button").click();
    const info = alice.page.getByRole("complementary", { name: "Message info" });
    await info.getByRole("list", { name: "Read by" }).getByText("bob").waitFor();
    await info.getByRole("list", { name: "Not delivered yet" }).getByText("carol").waitFor();

    // Not blue before the last has read it.
    assert.equal(await alice.message("Who brings the cake?").getAttribute("data-state"), "sent");
    const carol = await world.person("carol");
    await carol.logIn();
    await alice.seesTick("Who brings the cake?", "delivered");
    await carol.open("Tea party");
    await alice.seesTick("Who brings the cake?", "read");
  }));

test("who is taken out of a group sees it no more, and who is added sees what comes", () =>
  inWorld(async (world) => {
    const [alice, bob] = [await world.signedUp("alice"), await world.signedUp("bob")];
    await world.server.account("carol");
    await makeGroup(alice, "Tea party", ["bob"]);
    await alice.say("before carol");
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
    const carol = await world.person("carol");
    await carol.logIn();
    await carol.open("Tea party");
    await alice.say("after carol");
    await carol.sees("after carol");
    assert.equal(await carol.message("before carol").count(), 0);

    await info.getByRole("button", { name: "Remove bob" }).click();
    await expectSoon("the group is gone for bob", async () => [(await bob.row("Tea party").count()) === 0, ""]);
  }));
