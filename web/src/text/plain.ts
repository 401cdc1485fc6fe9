// What is done to a text whatever it says.

/** The beginning of a text, never cut within a character. */
export const cut = (text: string, length: number): string => (text.length <= length ? text : text.slice(0, length).replace(/[\ud800-\udbff]$/, ""));

/** Enough for one line. */
export const firstLine = (content: string): string => cut(content, 200).replace(/\s+/gu, " ");

/** A reason as a sentence: the server's own begin small and end without a stop. */
export function friendly(reason: string): string {
  const text = reason.trim();
  const [first = ""] = text;
  return text === "" ? "" : `${first.toLocaleUpperCase()}${text.slice(first.length)}${/[.!?…]$/u.test(text) ? "" : "."}`;
}
