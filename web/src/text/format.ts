// Parses the formatting of a message: **bold**, *italic* or _italic_, `code`, fenced code, and
// links. It returns a tree of plain values; the caller draws it with elements and text nodes, so no
// message becomes markup.
//
// Every pass is linear in the length of the text, and the tree is at most as deep as there are
// kinds of emphasis. A marker without a partner, or without a word between it and its partner,
// stays text.

import { splitLinks } from "./links.ts";

export type FormatNode =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "link"; readonly text: string; readonly href: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "block"; readonly text: string }
  | { readonly kind: "bold" | "italic"; readonly children: readonly FormatNode[] };

export function parseFormat(content: string): FormatNode[] {
  const nodes: FormatNode[] = [];
  let from = 0;
  for (const { start, end, code } of findBlocks(content)) {
    parseLines(content.slice(from, start), nodes);
    nodes.push({ kind: "block", text: code });
    from = end;
  }
  parseLines(content.slice(from), nodes);
  return joined(nodes);
}

/** The text of a message without its formatting: for previews and screen readers. */
export function plainText(content: string): string {
  return textOf(parseFormat(content));
}

const textOf = (nodes: readonly FormatNode[]): string =>
  nodes.map((node) => ("children" in node ? textOf(node.children) : node.kind === "block" ? `\n${node.text}\n` : node.text)).join("");

// Fenced code

const FENCE = "```";

interface Block {
  /** From the first character that the block replaces to the one after its last. */
  start: number;
  end: number;
  code: string;
}

/**
 * A fence begins a line. The rest of that line is the name of a language if the code begins on the
 * next line.
 */
function findBlocks(content: string): Block[] {
  const blocks: Block[] = [];
  let from = 0;
  for (;;) {
    const open = content.indexOf(FENCE, from);
    const close = open < 0 ? -1 : content.indexOf(FENCE, open + FENCE.length);
    if (close < 0) return blocks;
    const isLineStart = open === 0 || content[open - 1] === "\n";
    const code = content.slice(open + FENCE.length, close).replace(/^[\w+#.-]{0,30}[ \t]{0,8}\n/, "");
    if (isLineStart && code.trim() !== "") {
      const end = close + FENCE.length;
      // The line breaks around a block belong to it.
      blocks.push({ start: open === 0 ? 0 : open - 1, end: content[end] === "\n" ? end + 1 : end, code: code.replace(/\n$/, "") });
      from = end;
    } else from = open + FENCE.length;
  }
}

// One line: emphasis and inline code end at its end

function parseLines(text: string, nodes: FormatNode[]): void {
  if (text === "") return;
  if (!/[*_`]/.test(text)) return pushLinks(text, nodes);
  for (const line of text.match(/[^\n]*\n|[^\n]+/g) ?? []) for (const node of parseLine(line)) nodes.push(node);
}

function pushLinks(text: string, nodes: FormatNode[]): void {
  for (const { text: part, href } of splitLinks(text)) nodes.push(href === undefined ? { kind: "text", text: part } : { kind: "link", text: part, href });
}

/** The kinds of emphasis by their markers. No other run of the same characters is a marker. */
const MARKERS: Readonly<Record<string, (children: FormatNode[]) => FormatNode>> = {
  "*": (children) => ({ kind: "italic", children }),
  _: (children) => ({ kind: "italic", children }),
  "**": (children) => ({ kind: "bold", children }),
  "***": (children) => ({ kind: "bold", children: [{ kind: "italic", children }] }),
};

// A marker opens or closes emphasis depending on the characters beside it

/** Scripts that are written without spaces, or that attach particles to a word. */
const UNSPACED = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u;
/** The variation selector of an emoji is a mark, but not a part of a word. */
const IN_WORD = /[\p{L}\p{N}\p{Mn}\p{Mc}]/u;
const VARIATION_SELECTOR = "\ufe0f";
const OPENS_ASCII = /[\s*_([{"',;:-]/u;
const CLOSES_ASCII = /[\s*_)\]}"',;:.!?-]/u;
/** Emphasis does not begin before these, except at the start of a word. */
const ENDS_PHRASE = /[\p{Pe}\p{Pf}\p{Pd},;:.!?…。、，；：！？]/u;
const OPENS_BRACKET = /[\p{Ps}\p{Pi}]/u;
const WORD = /[\p{L}\p{N}\p{Extended_Pictographic}\p{Regional_Indicator}]/u;

const isInWord = (character: string) => IN_WORD.test(character) && character !== VARIATION_SELECTOR;

/**
 * Whether a word may end or begin between a marker and its outer neighbour. `inner` is the
 * character on the other side of the marker. An underscore is never a marker within a word.
 */
function isBoundary(outer: string, inner: string, marker: string, ascii: RegExp): boolean {
  if (outer <= "\x7f" && !isInWord(outer)) return ascii.test(outer);
  if (!isInWord(outer)) return true;
  return !marker.startsWith("_") && (UNSPACED.test(outer) || UNSPACED.test(inner));
}

/** In `*_*` the underscore is text. */
const isBetweenMarkers = (before: string, after: string) => /[*_]/.test(before) && /[*_]/.test(after);

function mayOpen(marker: string, before: string, after: string): boolean {
  if (/\s/u.test(after) || isBetweenMarkers(before, after) || !isBoundary(before, after, marker, OPENS_ASCII)) return false;
  return !ENDS_PHRASE.test(after) || /[\s*_]/u.test(before);
}

function mayClose(marker: string, before: string, after: string): boolean {
  return !/\s/u.test(before) && !isBetweenMarkers(before, after) && !OPENS_BRACKET.test(before) && isBoundary(after, before, marker, CLOSES_ASCII);
}

/** The character that ends at `end`, and the one that begins there. A line has spaces around it. */
const characterBefore = (line: string, end: number) => String.fromCodePoint(line.codePointAt(isPair(line, end - 2) ? end - 2 : end - 1) ?? 32);
const characterAt = (line: string, at: number) => String.fromCodePoint(line.codePointAt(at) ?? 32);
const isPair = (line: string, at: number) => (line.codePointAt(at) ?? 0) > 0xffff;

interface Opening {
  /** The index of the marker in the nodes. */
  readonly at: number;
  /** How many nodes before it hold a word. */
  readonly words: number;
}

function parseLine(line: string): FormatNode[] {
  const nodes: FormatNode[] = [];
  /** The latest opening of each marker. */
  const open = new Map<string, Opening>();
  /** How many nodes that hold a word were pushed. */
  let words = 0;

  function push(node: FormatNode): void {
    nodes.push(node);
    if (node.kind !== "text" || WORD.test(node.text)) words += 1;
  }

  function takeMarker(marker: string, at: number): void {
    const wrap = MARKERS[marker];
    const [before, after] = [characterBefore(line, at), characterAt(line, at + marker.length)];
    const opening = open.get(marker);
    // Without a word between them, as in `*.*`, the markers are text.
    if (wrap && opening && words > opening.words && mayClose(marker, before, after)) {
      const [, ...children] = nodes.splice(opening.at);
      nodes.push(wrap(children));
      // A marker that was opened inside has no partner outside.
      for (const [other, { at }] of open) if (at >= opening.at) open.delete(other);
      return;
    }
    if (wrap && mayOpen(marker, before, after)) open.set(marker, { at: nodes.length, words });
    nodes.push({ kind: "text", text: marker });
  }

  function takeText(text: string, at: number): void {
    let from = 0;
    for (const { 0: marker, index } of text.matchAll(/\*+|_+/g)) {
      if (index > from) push({ kind: "text", text: text.slice(from, index) });
      takeMarker(marker, at + index);
      from = index + marker.length;
    }
    if (from < text.length) push({ kind: "text", text: text.slice(from) });
  }

  let at = 0;
  for (const piece of splitCode(line)) {
    if (piece.isCode) {
      push({ kind: "code", text: piece.text });
      at += piece.text.length + 2;
      continue;
    }
    // Links first: a character within an address is not a marker.
    for (const { text, href } of splitLinks(piece.text)) {
      if (href === undefined) takeText(text, at);
      else push({ kind: "link", text, href });
      at += text.length;
    }
  }
  return nodes;
}

/** `code` between two single backticks. */
function splitCode(line: string): { text: string; isCode: boolean }[] {
  const pieces: { text: string; isCode: boolean }[] = [];
  let from = 0;
  for (const { 0: found, index } of line.matchAll(/`[^`\n]+`/g)) {
    const isPart = line[index - 1] === "`" || line[index + found.length] === "`";
    if (isPart || found.trim() === "" || found.slice(1, -1).trim() === "") continue;
    if (index > from) pieces.push({ text: line.slice(from, index), isCode: false });
    pieces.push({ text: found.slice(1, -1), isCode: true });
    from = index + found.length;
  }
  if (from < line.length) pieces.push({ text: line.slice(from), isCode: false });
  return pieces;
}

/** Neighbouring texts as one, so that a text full of markers is not drawn as thousands of nodes. */
function joined(nodes: readonly FormatNode[]): FormatNode[] {
  const result: FormatNode[] = [];
  for (const node of nodes) {
    const last = result.at(-1);
    if (node.kind === "text" && last?.kind === "text") result[result.length - 1] = { kind: "text", text: last.text + node.text };
    else result.push("children" in node ? { kind: node.kind, children: joined(node.children) } : node);
  }
  return result;
}
