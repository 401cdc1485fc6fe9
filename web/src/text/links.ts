// Finds the links in what people wrote. It only splits text: drawing, and with it the safety of what is drawn, is the
// caller's, who makes elements of the parts.

export interface TextPart {
  text: string;
  /** Where the part leads; only http and https ever do. */
  href?: string;
}

const ADDRESS = /\bhttps?:\/\/[^\s<>"“”«»]+/giu;
/** What is longer is nothing to click on, and would only cost time. */
const LINK_LIMIT = 2_000;
const ENDS_SENTENCE = new Set(".,:;!?'’…*_~");
const PAIRS: Readonly<Record<string, string>> = { ")": "(", "]": "[", "}": "{" };

export function splitLinks(content: string): TextPart[] {
  if (!/https?:\/\//i.test(content)) return [{ text: content }];
  const parts: TextPart[] = [];
  let end = 0;
  for (const match of content.matchAll(ADDRESS)) {
    if (match[0].length > LINK_LIMIT) continue;
    const text = withoutTrailing(match[0]);
    const href = addressOf(text);
    if (!href) continue;
    if (match.index > end) parts.push({ text: content.slice(end, match.index) });
    parts.push({ text, href });
    end = match.index + text.length;
  }
  if (end < content.length) parts.push({ text: content.slice(end) });
  return parts;
}

/** What ends a sentence, or closes a bracket that was opened before the link, is not of the link. */
function withoutTrailing(found: string): string {
  // How many of each closing bracket have nothing in the link that they close.
  const surplus: Record<string, number> = {};
  for (const [closing, opening] of Object.entries(PAIRS)) surplus[closing] = count(found, closing) - count(found, opening);
  let length = found.length;
  for (; length > 0; length -= 1) {
    const last = found.charAt(length - 1);
    const open = surplus[last] ?? 0;
    if (open > 0) surplus[last] = open - 1;
    else if (!ENDS_SENTENCE.has(last)) break;
  }
  return found.slice(0, length);
}

function count(text: string, letter: string): number {
  let found = 0;
  for (const each of text) if (each === letter) found += 1;
  return found;
}

function addressOf(text: string): string | null {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

const EMOJI_ONLY = /^(?:[\p{Extended_Pictographic}\p{Regional_Indicator}][\p{Emoji_Modifier}\u{FE0F}\u{200D}\u{E0020}-\u{E007F}]*\s*){1,10}$/u;

/** A few emoji and nothing else are shown large. */
export const isEmojiOnly = (content: string): boolean => content.length <= 40 && EMOJI_ONLY.test(content);
