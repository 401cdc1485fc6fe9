import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import test, { after } from "node:test";
import { startLoader } from "./load.mjs";

const { load, close } = await startLoader();
after(close);
const { en } = await load("/src/i18n/en.ts");
const { LANGUAGES, directionOf, matchLanguage, matchLocale } = await load("/src/i18n/languages.ts");
const { asLanguageChoice, parts, t, useLanguage, formatList, formatNumber } = await load("/src/i18n/index.ts");

const SOURCES = new URL("../src/", import.meta.url);
const catalogues = await Promise.all(Object.entries(LANGUAGES).map(async ([code, language]) => [code, await language.load()]));

const formsOf = (text) => (typeof text === "string" ? [text] : Object.values(text));
const placeholdersOf = (text) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))].sort();

async function inLanguage(choice, check) {
  await useLanguage(choice);
  try {
    check();
  } finally {
    await useLanguage("en");
  }
}

test("every_catalogue_has_the_same_keys_in_the_same_kind", () => {
  assert.ok(catalogues.length >= 3, `${catalogues.length} languages`);
  for (const [code, texts] of catalogues) {
    assert.deepEqual(Object.keys(texts).sort(), Object.keys(en).sort(), code);
    for (const [key, text] of Object.entries(texts)) assert.equal(typeof text, typeof en[key], `${code}: ${key}`);
  }
});

test("every_text_has_the_placeholders_of_the_english_text", () => {
  let compared = 0;
  for (const [code, texts] of catalogues) {
    for (const [key, text] of Object.entries(texts)) {
      const wanted = placeholdersOf(formsOf(en[key]).at(-1));
      for (const form of formsOf(text)) {
        assert.deepEqual(placeholdersOf(form), wanted, `${code}: ${key}: ${form}`);
        assert.ok(form.trim() === form && form !== "", `${code}: ${key}: spaces around the text, or no text`);
        compared += 1;
      }
    }
  }
  assert.ok(compared > 400, `only ${compared} texts were compared`);
});

test("plural_forms_are_categories_of_their_language", () => {
  for (const [code, texts] of catalogues) {
    const { pluralCategories } = new Intl.PluralRules(code).resolvedOptions();
    for (const [key, text] of Object.entries(texts)) {
      if (typeof text === "string") continue;
      assert.ok("other" in text && "one" in text, `${code}: ${key}`);
      for (const category of Object.keys(text)) assert.ok(pluralCategories.includes(category), `${code}: ${key}: ${category}`);
    }
  }
});

test("a_translation_differs_from_english_in_most_texts", () => {
  for (const [code, texts] of catalogues) {
    if (code === "en") continue;
    const same = Object.keys(en).filter((key) => JSON.stringify(texts[key]) === JSON.stringify(en[key]));
    assert.ok(same.length < Object.keys(en).length / 10, `${code}: ${same}`);
  }
});

test("every_key_is_used_by_the_client", async () => {
  const files = (await readdir(SOURCES, { recursive: true })).filter((file) => /\.tsx?$/.test(file) && !file.startsWith("i18n/") && !file.startsWith("docs/"));
  const source = (await Promise.all(files.map((file) => readFile(new URL(file, SOURCES), "utf8")))).join("\n");
  const unused = Object.keys(en).filter((key) => !key.startsWith("error.") && !source.includes(`"${key}"`));
  assert.deepEqual(unused, []);
});

test("every_error_key_is_a_code_of_the_server_or_of_the_sdk", async () => {
  const documented = await readFile(new URL("../../docs/openapi.json", import.meta.url), "utf8");
  const ofSdk = ["network", "outbox_full", "storage_in_use", "logged_out"];
  const keys = Object.keys(en).filter((key) => key.startsWith("error."));
  assert.ok(keys.length > 20, `${keys.length} codes`);
  for (const key of keys) {
    const code = key.slice("error.".length);
    assert.ok(ofSdk.includes(code) || documented.includes(`"${code}"`), code);
  }
});

test("components_have_no_text_outside_of_the_catalogue", async () => {
  const folder = new URL("components/", SOURCES);
  let checked = 0;
  for (const file of (await readdir(folder)).filter((file) => file.endsWith(".tsx"))) {
    const source = await readFile(new URL(file, folder), "utf8");
    const found = [
      ...source.matchAll(/\b(?:aria-label|title|placeholder|label|alt)="([^"]*[a-z][^"]*)"/g),
      ...source.matchAll(/<(?:p|span|h1|h2|h3|strong|button|legend|li|dd|label)\b[^<>]*>\s*([A-Z][a-z]+[^<>{}]*)</g),
    ].map(([, text]) => text);
    assert.deepEqual(found.filter((text) => text !== "Bluetick"), [], file);
    checked += 1;
  }
  assert.ok(checked > 15, `${checked} files`);
});

test("the_first_preferred_language_with_a_catalogue_is_used", () => {
  assert.equal(matchLanguage(["de-AT", "en"]), "de");
  assert.equal(matchLanguage(["fr-CA", "es-MX", "de"]), "es");
  assert.equal(matchLanguage(["fr", "ja"]), "en");
  assert.equal(matchLanguage([]), "en");
  assert.equal(matchLanguage(["DE"]), "de");
  assert.equal(matchLanguage(["constructor"]), "en");
});

test("the_locale_keeps_the_region_of_the_preferred_language", () => {
  assert.equal(matchLocale("de", ["fr", "de-CH", "de"]), "de-CH");
  assert.equal(matchLocale("es", ["de-CH"]), "es");
  assert.equal(matchLocale("en", ["en-GB-oxendict"]), "en-GB-oxendict");
  assert.equal(matchLocale("en", ["en_US.UTF-8"]), "en");
});

test("right_to_left_languages_have_the_direction_rtl", () => {
  for (const tag of ["ar", "ar-EG", "he", "fa-IR", "ur"]) assert.equal(directionOf(tag), "rtl", tag);
  for (const tag of ["en", "de", "es", "ja", "az-Latn"]) assert.equal(directionOf(tag), "ltr", tag);
});

test("an_unknown_stored_language_choice_is_automatic", () => {
  assert.equal(asLanguageChoice("de"), "de");
  for (const stored of [null, "", "fr", "constructor"]) assert.equal(asLanguageChoice(stored), "automatic");
});

test("numbers_plurals_and_lists_follow_the_language", async () => {
  assert.equal(t("memberCount", { count: 1 }), "1 member");
  assert.equal(t("memberCount", { count: 12_345 }), "12,345 members");
  assert.equal(formatList(["a", "b", "c"]), "a, b, and c");
  await inLanguage("de", () => {
    assert.equal(t("memberCount", { count: 1 }), "1 Mitglied");
    assert.equal(t("memberCount", { count: 12_345 }), "12.345 Mitglieder");
    assert.equal(formatList(["a", "b", "c"]), "a, b und c");
    assert.equal(formatNumber(1.5), "1,5");
  });
  await inLanguage("es", () => {
    assert.equal(t("unread", { count: 1 }), "1 mensaje no leído");
    // Spanish has a plural category for millions, for which the form `other` is used.
    assert.equal(t("unread", { count: 1_000_000 }), "1.000.000 mensajes no leídos");
  });
});

test("a_value_with_braces_is_not_a_placeholder", () => {
  assert.equal(t("memberAdded", { by: "{name}", name: "$& {by}" }), "{name} added $& {by}");
});

test("parts_keep_values_that_are_not_text", () => {
  const key = { element: "kbd" };
  assert.deepEqual(parts("selectChatHint", { search: key, help: "?" }), ["Press ", key, " to search, or ", "?", " for keyboard shortcuts."]);
});

test("the_latest_language_choice_wins_when_two_load_at_once", async () => {
  await Promise.all([useLanguage("de"), useLanguage("es")]);
  assert.equal(t("logIn"), "Iniciar sesión");
  await useLanguage("en");
  assert.equal(t("logIn"), "Log in");
});
