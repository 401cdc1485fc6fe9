// What is done to a text whatever it says.

import { plainText } from "./format.ts";

/** The beginning of a text, never cut within a character. */
export const cut = (text: string, length: number): string => (text.length <= length ? text : text.slice(0, length).replace(/[\ud800-\udbff]$/, ""));

/** A preview holds the beginning of a message, where the last code block may have no end. */
const LAST_FENCE = /(?:^|\n)```[^`]*$/;
const hasOpenFence = (text: string): boolean => LAST_FENCE.test(text) && text.split("```").length % 2 === 0;

/** Enough for one line, without formatting. */
export function firstLine(content: string): string {
  const start = cut(content, 200);
  return plainText(hasOpenFence(start) ? `${start}\n\`\`\`` : start).replace(/\s+/gu, " ").trim();
}

/** A reason as a sentence: the server's own begin small and end without a stop. */
export function friendly(reason: string): string {
  const text = reason.trim();
  const [first = ""] = text;
  return text === "" ? "" : `${first.toLocaleUpperCase()}${text.slice(first.length)}${/[.!?…]$/u.test(text) ? "" : "."}`;
}
