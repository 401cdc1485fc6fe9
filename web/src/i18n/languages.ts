// The languages of the web client. A translation is one file beside this one, and one line in
// `LANGUAGES`.

import type { Catalogue } from "./catalogue.ts";
import { en } from "./en.ts";

interface Language {
  /** The name of the language in that language. */
  readonly name: string;
  load(): Catalogue | Promise<Catalogue>;
}

/** English is part of the first load. The other languages load on demand. */
export const LANGUAGES = {
  en: { name: "English", load: () => en },
  de: { name: "Deutsch", load: async () => (await import("./de.ts")).de },
  es: { name: "Español", load: async () => (await import("./es.ts")).es },
} satisfies Record<string, Language>;

export type LanguageCode = keyof typeof LANGUAGES;

export const isLanguage = (code: string): code is LanguageCode => Object.hasOwn(LANGUAGES, code);

/** Languages written from right to left, by the primary subtag of BCP 47. */
const RIGHT_TO_LEFT = new Set("ar arc ckb dv fa he ks nqo ps sd syr ug ur yi".split(" "));

export const primarySubtag = (tag: string): string => tag.toLowerCase().split("-")[0] ?? "";

export const directionOf = (tag: string): "ltr" | "rtl" => (RIGHT_TO_LEFT.has(primarySubtag(tag)) ? "rtl" : "ltr");

/** The first preferred language that has a catalogue. Falls back to English. */
export const matchLanguage = (preferred: readonly string[]): LanguageCode => preferred.map(primarySubtag).find(isLanguage) ?? "en";

/**
 * The locale for dates and numbers: the preferred tag of this language, such as `de-AT` for `de`.
 * Falls back to the language itself.
 */
export const matchLocale = (language: LanguageCode, preferred: readonly string[]): string =>
  preferred.find((tag) => primarySubtag(tag) === language && isValidLocale(tag)) ?? language;

function isValidLocale(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length === 1;
  } catch {
    return false;
  }
}
