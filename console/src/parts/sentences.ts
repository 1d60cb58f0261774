// What of a text that is being written can be read aloud: whole sentences, each once, without the marks of Markdown.

/** A text that is read aloud at once: more is heard by nobody to its end. */
const MAX_CHARS = 600;
const END = /[.!?…](?=[\s)"'”’]|$)|[。！？]|\n\s*\n/g;

export class Sentences {
  #said = 0;

  /** Return the sentences that have ended since; with `isOver`, also the last one. */
  take(text: string, isOver = false): string {
    if (text.length < this.#said) this.#said = 0;
    const rest = text.slice(this.#said);
    let end = 0;
    for (const found of rest.matchAll(END)) end = found.index + found[0].length;
    // A sentence at the very end may go on: 3.4, e.g., …
    if (!isOver && end === rest.length && /[.!?…]$/.test(rest)) {
      end = 0;
      for (const found of rest.slice(0, -1).matchAll(END)) if (found.index + found[0].length < rest.length) end = found.index + found[0].length;
    }
    if (isOver) end = rest.length;
    if (isInCode(text.slice(0, this.#said + end)) && !isOver) return "";
    this.#said += end;
    const plain = spoken(rest.slice(0, end));
    return plain.length > MAX_CHARS ? `…${plain.slice(-MAX_CHARS)}` : plain;
  }
}

function isInCode(text: string): boolean {
  return (text.match(/^ {0,3}```/gm) ?? []).length % 2 === 1;
}

/** A text as it is said: code is not read, nor the marks of what is written large. */
export function spoken(text: string): string {
  return text
    .replace(/^ {0,3}```[\s\S]*?(?:^ {0,3}```[^\n]*$|$(?![\s\S]))/gm, " ")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^\s*(?:#{1,6}|[-*+]|>|\|)\s?/gm, "")
    .replace(/[*_`|]+/g, "")
    .replace(/\s+/g, " ")
    .trim();
}
