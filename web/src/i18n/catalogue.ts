// The types of a catalogue of texts. English defines the keys and the placeholders; a language
// with a missing key does not compile.

import type { en } from "./en.ts";

/** One form per plural category of the language. `other` is used for a category without a form. */
export type Plural = { readonly other: string } & Readonly<Partial<Record<Intl.LDMLPluralRule, string>>>;

export type TextKey = keyof typeof en;

export type Catalogue = { readonly [Key in TextKey]: (typeof en)[Key] extends string ? string : Plural };

type NamesIn<Text> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;

/** The names of the values that one text needs. A text with plural forms needs `count`. */
export type Placeholder<Key extends TextKey> = (typeof en)[Key] extends { readonly other: infer Other } ? NamesIn<Other> | "count" : NamesIn<(typeof en)[Key]>;
