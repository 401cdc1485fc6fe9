// Finds the links in what people wrote. It only splits text: drawing, and with it the safety of what is drawn, is the
// caller's, who makes elements of the parts.

export interface TextPart {
  text: string;
  /** Where the part leads; only http and https ever do. */
  href?: string;
}

const ADDRESS = /\bhttps?:\/\/[^\s<>"“”«»]+/giu;
const TRAILING = /[.,:;!?'’…*_~]+$/u;
const PAIRS: Record<string, string> = { ")": "(", "]": "[", "}": "{" };

export function splitLinks(content: string): TextPart[] {
  if (!/https?:\/\//i.test(content)) return [{ text: content }];
  const parts: TextPart[] = [];
  let end = 0;
  for (const match of content.matchAll(ADDRESS)) {
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
  let text = found;
  for (;;) {
    const before = text;
    text = text.replace(TRAILING, "");
    const last = text.at(-1) ?? "";
    const opening = PAIRS[last];
    if (opening && text.split(last).length > text.split(opening).length) text = text.slice(0, -1);
    if (text === before) return text;
  }
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
