// Finds the links in a message. This module only splits text. The caller turns the parts into
// elements and is responsible for drawing them safely.

export interface TextPart {
  text: string;
  /** The target of a link: always an http, https or mailto address. */
  href?: string;
}

/**
 * Web addresses, `www.` without a scheme, and e-mail addresses. Every repetition is bounded or
 * excludes what follows it.
 */
const ADDRESS = /\bhttps?:\/\/[^\s<>"“”«»]+|\bwww\.[^\s<>"“”«»]+|[a-z\d_.+-]{1,64}@(?:[a-z\d-]{1,63}\.){1,8}[a-z]{2,63}/gi;
/** Fast check: a text that does not match has no link. */
const HAS_ADDRESS = /https?:\/\/|www\.|@/i;
/** Characters that belong to the name of a mailbox. */
const IN_MAILBOX = /[\p{L}\p{N}_.+-]/u;
/**
 * Bounds the length of a link in characters. A longer address stays text, which bounds the work.
 */
const LINK_LIMIT = 2_000;
/** Characters at the end of an address that belong to the sentence. */
const ENDS_SENTENCE = new Set(".,:;!?'’…*_~");
/** By closing bracket, its opening bracket. */
const PAIRS: Readonly<Record<string, string>> = { ")": "(", "]": "[", "}": "{" };

export function splitLinks(content: string): TextPart[] {
  if (!HAS_ADDRESS.test(content)) return [{ text: content }];
  const parts: TextPart[] = [];
  let end = 0;
  for (const match of content.matchAll(ADDRESS)) {
    if (match[0].length > LINK_LIMIT) continue;
    const isWeb = /^(?:https?:\/\/|www\.)/i.test(match[0]);
    const { link, at } = isWeb ? { link: webLink(match[0], content[match.index - 1] ?? ""), at: match.index } : mailLink(match[0], content, match.index);
    if (!link) continue;
    if (at > end) parts.push({ text: content.slice(end, at) });
    parts.push(link);
    end = at + link.text.length;
  }
  if (end < content.length) parts.push({ text: content.slice(end) });
  return parts;
}

function webLink(found: string, before: string): TextPart | null {
  const text = withoutTrailing(found);
  if (/^https?:/i.test(text)) return asLink(text, text);
  // `x.www.example.org` and `/www.example.org` are parts of a longer text; `www.example` is not an
  // address.
  if (before !== "" && "./@-".includes(before)) return null;
  return /^www\.[^./?#:@]+\.[^./?#:@]/i.test(text) ? asLink(text, `https://${text}`) : null;
}

/**
 * A part of a longer word is not a mailbox. In `_bob@example.org_` the underscores mark emphasis,
 * so the link begins after them.
 */
function mailLink(found: string, content: string, start: number): { link: TextPart | null; at: number } {
  const end = start + found.length;
  const markers = content[end] === "_" ? found.search(/[^_]/) : 0;
  const [before = "", after = ""] = [content[start - 1], content[end + markers]];
  const [text, at] = [found.slice(markers), start + markers];
  if (IN_MAILBOX.test(before) || /[\p{L}\p{N}_@]/u.test(after) || /^[.@]|[.]@|[.]{2}/.test(text)) return { link: null, at };
  return { link: { text, href: `mailto:${text}` }, at };
}

function asLink(text: string, address: string): TextPart | null {
  const href = addressOf(address);
  return href ? { text, href } : null;
}

/** Removes the end of a sentence, and brackets that were opened before the link. */
function withoutTrailing(found: string): string {
  // How many of each closing bracket have no opening bracket in the link.
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

/** A text of 1 to 10 emoji. */
const EMOJI_ONLY = /^(?:[\p{Extended_Pictographic}\p{Regional_Indicator}][\p{Emoji_Modifier}\u{FE0F}\u{200D}\u{E0020}-\u{E007F}]*\s*){1,10}$/u;

/** A message of a few emoji and nothing else is shown large. */
export const isEmojiOnly = (content: string): boolean => content.length <= 40 && EMOJI_ONLY.test(content);
