// Parses the formatting of a message: **bold**, *italic* or _italic_, `code`, fenced code, and
// links. It returns a tree of plain values; the caller draws it with elements and text nodes, so no
// message becomes markup.
//
// Every pass is linear in the length of the text, and the tree is at most as deep as there are
// kinds of emphasis. A marker without a partner stays text.

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

// Fenced code

const FENCE = "```";

interface Block {
  /** From the first character that the block replaces to the one after its last. */
  start: number;
  end: number;
  code: string;
}

/**
 * A fence begins a line. What follows on that line is the name of a language if the code begins on
 * the next.
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

// One line: neither emphasis nor code goes beyond it

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

const MAY_STAND_BEFORE = /[\s*_([{"'“‘«„,;:\-–—]/u;
const MAY_STAND_AFTER = /[\s*_)\]}"'”’»“,;:.!?…\-–—]/u;

function parseLine(line: string): FormatNode[] {
  const nodes: FormatNode[] = [];
  /** By marker, where in `nodes` the latest opening one stands. */
  const open = new Map<string, number>();

  function takeMarker(marker: string, at: number): void {
    const wrap = MARKERS[marker];
    const [before = " ", after = " "] = [line[at - 1], line[at + marker.length]];
    const start = open.get(marker);
    if (wrap && start !== undefined && start < nodes.length - 1 && !/\s/u.test(before) && MAY_STAND_AFTER.test(after)) {
      const [, ...children] = nodes.splice(start);
      nodes.push(wrap(children));
      // What was opened inside has no partner outside.
      for (const [other, place] of open) if (place >= start) open.delete(other);
      return;
    }
    if (wrap && MAY_STAND_BEFORE.test(before) && !/\s/u.test(after)) open.set(marker, nodes.length);
    nodes.push({ kind: "text", text: marker });
  }

  function takeText(text: string, at: number): void {
    let from = 0;
    for (const { 0: marker, index } of text.matchAll(/\*+|_+/g)) {
      if (index > from) nodes.push({ kind: "text", text: text.slice(from, index) });
      takeMarker(marker, at + index);
      from = index + marker.length;
    }
    if (from < text.length) nodes.push({ kind: "text", text: text.slice(from) });
  }

  let at = 0;
  for (const piece of splitCode(line)) {
    if (piece.isCode) {
      nodes.push({ kind: "code", text: piece.text });
      at += piece.text.length + 2;
      continue;
    }
    // Links first: what stands in an address is no marker.
    for (const { text, href } of splitLinks(piece.text)) {
      if (href === undefined) takeText(text, at);
      else nodes.push({ kind: "link", text, href });
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
