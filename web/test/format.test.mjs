import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { parseFormat, plainText } = await load("/src/text/format.ts");

/** The tree as short text: <b>, <i>, <c> and <pre> stand for elements, <a> for a link. */
function draw(nodes) {
  const names = { bold: "b", italic: "i", code: "c", block: "pre", link: "a" };
  return nodes.map((node) => (node.kind === "text" ? node.text : `<${names[node.kind]}>${node.children ? draw(node.children) : node.text}</${names[node.kind]}>`)).join("");
}
const drawn = (text) => draw(parseFormat(text));
const plain = (nodes) => nodes.map((node) => (node.children ? plain(node.children) : node.text)).join("");
const depth = (nodes) => Math.max(0, ...nodes.map((node) => 1 + depth(node.children ?? [])));
const countNodes = (nodes) => nodes.reduce((count, node) => count + 1 + countNodes(node.children ?? []), 0);

test("markers_around_words_become_bold_italic_and_code", () => {
  for (const [text, wanted] of [
    ["**bold**", "<b>bold</b>"],
    ["*italic*", "<i>italic</i>"],
    ["_italic_", "<i>italic</i>"],
    ["***both***", "<b><i>both</i></b>"],
    ["a `code` b", "a <c>code</c> b"],
    ["**bold with *italic* in it**", "<b>bold with <i>italic</i> in it</b>"],
    ["*italic with **bold** in it*", "<i>italic with <b>bold</b> in it</i>"],
    ["(**bold**), *italic*.", "(<b>bold</b>), <i>italic</i>."],
    ["*one*\n**two**", "<i>one</i>\n<b>two</b>"],
    ["`*not italic*`", "<c>*not italic*</c>"],
    ["**`code`**", "<b><c>code</c></b>"],
  ]) assert.equal(drawn(text), wanted, text);
});

test("markers_without_a_partner_or_in_words_stay_text", () => {
  for (const text of [
    "snake_case_name", "__init__", "2*3*4", "2 * 3 * 4", "a**b**c", "*", "**", "***", "****bold****", "*open", "close*", "* item\n* item",
    "**", "** bold **", "* *", "_ _", "*a\nb*", "`", "``", "` `", "`open", "*.ts and *.js", "**/*.ts and **/*.js", "/* comment */",
    "f(*args, **kwargs)", "5_000_000", "~/my_dir/*_test.mjs",
  ]) assert.equal(drawn(text), text, text);
});

test("markers_without_a_word_between_them_or_beside_other_punctuation_stay_text", () => {
  for (const text of [
    "*_*", "*-*", "rm *.*", "-_- why -_-", "(*) foo (*)", "_._", "**!**", "*_* and *_*", "^_^ nice ^_^", "cp *.* *.*", "(*)", "[*] a [*] b", "*…*", "**.**",
    "a/_b_/c", "\u2764\ufe0f*", "* 粗体*", "*粗体 *", "snake_大文字_case", "文件_名_称",
  ]) assert.equal(drawn(text), text, text);
});

test("markers_work_in_scripts_without_spaces_and_beside_emoji", () => {
  for (const [text, wanted] of [
    ["**粗体**。", "<b>粗体</b>。"],
    ["「**粗体**」", "「<b>粗体</b>」"],
    ["你好**粗体**你好", "你好<b>粗体</b>你好"],
    ["say *hi*🙂", "say <i>hi</i>🙂"],
    ["**Warning**🙂", "<b>Warning</b>🙂"],
    ["🙂*hi*", "🙂<i>hi</i>"],
    ["❤️*hi*❤️", "❤️<i>hi</i>❤️"],
    ["*🙂*", "<i>🙂</i>"],
    ["これは*斜体*です、**太字**も", "これは<i>斜体</i>です、<b>太字</b>も"],
    ["**한국어**는", "<b>한국어</b>는"],
    ["ok**粗体**ok", "ok<b>粗体</b>ok"],
    ["（_斜体_）", "（<i>斜体</i>）"],
    ["*Hello!* *\"quoted\"* *(so)* *...and then*", "<i>Hello!</i> <i>\"quoted\"</i> <i>(so)</i> <i>...and then</i>"],
    ["**«так»**, *e\u0301te\u0301*", "<b>«так»</b>, <i>e\u0301te\u0301</i>"],
    ["_bob@example.org_", "<i><a>bob@example.org</a></i>"],
  ]) assert.equal(drawn(text), wanted, text);
  for (const text of ["e\u0301*te\u0301*", "𝐚*b*c"]) assert.equal(drawn(text), text, text);
});

test("plain_text_has_the_words_without_the_markers", () => {
  for (const [text, wanted] of [
    ["**bold** and *italic*, `code`", "bold and italic, code"],
    ["***both*** www.a.example", "both www.a.example"],
    ["before\n```js\nx();\n```\nafter", "before\nx();\nafter"],
    ["rm *.*", "rm *.*"],
  ]) assert.equal(plainText(text), wanted, text);
});

test("underscores_and_asterisks_in_addresses_are_not_emphasis", () => {
  for (const address of ["https://a.example/x_y_z", "https://a.example/*x*y", "https://a.example/_x_y", "www.a.example/a_b_c"]) {
    assert.equal(drawn(`see ${address} now`), `see <a>${address}</a> now`);
  }
  assert.equal(drawn("**https://a.example/x_y**"), "<b><a>https://a.example/x_y</a></b>");
  assert.equal(drawn("_see https://a.example/x_y now_"), "<i>see <a>https://a.example/x_y</a> now</i>");
  assert.equal(drawn("first_last@a.example"), "<a>first_last@a.example</a>");
});

test("a_fence_at_the_start_of_a_line_keeps_code_unchanged", () => {
  assert.equal(drawn("```\nlet *a* = `b`;\n```"), "<pre>let *a* = `b`;</pre>");
  assert.equal(drawn("before\n```js\nx();\n  y();\n```\nafter"), "before<pre>x();\n  y();</pre>after");
  assert.equal(drawn("```one line```"), "<pre>one line</pre>");
  assert.equal(drawn("```\n<script>alert(1)</script> https://a.example\n```"), "<pre><script>alert(1)</script> https://a.example</pre>");
  for (const text of ["```", "``````", "```\n\n```", "```\nnot closed", "in a ```line``` of text"]) assert.equal(drawn(text), text, text);
});

test("crossed_markers_nest_or_stay_text", () => {
  assert.equal(drawn("**a *b** c*"), "<b>a *b</b> c*");
  assert.equal(drawn("*a *b*"), "*a <i>b</i>");
  assert.equal(drawn("**a** b** c**"), "<b>a</b> b** c**");
});

test("markup_stays_text_and_no_character_is_added", () => {
  const attacks = ["<img src=x onerror=alert(1)>", "**<script>alert(1)</script>**", "[x](javascript:alert(1))", "`</code><b>`", "*</em><img src=x>*", "javascript:alert(1)", "\u202e *rtl* \u202c", "*a\u0000*", "*a\ud800*"];
  for (const text of attacks) {
    const nodes = parseFormat(text);
    assert.equal(plain(nodes), text.replaceAll(/[*`]/g, ""), text);
    for (const node of nodes) assert.notEqual(node.kind, "link", text);
  }
});

test("random_markers_keep_every_other_character_and_a_bounded_depth", () => {
  let state = 7;
  const random = (below) => ((state = (state * 1_103_515_245 + 12_345) % 2_147_483_648), state % below);
  const alphabet = ["*", "**", "***", "_", "`", "```", "\n", " ", "a", "b", "(", ")", ".", "www.x.y", "https://a.b/_c_"];
  let formatted = 0;
  for (let round = 0; round < 3_000; round++) {
    const text = Array.from({ length: 1 + random(24) }, () => alphabet[random(alphabet.length)]).join("");
    const nodes = parseFormat(text);
    const letters = (value) => value.replaceAll(/[*_`\n]/g, "");
    // The language name after a fence is not shown.
    if (!text.includes("```")) assert.equal(letters(plain(nodes)), letters(text), text);
    assert.ok(depth(nodes) <= 6, text);
    if (depth(nodes) > 1) formatted += 1;
  }
  assert.ok(formatted > 100, `only ${formatted} texts had emphasis`);
});

test("hostile_input_is_parsed_in_linear_time_with_few_nodes", () => {
  const size = 200_000;
  const texts = [
    "*".repeat(size), "_".repeat(size), "`".repeat(size), "*a ".repeat(size / 3), "*a* ".repeat(size / 4), "** ".repeat(size / 3),
    "*a **b ".repeat(size / 7), "*a _b **c ***d ".repeat(size / 15), "`a ".repeat(size / 3), "``` ".repeat(size / 4), "```\n".repeat(size / 4),
    "\n```".repeat(size / 4), "*_".repeat(size / 2), "**_*".repeat(size / 4), "a@".repeat(size / 2), "a.".repeat(size / 2) + "@", "a@a.".repeat(size / 4),
    "www.".repeat(size / 4), "w.w@www.".repeat(size / 8), `a@${"a.".repeat(size / 2)}`, `${"a".repeat(size)}@a.example`, `a@${"a-".repeat(size / 2)}`,
    "*".repeat(size / 2) + "a" + "*".repeat(size / 2), "\n".repeat(size), "*\n".repeat(size / 2),
    "*粗".repeat(size / 2), "粗*".repeat(size / 2), "🙂*".repeat(size / 3), "*.".repeat(size / 2), "_a@a.aa_".repeat(size / 8), "_".repeat(size / 2) + "a@a.aa" + "_".repeat(size / 2), "_a@a.aa_ ".repeat(size / 9),
  ];
  for (const text of texts) {
    // CPU time, so that other load on the machine does not count.
    const before = process.cpuUsage();
    const nodes = parseFormat(text);
    const { user, system } = process.cpuUsage(before);
    const took_ms = (user + system) / 1_000;
    assert.ok(took_ms < 2_000, `${took_ms} ms for ${JSON.stringify(text.slice(0, 40))}`);
    assert.ok(countNodes(nodes) <= text.length, JSON.stringify(text.slice(0, 40)));
    assert.ok(depth(nodes) <= 6);
  }
});
