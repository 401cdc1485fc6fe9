import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { dayName, lastSeen, shortTime } = await load("/src/text/time.ts");
const { asSentence, firstLine, truncate } = await load("/src/text/plain.ts");
const { absenceText, hueOf, noticeText, previewOf, typingText } = await load("/src/text/texts.ts");
const { fieldProblemOf, messageOf, reasonText } = await load("/src/state/load.ts");

const NOON = new Date(2026, 0, 15, 12).getTime();
const HOUR = 3_600_000;

test("times_as_text_depend_on_the_current_time", () => {
  assert.equal(dayName(NOON, NOON), "Today");
  assert.equal(dayName(NOON, NOON + 13 * HOUR), "Yesterday");
  assert.equal(shortTime(NOON, NOON + 13 * HOUR), "Yesterday");
  assert.equal(lastSeen(NOON, NOON + 5_000), "last seen just now");
  assert.equal(lastSeen(NOON, NOON + 5 * 60_000), "last seen 5 minutes ago");
  assert.match(lastSeen(NOON, NOON + HOUR), /^last seen today at 12:00/);
  assert.match(lastSeen(NOON, NOON + 24 * HOUR), /^last seen yesterday at 12:00/);
  assert.equal(lastSeen(NOON, NOON + 3 * 24 * HOUR), "last seen on Thursday");
  assert.equal(lastSeen(NOON, NOON + 30 * 24 * HOUR), "last seen on January 15");
});

test("truncate_never_splits_a_character", () => {
  for (let length = 0; length < 8; length++) assert.ok(truncate("a👍b👍c", length).isWellFormed(), String(length));
  assert.equal(truncate("short", 10), "short");
  assert.ok(firstLine("a" + "👍".repeat(500)).isWellFormed());
});

test("a_reason_becomes_a_sentence_with_capital_letter_and_full_stop", () => {
  assert.equal(asSentence("the user_id is taken"), "The user_id is taken.");
  assert.equal(asSentence("Try again!"), "Try again!");
  assert.equal(asSentence(""), "");
});

test("missing_content_has_the_same_text_in_the_chat_list_and_in_the_conversation", () => {
  const nameOf = (user) => user.toUpperCase();
  for (const [content_type, words] of [["erased", "This message was deleted"], ["lost", "This message is not available"]]) {
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

test("a_void_has_an_empty_preview", () => {
  const last_message = { sender_id: "void", content: "", content_type: "void" };
  assert.deepEqual(previewOf({ kind: "group", last_message }, "alice", (user) => user), { by: "", text: "" });
});

test("error_text_depends_on_the_code_and_not_on_the_server_message", () => {
  assert.equal(reasonText("archive_unavailable", "older messages cannot be read now"), "Older messages can't be loaded right now. Try again later.");
  assert.equal(messageOf(Object.assign(new Error("x"), { code: "rate_limited" })), "Too many requests. Try again in a moment.");
  assert.equal(messageOf(Object.assign(new Error("x"), { code: "not_in_the_catalogue" })), "Something went wrong (not_in_the_catalogue). Try again.");
  assert.equal(messageOf("no error"), "Something went wrong. Try again.");
});

test("unknown_user_error_names_the_user_when_the_server_names_one", () => {
  assert.equal(reasonText("unknown_user", "there is no user victim"), "User “victim” doesn't exist.");
  assert.equal(reasonText("unknown_user", "nobody is there"), "This user doesn't exist.");
});

test("a_refusal_about_one_field_names_the_field", () => {
  const failure = (code, message) => Object.assign(new Error(message), { code });
  assert.equal(fieldProblemOf(failure("name_reserved", "x")).field, "user_id");
  assert.equal(fieldProblemOf(failure("user_exists", "x")).field, "user_id");
  assert.deepEqual(fieldProblemOf(failure("invalid_request", "password: this password is one of the most common ones; choose another")), { field: "password", text: "This password is too common. Choose another one." });
  assert.deepEqual(fieldProblemOf(failure("invalid_request", "password: the password is the user_id; choose another")), { field: "password", text: "This password can't be used. Choose a longer one that isn't your user ID." });
  for (const [code, message] of [["invalid_request", "the body is no JSON"], ["invalid_request", "token: x"], ["internal", "password: x"]]) assert.equal(fieldProblemOf(failure(code, message)), null);
  assert.equal(fieldProblemOf("nothing"), null);
});

test("group_event_names_the_current_user_as_you", () => {
  const notice = (facts) => noticeText({ content_type: "system", content: JSON.stringify(facts) }, "alice", (user) => user.toUpperCase());
  assert.equal(notice({ event: "member_added", by: "alice", user_id: "bob" }), "You added \u2068BOB\u2069");
  assert.equal(notice({ event: "member_added", by: "bob", user_id: "alice" }), "\u2068BOB\u2069 added you");
  assert.equal(notice({ event: "member_removed", by: "bob", user_id: "carol" }), "\u2068BOB\u2069 removed \u2068CAROL\u2069");
  assert.equal(notice({ event: "member_left", user_id: "alice" }), "You left");
  assert.equal(notice({ event: "group_created", by: "bob", title: "Tea", member_count: 3 }), "\u2068BOB\u2069 created the group “\u2068Tea\u2069” with 3 members");
  assert.equal(notice({ event: "from_a_later_version" }), "The group was changed");
});

test("typing_text_names_up_to_two_people", () => {
  const typing = (...users) => typingText(users, true, (user) => user);
  assert.equal(typing("bob"), "bob is typing…");
  assert.equal(typing("bob", "carol"), "bob and carol are typing…");
  assert.equal(typing("bob", "carol", "dan"), "3 people are typing…");
});
