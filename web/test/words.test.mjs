import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { dayName, lastSeen, moment } = await load("/src/text/time.ts");
const { cut, firstLine, friendly } = await load("/src/text/plain.ts");
const { absenceText, hueOf, previewOf } = await load("/src/text/words.ts");
const { fieldProblemOf, reasonText } = await load("/src/state/load.ts");

const NOON = new Date(2026, 0, 15, 12).getTime();
const HOUR = 3_600_000;

test("what is said of a moment ages", () => {
  assert.equal(dayName(NOON, NOON), "Today");
  assert.equal(dayName(NOON, NOON + 13 * HOUR), "Yesterday");
  assert.equal(moment(NOON, NOON + 13 * HOUR), "Yesterday");
  assert.equal(lastSeen(NOON, NOON + 5_000), "last seen just now");
  assert.equal(lastSeen(NOON, NOON + 5 * 60_000), "last seen 5 min ago");
  assert.match(lastSeen(NOON, NOON + 24 * HOUR), /yesterday/);
});

test("no cut goes through a character", () => {
  for (let length = 0; length < 8; length++) assert.ok(cut("a👍b👍c", length).isWellFormed(), String(length));
  assert.equal(cut("short", 10), "short");
  assert.ok(firstLine("a" + "👍".repeat(500)).isWellFormed());
});

test("a reason is a sentence, whoever gave it", () => {
  assert.equal(friendly("the user_id is taken"), "The user_id is taken.");
  assert.equal(friendly("Try again!"), "Try again!");
  assert.equal(friendly(""), "");
});

test("what stands in place of a content that is not there is the same in the list and in the conversation", () => {
  const nameOf = (user) => user.toUpperCase();
  for (const [content_type, words] of [["erased", "This message was deleted"], ["lost", "This message cannot be read at the moment"]]) {
    const last_message = { sender_id: "bob", content: "", content_type };
    assert.equal(absenceText(last_message), words);
    assert.deepEqual(previewOf({ kind: "direct", last_message }, "alice", nameOf), { by: "", text: words, isAbsent: true });
    assert.deepEqual(previewOf({ kind: "group", last_message }, "alice", nameOf), { by: "BOB", text: words, isAbsent: true });
  }
  assert.equal(absenceText({ content_type: "text" }), "");
});

test("a_preview_shows_no_formatting_markers", () => {
  const preview = (content) => previewOf({ kind: "direct", last_message: { sender_id: "bob", content, content_type: "text" } }, "alice", (user) => user).text;
  assert.equal(preview("**bold**, *italic*\nand `code`"), "bold, italic and code");
  assert.equal(preview("```js\nlet x = 1;\n```\nafter"), "let x = 1; after");
  assert.equal(preview(`\`\`\`js\nlet x = "${"y".repeat(300)}";\n\`\`\``).slice(0, 9), "let x = \"");
  assert.equal(preview("rm *.* and in a ```line"), "rm *.* and in a ```line");
});

test("user_ids_that_differ_in_one_character_get_different_colours", () => {
  const distance = (one, other) => Math.min(Math.abs(one - other), 360 - Math.abs(one - other));
  for (const name of ["user", "alice", "bob", "test-"]) {
    const hues = Array.from({ length: 100 }, (_, number) => hueOf(`${name}${number}`));
    const near = hues.filter((hue, index) => index > 0 && distance(hue, hues[index - 1]) < 12).length;
    assert.ok(near < 20, `${near} of 100 neighbours of ${name} look alike`);
    assert.ok(hues.every((hue) => Number.isInteger(hue) && hue >= 0 && hue < 360));
  }
  assert.equal(hueOf("alice"), hueOf("alice"));
});

test("of a void there is nothing to say", () => {
  const last_message = { sender_id: "void", content: "", content_type: "void" };
  assert.deepEqual(previewOf({ kind: "group", last_message }, "alice", (user) => user), { by: "", text: "" });
});

test("an archive that does not answer is told in friendly words", () => {
  assert.equal(reasonText("archive_unavailable", "older messages cannot be read now"), "Older messages can't be loaded right now.");
});

test("an_unknown_user_is_named_where_the_server_names_one", () => {
  assert.equal(reasonText("unknown_user", "there is no user victim"), "No such user: victim.");
  assert.equal(reasonText("unknown_user", "nobody is there"), "No such user.");
});

test("a_refusal_about_one_field_names_the_field", () => {
  const failure = (code, message) => Object.assign(new Error(message), { code });
  assert.equal(fieldProblemOf(failure("name_reserved", "x")).field, "user_id");
  assert.equal(fieldProblemOf(failure("user_exists", "x")).field, "user_id");
  assert.deepEqual(fieldProblemOf(failure("invalid_request", "password: this password is one of the most common ones; choose another")), { field: "password", text: "This password is too common. Choose another one." });
  assert.deepEqual(fieldProblemOf(failure("invalid_request", "password: the password is the user_id; choose another")), { field: "password", text: "The password is the user ID; choose another." });
  for (const [code, message] of [["invalid_request", "the body is no JSON"], ["invalid_request", "token: x"], ["internal", "password: x"]]) assert.equal(fieldProblemOf(failure(code, message)), null);
  assert.equal(fieldProblemOf("nothing"), null);
});
