// What a call would change, read from its preview: unified differences in rows, and commands in words.

export interface Line {
  sign: " " | "+" | "-";
  text: string;
  /** The numbers of the line in the old and the new text; of a line that is in one of them, that of the other is 0. */
  old: number;
  now: number;
}

/** Texts as they stand, and hunks of a difference. */
export type Part = { kind: "text"; text: string } | { kind: "hunk"; lines: readonly Line[] };

/** A row of two columns; what is in one of them alone has nothing beside it. */
export type Pair = readonly [Line | null, Line | null];

/** So many unchanged lines beside each other are shown; of more, those near a change. */
export const NEAR = 3;

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/** Cut a preview into parts. How long a hunk is, its head says: what a file holds can't pass for one. */
export function partsOf(preview: string): Part[] {
  const parts: Part[] = [];
  const lines = preview.split("\n");
  let text: string[] = [];
  const endText = () => {
    if (text.length > 0) parts.push({ kind: "text", text: text.join("\n") });
    text = [];
  };
  for (let at = 0; at < lines.length; at++) {
    const head = HUNK.exec(lines[at]!);
    if (head === null) {
      text.push(lines[at]!);
      continue;
    }
    let [old, now] = [Number(head[1]), Number(head[3])];
    const [oldEnd, nowEnd] = [old + Number(head[2] ?? 1), now + Number(head[4] ?? 1)];
    const own: Line[] = [];
    while (old < oldEnd || now < nowEnd) {
      const line = lines[at + 1] ?? "";
      const sign = line[0];
      if (sign === "\\") own.push({ sign: " ", text: line, old: 0, now: 0 });
      else if (sign === " ") own.push({ sign, text: line.slice(1), old: old++, now: now++ });
      else if (sign === "-") own.push({ sign, text: line.slice(1), old: old++, now: 0 });
      else if (sign === "+") own.push({ sign, text: line.slice(1), old: 0, now: now++ });
      else break; // it was cut
      at += 1;
    }
    if (lines[at + 1]?.startsWith("\\") === true) own.push({ sign: " ", text: lines[++at]!, old: 0, now: 0 });
    endText();
    parts.push({ kind: "hunk", lines: own });
  }
  endText();
  return parts;
}

/** "\\ No newline at end of file": it has no number in either text. */
const isMark = (line: Line): boolean => line.sign === " " && line.old === 0 && line.now === 0;

/** What went and what came in its place, beside each other. */
export function pairsOf(lines: readonly Line[]): Pair[] {
  const pairs: Pair[] = [];
  let gone: Line[] = [];
  let come: Line[] = [];
  const end = () => {
    for (let at = 0; at < Math.max(gone.length, come.length); at++) pairs.push([gone[at] ?? null, come[at] ?? null]);
    [gone, come] = [[], []];
  };
  for (const line of lines) {
    if (line.sign === "-") {
      if (come.length > 0) end();
      gone.push(line);
    } else if (line.sign === "+") come.push(line);
    // That a line has no end is said of the line before, which is in the old text, in the new one, or in both.
    else if (isMark(line) && come.length > 0) come.push(line);
    else if (isMark(line) && gone.length > 0) gone.push(line);
    else {
      end();
      pairs.push([line, line]);
    }
  }
  end();
  return pairs;
}

/** Cut rows into those that are shown and those that are folded, which are far from every change. */
export function folded<T>(rows: readonly T[], isSame: (row: T) => boolean): { rows: T[]; isFolded: boolean }[] {
  const isNear = rows.map(() => false);
  rows.forEach((row, at) => {
    if (!isSame(row)) isNear.fill(true, Math.max(0, at - NEAR), at + NEAR + 1);
  });
  const parts: { rows: T[]; isFolded: boolean }[] = [];
  rows.forEach((row, at) => {
    const isFolded = !isNear[at];
    const last = parts.at(-1);
    if (last?.isFolded === isFolded) last.rows.push(row);
    else parts.push({ rows: [row], isFolded });
  });
  // One line takes as much room as what says that it is left out.
  return parts.map((each) => (each.rows.length > 1 ? each : { ...each, isFolded: false }));
}

/** The words of a command as a shell takes them apart, with the signs between them; an end of a line is a word of its own. */
export function wordsOf(command: string): string[] {
  const found = command.matchAll(/\n|&&|\|\||>>|<<|[;|&<>()]|(?:\$?'(?:[^'\\]|\\[^])*'?|\$?"(?:[^"\\]|\\[^])*"?|\\[^]?|[^\s;|&<>()'"\\])+/g);
  return [...found].map(([word]) => word);
}

/** What stands between words. */
export const isSign = (word: string): boolean => /^(?:&&|\|\||>>|<<|[;|&<>()])$/.test(word);
