import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { splitLinks, isEmojiOnly } = await load("/src/text/links.ts");
const links = (text) => splitLinks(text).filter(({ href }) => href).map(({ text }) => text);

test("the parts of a message are the message, whatever is in it", () => {
  for (const text of ["", "plain", "see https://a.example/x.", "https://a.example https://b.example", "a\nhttp://c.example\n"]) {
    assert.equal(splitLinks(text).map((part) => part.text).join(""), text);
  }
});

test("what ends the sentence is not of the link", () => {
  assert.deepEqual(links("Look at https://a.example/x, please."), ["https://a.example/x"]);
  assert.deepEqual(links("(it is https://a.example/x)"), ["https://a.example/x"]);
  assert.deepEqual(links("https://a.example/wiki/Tick_(mark)"), ["https://a.example/wiki/Tick_(mark)"]);
});

test("only http and https lead anywhere", () => {
  for (const text of ["javascript:alert(1)", "data:text/html,x", "ftp://a.example", "//a.example", "file:///etc/passwd", "http://"]) {
    assert.deepEqual(links(text), []);
  }
});

test("a quote or a tag ends a link, so that it cannot bring markup along", () => {
  assert.deepEqual(links('https://a.example/"onmouseover="x'), ["https://a.example/"]);
  assert.deepEqual(links("https://a.example/<b>c</b>"), ["https://a.example/"]);
});

test("a few emoji alone are shown large, words and digits are not", () => {
  for (const text of ["👍", "🎉🎉 🎉", "👩‍👩‍👧", "🇳🇱"]) assert.ok(isEmojiOnly(text), text);
  for (const text of ["", "ok 👍", "123", "#", "👍".repeat(30)]) assert.ok(!isEmojiOnly(text), text);
});
