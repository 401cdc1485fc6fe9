// The language in use, and its texts. Everything here is reactive: text that is drawn with `t`
// changes with the language.

import { createSignal } from "solid-js";
import type { Catalogue, Placeholder, TextKey } from "./catalogue.ts";
import { en } from "./en.ts";
import { LANGUAGES, directionOf, isLanguage, matchLanguage, matchLocale, type LanguageCode } from "./languages.ts";

interface ActiveLanguage {
  readonly language: LanguageCode;
  /** For Intl. */
  readonly locale: string;
  readonly texts: Catalogue;
}

const [active, setActive] = createSignal<ActiveLanguage>({ language: "en", locale: "en", texts: en });

export const language = (): LanguageCode => active().language;
export const locale = (): string => active().locale;

const preferredLanguages = (): readonly string[] => globalThis.navigator?.languages ?? [];

/** A language of the table, or the browser's choice. Settings store it. */
export type LanguageChoice = LanguageCode | "automatic";

export const asLanguageChoice = (stored: string | null): LanguageChoice => (stored !== null && isLanguage(stored) ? stored : "automatic");

let latestUse = 0;

/** Loads the texts of a language and uses them. Uses English where they cannot be loaded. */
export async function useLanguage(choice: LanguageChoice): Promise<void> {
  const use = ++latestUse;
  const preferred = preferredLanguages();
  let code = choice === "automatic" ? matchLanguage(preferred) : choice;
  let texts: Catalogue = en;
  try {
    texts = await LANGUAGES[code].load();
  } catch {
    code = "en";
  }
  if (use !== latestUse) return;
  setActive({ language: code, locale: matchLocale(code, preferred), texts });
  if (typeof document === "undefined") return;
  document.documentElement.lang = code;
  document.documentElement.dir = directionOf(code);
}

// Formatters are expensive to construct, so there is one of each kind per locale.

const formatters = new Map<string, unknown>();

/** The formatter of the current locale. `kind` names it in the cache. */
export function formatterOf<T>(kind: string, create: (locale: string) => T): T {
  const key = `${kind} ${locale()}`;
  const known = formatters.get(key) as T | undefined;
  if (known !== undefined) return known;
  const created = create(locale());
  formatters.set(key, created);
  return created;
}

export const formatNumber = (value: number): string => formatterOf("number", (locale) => new Intl.NumberFormat(locale)).format(value);

export const formatList = (items: readonly string[]): string => formatterOf("list", (locale) => new Intl.ListFormat(locale)).format(items);

type Values = Readonly<Record<string, string | number>>;
type ValuesOf<Key extends TextKey> = [Placeholder<Key>] extends [never] ? [] : [values: Readonly<Record<Placeholder<Key>, string | number>>];

/** The text of a key before its placeholders are filled in. */
function templateOf(key: TextKey, values: Values | undefined): string {
  const text = active().texts[key];
  if (typeof text === "string") return text;
  const category = formatterOf("plural", (locale) => new Intl.PluralRules(locale)).select(Number(values?.count));
  return text[category] ?? text.other;
}

/** The text of a key in the current language. Numbers are formatted; `count` selects the plural. */
export function t<Key extends TextKey>(key: Key, ...[values]: ValuesOf<Key>): string {
  const given = values as Values | undefined;
  return templateOf(key, given).replace(/\{(\w+)\}/g, (placeholder, name: string) => {
    const value = given?.[name];
    return typeof value === "number" ? formatNumber(value) : (value ?? placeholder);
  });
}

/** The text of a key with something else than text in its placeholders, such as elements. */
export function parts<Key extends TextKey, Part>(key: Key, values: Readonly<Record<Placeholder<Key>, Part>>): (string | Part)[] {
  return templateOf(key, undefined)
    .split(/\{(\w+)\}/)
    .map((piece, index) => (index % 2 === 1 ? (values as Readonly<Record<string, Part>>)[piece] ?? piece : piece));
}

/** The text for an error code. Undefined where the catalogue has none. */
export function errorText(code: string): string | undefined {
  const key = `error.${code}`;
  return Object.hasOwn(active().texts, key) ? t(key as "error.network") : undefined;
}
