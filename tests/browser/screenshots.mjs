// Takes the screenshots of the README: npm run screenshots -w tests/browser. No test compares them,
// so look at them.

import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { withEnvironment } from "./harness/environment.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/screenshots/", import.meta.url));
const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };

const PEOPLE = [
  ["mira", "Mira Okafor"], ["jonas", "Jonas Weber"], ["sofia", "Sofia Lindqvist"], ["noor", "נועה לוי"],
  ["teo", "Teo Marchetti"], ["hana", "Hana Sato"], ["lea", "Léa Fontaine"],
];

const CHAT = [
  ["mira", "Morning! Did the new build make it to staging?"],
  ["alice", "It did, an hour ago. Zero errors so far 🎉"],
  ["alice", "The dashboard is here: https://status.example.org/builds/1841"],
  ["mira", "Lovely. I'll tell the support team."],
  ["mira", "One more thing: the train on Friday leaves at 8:12 and not at 8:40,\nso we should meet at the station at eight."],
  ["alice", "Eight it is. I'll bring coffee ☕"],
  ["mira", "❤️"],
];

const GROUP_CHAT = [
  ["jonas", "Who is in for the hike on Sunday?"],
  ["sofia", "Me! And I'm bringing the dog."],
  ["alice", "Count me in. Shall we take the northern route?"],
  ["hana", "Yes please, the view from the ridge is worth it"],
  ["jonas", "Northern route then. 9:30 at the car park."],
];

async function createChats(env) {
  const { server } = env;
  const people = new Map();
  people.set("alice", await server.account("alice", "Alice Moreau"));
  for (const [id, name] of PEOPLE) people.set(id, await server.account(id, name));
  // The senders set the timestamps, so that the messages are spread over a day.
  let at = Date.now() - 26 * 3_600_000;
  const say = (who, id, text) => {
    at += (Date.now() - at) / 6;
    const message = { message_id: crypto.randomUUID(), content: text, timestamp: Math.round(at) };
    return people.get(who).call("POST", `/v1/conversations/${id}/messages`, message);
  };
  const with_ = (peer) => people.get("alice").direct(peer);
  await say("teo", await with_("teo"), "The invoice is paid, thank you!");
  await say("alice", await with_("lea"), "Happy birthday, Léa! 🥳");
  const noor = await with_("noor");
  await say("noor", noor, "נתראה מחר בעשר?");
  const team = { kind: "group", title: "Sunday hike", members: ["jonas", "sofia", "hana"] };
  const group = (await people.get("alice").call("POST", "/v1/conversations", team)).conversation_id;
  for (const [who, text] of GROUP_CHAT) await say(who, group, text);
  const mira = await with_("mira");
  for (const [who, text] of CHAT) await say(who, mira, text);
  await people.get("mira").call("POST", `/v1/conversations/${mira}/read`, { seq: 7 });
  await people.get("alice").call("PATCH", `/v1/conversations/${mira}/settings`, { pinned: true });
  await people.get("alice").call("POST", `/v1/conversations/${mira}/read`, { seq: 7 });
  for (const [reader, seq] of [["jonas", 6], ["hana", 6]]) {
    await people.get(reader).call("POST", `/v1/conversations/${group}/read`, { seq });
  }
  return people;
}

async function takeScreenshot(user, name) {
  await user.page.mouse.move(0, 0);
  await user.page.waitForTimeout(400);
  await user.page.screenshot({ path: `${FOLDER}${name}.png` });
  console.log(`docs/screenshots/${name}.png`);
}

await mkdir(FOLDER, { recursive: true });
await withEnvironment(async (env) => {
  await createChats(env);
  const miraOnline = await env.user("mira");
  await miraOnline.logIn();
  for (const colorScheme of ["light", "dark"]) {
    const alice = await env.user("alice", { ...DESKTOP, colorScheme });
    await takeScreenshot(alice, `login-${colorScheme}`);
    await alice.logIn();
    await alice.open("Mira");
    await alice.sees("❤️");
    await miraOnline.open("Alice");
    await takeScreenshot(alice, `conversation-${colorScheme}`);
    await alice.open("Sunday hike");
    await alice.message("Count me in").getByRole("button").click();
    await alice.page.getByRole("list", { name: "Read by" }).waitFor();
    await takeScreenshot(alice, `group-${colorScheme}`);
    await alice.context.close();
    const phone = await env.user("alice", { ...PHONE, colorScheme });
    await phone.logIn();
    await phone.row("Mira").waitFor();
    await takeScreenshot(phone, `phone-inbox-${colorScheme}`);
    await phone.open("Mira");
    await phone.sees("❤️");
    await takeScreenshot(phone, `phone-conversation-${colorScheme}`);
    await phone.context.close();
  }
});
