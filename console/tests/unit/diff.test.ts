// What is read of a preview is what the server wrote, whatever a file or a command holds.
import { describe, expect, it } from "vitest";
import { folded, isSign, pairsOf, partsOf, wordsOf, type Line } from "../../src/parts/diff";

const DIFF = `notes.md is replaced by 12 bytes
@@ -1,4 +1,4 @@
 one
-two
-three
+2
 four
+five
\\ no line end
@@ -20 +20,0 @@
-@@ -1 +1 @@
The end.`;

const hunks = (text: string) => partsOf(text).flatMap((part) => (part.kind === "hunk" ? [part.lines] : []));
const signs = (lines: readonly Line[]) => lines.map((line) => `${line.sign}${line.text}`);

describe("a preview", () => {
  it("is cut into texts and hunks, with the numbers of their lines", () => {
    const parts = partsOf(DIFF);
    expect(parts.map((part) => part.kind)).toEqual(["text", "hunk", "hunk", "text"]);
    const [first, second] = hunks(DIFF);
    expect(signs(first!)).toEqual([" one", "-two", "-three", "+2", " four", "+five", " \\ no line end"]);
    expect(first!.map((line) => [line.old, line.now])).toEqual([[1, 1], [2, 0], [3, 0], [0, 2], [4, 3], [0, 4], [0, 0]]);
    expect(signs(second!)).toEqual(["-@@ -1 +1 @@"]);
    expect(parts.at(-1)).toEqual({ kind: "text", text: "The end." });
  });

  it("that is cut in the middle of a hunk goes on as text", () => {
    const parts = partsOf("@@ -1,9 +1,9 @@\n one\n(… 7 of 99 bytes are not shown here …)\n nine");
    expect(parts.map((part) => part.kind)).toEqual(["hunk", "text"]);
    expect(partsOf("")).toEqual([{ kind: "text", text: "" }]);
    expect(partsOf("@@ -1 +1 @@")).toEqual([{ kind: "hunk", lines: [] }]);
    expect(partsOf("GET https://example.org/\n+x\n-y").map((part) => part.kind)).toEqual(["text"]);
  });

  it("stands side by side, with what came beside what went", () => {
    const [first] = hunks(DIFF);
    expect(pairsOf(first!).map(([left, right]) => [left?.text ?? null, right?.text ?? null])).toEqual([
      ["one", "one"],
      ["two", "2"],
      ["three", null],
      ["four", "four"],
      [null, "five"],
      [null, "\\ no line end"],
    ]);
    const [last] = hunks("@@ -1,2 +1,2 @@\n one\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file");
    expect(pairsOf(last!).map(([left, right]) => [left?.text ?? null, right?.text ?? null])).toEqual([
      ["one", "one"],
      ["old", "new"],
      ["\\ No newline at end of file", "\\ No newline at end of file"],
    ]);
    const [both] = hunks("@@ -1,2 +1,2 @@\n-old\n+new\n same\n\\ No newline at end of file");
    expect(pairsOf(both!).at(-1)!.map((each) => each?.text)).toEqual(["\\ No newline at end of file", "\\ No newline at end of file"]);
    const line = (sign: Line["sign"], text: string): Line => ({ sign, text, old: 1, now: 1 });
    expect(pairsOf([line("+", "a"), line("-", "b"), line("+", "c")]).map((pair) => pair.map((each) => each?.text))).toEqual([[undefined, "a"], ["b", "c"]]);
  });

  it("folds what is far from every change", () => {
    const rows = [..."......+..........-..+."];
    const parts = folded(rows, (row) => row === ".");
    expect(parts.flatMap((part) => part.rows)).toEqual(rows);
    expect(parts.map((part) => [part.rows.length, part.isFolded])).toEqual([[3, true], [7, false], [4, true], [8, false]]);
    expect(folded([..."....+"], (row) => row === ".").every((part) => !part.isFolded)).toBe(true);
    expect(folded([], () => true)).toEqual([]);
  });
});

describe("a command", () => {
  it("is cut as a shell cuts it, and loses nothing but the room between", () => {
    expect(wordsOf("rm -rf 'a b' \"c $d\" e\\ f")).toEqual(["rm", "-rf", "'a b'", '"c $d"', "e\\ f"]);
    expect(wordsOf("a&&b||c;d|e>f 2>>g<h &")).toEqual(["a", "&&", "b", "||", "c", ";", "d", "|", "e", ">", "f", "2", ">>", "g", "<", "h", "&"]);
    expect(wordsOf("a\n  b")).toEqual(["a", "\n", "b"]);
    expect(wordsOf("x'y z'w \"open")).toEqual(["x'y z'w", '"open']);
    expect(wordsOf("$'a\\'b c' d")).toEqual(["$'a\\'b c'", "d"]);
    expect(wordsOf("")).toEqual([]);
    expect(wordsOf("a \\")).toEqual(["a", "\\"]);
    expect(["&&", "|", "a", "a&&"].map(isSign)).toEqual([true, true, false, false]);
    const hostile = "'\"\\ ;&".repeat(20_000);
    expect(wordsOf(hostile).join("").length).toBeGreaterThan(0);
  });
});
