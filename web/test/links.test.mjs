import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { splitLinks, isEmojiOnly } = await load("/src/text/links.ts");
const links = (text) => splitLinks(text).filter(({ href }) => href).map(({ text }) => text);

test("the_parts_of_a_message_join_to_the_message", () => {
  for (const text of ["", "plain", "see https://a.example/x.", "https://a.example https://b.example", "a\nhttp://c.example\n"]) {
    assert.equal(splitLinks(text).map((part) => part.text).join(""), text);
  }
});

test("punctuation_at_the_end_of_a_sentence_is_not_part_of_the_link", () => {
  assert.deepEqual(links("Look at https://a.example/x, please."), ["https://a.example/x"]);
  assert.deepEqual(links("(it is https://a.example/x)"), ["https://a.example/x"]);
  assert.deepEqual(links("https://a.example/wiki/Tick_(mark)"), ["https://a.example/wiki/Tick_(mark)"]);
});

test("only_http_and_https_addresses_become_links", () => {
  for (const text of ["javascript:alert(1)", "data:text/html,x", "ftp://a.example", "//a.example", "file:///etc/passwd", "http://"]) {
    assert.deepEqual(links(text), []);
  }
});

test("an_address_that_begins_with_www_leads_there_over_https", () => {
  const [, link] = splitLinks("see www.example.org/a_b?c, or not");
  assert.deepEqual(link, { text: "www.example.org/a_b?c", href: "https://www.example.org/a_b?c" });
  for (const text of ["www", "www.", "www.example", "www.example.", "awww.example.org", "x.www.example.org", "/www.example.org", "www..org", "www.@evil.org", "www.a:b@c.org"]) {
    assert.deepEqual(links(text), [], text);
  }
});

test("an_email_address_opens_a_mail_to_it", () => {
  for (const text of ["bob@example.org", "a.b+c@mail.example.org", "x_y-z@a-b.example"]) {
    const [before, link, after] = splitLinks(`to ${text}, please`);
    assert.deepEqual([before.text, link, after.text], ["to ", { text, href: `mailto:${text}` }, ", please"]);
  }
  assert.deepEqual(links("(bob@example.org). <al@example.org>"), ["bob@example.org", "al@example.org"]);
  for (const text of ["@bob", "bob@", "bob@localhost", "a@b.c", ".bob@example.org", "bo..b@example.org", "bob.@example.org", "bob@@example.org", "é@example.org", `${"x".repeat(65)}@example.org`, "bob@example.org2", "bob@-.1"]) {
    assert.deepEqual(links(text), [], text);
  }
});

test("an_email_address_between_underscores_is_a_link_without_them", () => {
  for (const text of ["_bob@example.org_", "__bob@example.org__", "see _bob@example.org_, please"]) assert.deepEqual(links(text), ["bob@example.org"], text);
  assert.equal(splitLinks("_bob@example.org_").map((part) => part.text).join(""), "_bob@example.org_");
  assert.deepEqual(links("_bob@example.org"), ["_bob@example.org"]);
  for (const text of ["_bob@example.org_x", "bob@example.org_", "é_bob@example.org_", "_bob@example.org__", "_@example.org_"]) assert.deepEqual(links(text), [], text);
});

test("a_quote_or_a_tag_ends_a_link", () => {
  assert.deepEqual(links('https://a.example/"onmouseover="x'), ["https://a.example/"]);
  assert.deepEqual(links("https://a.example/<b>c</b>"), ["https://a.example/"]);
});

test("only_a_few_emoji_alone_are_shown_large", () => {
  for (const text of ["👍", "🎉🎉 🎉", "👩‍👩‍👧", "🇳🇱"]) assert.ok(isEmojiOnly(text), text);
  for (const text of ["", "ok 👍", "123", "#", "👍".repeat(30)]) assert.ok(!isEmojiOnly(text), text);
});

test("hostile_text_is_split_in_linear_time", () => {
  const size = 200_000;
  const texts = [
    `https://a.example/${")".repeat(size)}`,
    `https://a.example/${"(".repeat(size)}${")".repeat(size)}`,
    `https://a.example/${".".repeat(size)}x`,
    `https://a.example/${").".repeat(size / 2)}`,
    "https://".repeat(size / 8),
    "https://a.example/) ".repeat(size / 20),
    `https://a.example/${".)".repeat(900)} `.repeat(100),
    "http".repeat(size / 4),
  ];
  for (const text of texts) {
    // CPU time, so that other load on the machine does not count.
    const before = process.cpuUsage();
    assert.equal(splitLinks(text).map((part) => part.text).join(""), text);
    const { user, system } = process.cpuUsage(before);
    const took_ms = (user + system) / 1_000;
    assert.ok(took_ms < 1_000, `${took_ms} ms for ${text.slice(0, 40)}`);
  }
});

test("an_address_over_the_length_limit_stays_text", () => {
  assert.deepEqual(links(`https://a.example/${"x".repeat(1_900)}`).length, 1);
  assert.deepEqual(links(`https://a.example/${"x".repeat(3_000)} and https://b.example`), ["https://b.example"]);
});
