// Functions on text in any language.

import { plainText } from "./format.ts";

/** The beginning of a text. Never ends within a character. */
export const truncate = (text: string, length: number): string => (text.length <= length ? text : text.slice(0, length).replace(/[\ud800-\udbff]$/, ""));

/** A preview holds the beginning of a message, where the last code block may have no end. */
const LAST_FENCE = /(?:^|\n)```[^`]*$/;
const hasOpenFence = (text: string): boolean => LAST_FENCE.test(text) && text.split("```").length % 2 === 0;

/** Enough for one line, without formatting. */
export function firstLine(content: string): string {
  const start = truncate(content, 200);
  return plainText(hasOpenFence(start) ? `${start}\n\`\`\`` : start).replace(/\s+/gu, " ").trim();
}

/** A reason of the SDK as a sentence: with a capital letter and a full stop. */
export function asSentence(reason: string): string {
  const text = reason.trim();
  const [first = ""] = text;
  return text === "" ? "" : `${first.toLocaleUpperCase()}${text.slice(first.length)}${/[.!?…]$/u.test(text) ? "" : "."}`;
}
