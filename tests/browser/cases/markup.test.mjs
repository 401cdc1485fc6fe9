import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

const ATTACKS = [
  "<script>window.hacked = 1</script>",
  "<img src=x onerror=\"window.hacked = 1\">",
  "<svg onload=window.hacked=1>",
  "\"><iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
  "javascript:window.hacked=1",
  "[click](javascript:window.hacked=1)",
  "https://example.org/\"onmouseover=\"window.hacked=1",
  "{{constructor.constructor('window.hacked=1')()}}",
  "<style>*{display:none}</style>",
  "&lt;b&gt;not bold&lt;/b&gt; <b>nor this</b>",
];

test("markup_in_messages_names_and_titles_stays_text", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    // Users also write names and titles.
    const bob = await env.server.account("<img/src=x/onerror=window.hacked=1>", "<svg onload=window.hacked=1>");
    const id = await bob.direct("alice");
    for (const attack of ATTACKS) await bob.send(id, attack);
    const group = { kind: "group", title: "<b onclick=window.hacked=1>bold</b>", members: ["alice"] };
    const { conversation_id } = await bob.call("POST", "/v1/conversations", group);
    await bob.send(conversation_id, ATTACKS[1]);
    const row = (id) => alice.page.locator(`[data-conversation-id="${id}"]`);
    await row(id).getByText("<svg onload").first().waitFor();
    await row(conversation_id).getByText("<b onclick").first().waitFor();
    await row(id).getByRole("link").click();
    await alice.seesTexts(ATTACKS);
    const found = await alice.page.evaluate(() => ({
      hacked: window.hacked,
      elements: document.querySelectorAll("[data-message-id] :is(script, img, iframe, style, b, svg:not(.tick)), [onerror], [onload], [onclick], [onmouseover]").length,
      links: Array.from(document.querySelectorAll(".content a"), (link) => link.protocol),
    }));
    assert.equal(found.hacked, undefined);
    assert.equal(found.elements, 0);
    assert.deepEqual([...new Set(found.links)], ["https:"]);
    await row(conversation_id).getByRole("link").click();
    await alice.sees("<img src=x");
    assert.equal(await alice.page.evaluate(() => window.hacked), undefined);
  }));

test("the_content_security_policy_blocks_injected_scripts_and_styles", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const violations = await alice.page.evaluateHandle(async () => {
      const violations = [];
      document.addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
      const script = document.createElement("script");
      script.textContent = "window.hacked = 1";
      document.body.append(script);
      const holder = document.createElement("div");
      holder.innerHTML = "<p style='color: red'>styled</p><img src=x onerror='window.hacked = 1'>";
      document.body.append(holder);
      // After this event, the handler of the image would have run.
      await new Promise((resume) => holder.querySelector("img").addEventListener("error", () => setTimeout(resume)));
      return violations;
    });
    const wanted = ["script-src-elem", "style-src-attr", "script-src-attr"];
    await waitUntil("each is forbidden", async () => {
      const told = await violations.jsonValue();
      return [wanted.every((directive) => told.includes(directive)), told];
    });
    assert.equal(await alice.page.evaluate(() => window.hacked), undefined);
    // The test caused these errors.
    env.errors.length = 0;
  }));

test("formatting_becomes_elements_in_the_message_and_plain_text_in_the_list_and_the_clipboard", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice", { permissions: ["clipboard-read", "clipboard-write"] });
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "```js\nlet wide = \"" + "x".repeat(300) + "\";\n<b>not bold</b>\n```");
    await bob.send(id, "**bold <i>x</i>**, *italic*, `code *c*`, snake_case_name, **<img src=x onerror=window.hacked=1>**");
    await alice.row("bob").getByText("bold <i>x</i>, italic, code *c*").waitFor();
    await alice.open("bob");
    const content = alice.message("snake_case_name").locator(".content");
    await content.waitFor();
    assert.deepEqual(await content.locator("strong").allInnerTexts(), ["bold <i>x</i>", "<img src=x onerror=window.hacked=1>"]);
    assert.deepEqual(await content.locator("em").allInnerTexts(), ["italic"]);
    assert.deepEqual(await content.locator("code").allInnerTexts(), ["code *c*"]);
    assert.equal(await content.innerText(), "bold <i>x</i>, italic, code *c*, snake_case_name, <img src=x onerror=window.hacked=1>");
    const block = alice.message("not bold").locator("code.block");
    assert.equal(await block.getAttribute("tabindex"), "0", "a keyboard reaches code that scrolls sideways");
    assert.match(await block.innerText(), /^let wide = "x+";\n<b>not bold<\/b>$/);
    const found = await alice.page.evaluate(() => ({
      isHacked: "hacked" in window,
      elements: document.querySelectorAll(".content :is(b, i, img, script)").length,
      isWithin: [...document.querySelectorAll(".scroller")].every((each) => each.scrollWidth <= each.clientWidth),
    }));
    assert.deepEqual(found, { isHacked: false, elements: 0, isWithin: true });
    const copied = await content.evaluate((element) => {
      getSelection().selectAllChildren(element);
      const data = new DataTransfer();
      element.dispatchEvent(new ClipboardEvent("copy", { clipboardData: data, bubbles: true, cancelable: true }));
      return { types: [...data.types], text: data.getData("text/plain") };
    });
    assert.deepEqual(copied, { types: ["text/plain"], text: await content.innerText() });
  }));

test("links_line_breaks_long_words_emoji_and_right_to_left_text_are_drawn_correctly", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "see https://example.org/a_(b)?c=d#e, and www is not one; www.example.org or bob@example.org are");
    await bob.send(id, "first line\nsecond line");
    await bob.send(id, "Donaudampfschifffahrt".repeat(60));
    await bob.send(id, "🎉🎉");
    await bob.send(id, "שלום, מה שלומך?");
    await alice.open("bob");
    await alice.sees("שלום");
    const links = alice.message("see https").getByRole("link");
    const addresses = await links.evaluateAll((all) => all.map((link) => [link.getAttribute("href"), link.target, link.rel]));
    assert.deepEqual(addresses, [
      ["https://example.org/a_(b)?c=d#e", "_blank", "noopener noreferrer"],
      ["https://www.example.org/", "_blank", "noopener noreferrer"],
      ["mailto:bob@example.org", "", "noopener noreferrer"],
    ]);
    const heightOf = async (text) => (await alice.message(text).locator(".content").boundingBox()).height;
    assert.ok((await heightOf("first line")) > 1.5 * (await heightOf("שלום")), "two lines are higher than one");
    const isWithin = await alice.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth &&
      [...document.querySelectorAll(".scroller")].every((each) => each.scrollWidth <= each.clientWidth));
    assert.ok(isWithin, "no element is wider than the page");
    const direction = await alice.message("שלום").locator(".text").evaluate((element) => getComputedStyle(element).direction);
    assert.equal(direction, "rtl");
  }));
