// A Markdown text as finished blocks and an open tail: while an answer streams, only the tail is read again.
import { Lexer } from "marked";

export interface Block {
  raw: string;
  /** The language of a code block; `null` for everything else. */
  language: string | null;
  code: string;
}

export const PARAGRAPHS = /(?<=\n[ \t]*\n)/;

export class Blocks {
  #text = "";
  #done: Block[] = [];
  #doneLength = 0;
  #all: Block[] = [];

  /** Return the blocks of a text; quick when it is the last one with something behind it. */
  of(text: string): Block[] {
    if (text === this.#text) return this.#all;
    if (!text.startsWith(this.#text)) {
      this.#done = [];
      this.#doneLength = 0;
    }
    this.#text = text;
    const tail = blocksOf(text.slice(this.#doneLength));
    // The last two may still become another block: a list goes on behind an empty line.
    while (tail.length > 2) {
      const first = tail.shift();
      if (first === undefined) break;
      this.#done.push(first);
      this.#doneLength += first.raw.length;
    }
    this.#all = [...this.#done, ...tail];
    return this.#all;
  }
}

/** The blocks of a text that grows no more: what stands between two code blocks is one, and nothing is made of empty lines. */
export function joined(blocks: readonly Block[]): Block[] {
  const all: Block[] = [];
  for (const block of blocks) {
    const last = all.at(-1);
    if (block.language === null && last?.language === null) all[all.length - 1] = { ...last, raw: last.raw + block.raw };
    else if (block.language !== null || block.raw.trim() !== "") all.push(block);
  }
  return all;
}

/** A text that nests deeper than the reader can follow is read paragraph by paragraph, and what can't be read stays as it is. */
export function blocksOf(text: string): Block[] {
  try {
    return lexed(text);
  } catch {
    const parts = text.split(PARAGRAPHS);
    return parts.length > 1 ? parts.flatMap(blocksOf) : [{ raw: text, language: "", code: text }];
  }
}

function lexed(text: string): Block[] {
  return Lexer.lex(text).map((token) => ({
    raw: token.raw,
    language: token.type === "code" ? ((token as { lang?: string }).lang ?? "").split(/\s/)[0]!.toLowerCase() : null,
    code: token.type === "code" ? String((token as { text?: string }).text ?? "") : "",
  }));
}

/** Whether a code block has its end: only then it is coloured. */
export function isClosed(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (fence === undefined) return true;
  const end = raw.trimEnd().split("\n").at(-1)?.trim() ?? "";
  return raw.trimEnd().includes("\n") && end.length >= fence.length && end === fence[0]!.repeat(end.length);
}
