import { describe, expect, it } from "vitest";
import { Blocks, blocksOf, isClosed } from "../../src/parts/blocks";
import { Heights } from "../../src/parts/heights";
import { argumentRows, left, shown, summary } from "../../src/parts/text";
import { en } from "../../src/words/en";
import { zh } from "../../src/words/zh";

describe("text that is shown", () => {
  it("draws what hides or reorders it", () => {
    expect(shown("a\u202etxt.exe")).toBe("a‹U+202E›txt.exe");
    expect(shown("\u001b[31m\u200bx\u0000")).toBe("‹ESC›[31m‹U+200B›x‹U+0000›");
    expect(shown("\u{e0041}")).toBe("‹U+E0041›");
    expect(shown("plain\ttext\n中文 👩‍🚒".replace("\u200d", ""))).toBe("plain\ttext\n中文 👩🚒");
  });

  it("names what a call is about, whatever its arguments are", () => {
    expect(summary('{"content":"x","path":"a/b.md"}')).toBe("a/b.md");
    expect(summary('{"n":3}')).toBe("3");
    expect(summary("{}")).toBe("");
    expect(summary("not json")).toBe("");
    expect(argumentRows("[1]")).toBeNull();
    expect(argumentRows("null")).toBeNull();
    expect(argumentRows('{"a":"x","b":[1]}')).toEqual([
      ["a", "x"],
      ["b", "[\n  1\n]"],
    ]);
  });

  it("counts down", () => {
    expect([left(61_000), left(-5), left(3_600_000), left(9_001)]).toEqual(["1:01", "0:00", "1:00:00", "0:10"]);
  });
});

describe("blocks of Markdown", () => {
  const text = "# Title\n\nA text\nof two lines.\n\n```js\nlet a = 1;\n\nlet b;\n```\n\n- one\n\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end.";
  it("are the same whether a text came at once or letter by letter", () => {
    const blocks = new Blocks();
    let last = blocks.of("");
    for (let size = 1; size <= text.length; size++) last = blocks.of(text.slice(0, size));
    expect(last).toEqual(blocksOf(text));
    expect(last.map((each) => each.raw).join("")).toBe(text);
  });

  it("begin again when another text comes", () => {
    const blocks = new Blocks();
    blocks.of("one\n\ntwo\n\nthree\n\nfour");
    expect(blocks.of("other")).toEqual(blocksOf("other"));
  });

  it("of code are closed only with their fence", () => {
    expect(isClosed("```js\nlet a;")).toBe(false);
    expect(isClosed("```js\nlet a;\n``")).toBe(false);
    expect(isClosed("```js\nlet a;\n```\n")).toBe(true);
    expect(isClosed("```")).toBe(false);
    expect(isClosed("    indented")).toBe(true);
  });
});

describe("a windowed list", () => {
  const ids = Array.from({ length: 1000 }, (_, at) => `i${at}`);
  it("draws what is near the view, and keeps the whole height", () => {
    const heights = new Heights(100);
    const { from, to, before, after } = heights.window(ids, 50_000, 800, 1500);
    expect([from, to]).toEqual([484, 523]);
    expect(before + (to - from) * 100 + after).toBe(100_000);
    expect(heights.window(ids, 0, 800, 1500).from).toBe(0);
    expect(heights.window(ids, 99_200, 800, 1500).to).toBe(1000);
    expect(heights.window([], 0, 800, 1500)).toEqual({ from: 0, to: 0, before: 0, after: 0 });
  });

  it("takes measured heights in place of estimates", () => {
    const heights = new Heights(100);
    expect(heights.measure("i0", 340)).toBe(240);
    expect(heights.measure("i0", 340)).toBe(0);
    expect(heights.offset(ids, "i2")).toBe(440);
    expect(heights.offset(ids, "nowhere")).toBe(100_240);
  });
});

describe("words", () => {
  const paths = (value: object, above = ""): string[] =>
    Object.entries(value).flatMap(([name, each]) =>
      typeof each === "object" && each !== null ? paths(each as object, `${above}${name}.`) : [`${above}${name}`],
    );
  it("are the same in both languages, and none is empty", () => {
    expect(paths(zh).sort()).toEqual(paths(en).sort());
    for (const its of [en, zh]) expect(JSON.stringify(its)).not.toContain('""');
  });
});
