import { describe, expect, it } from "vitest";
import { Blocks, blocksOf, isClosed, joined } from "../../src/parts/blocks";
import { beginning } from "../../src/parts/excerpt";
import { Heights } from "../../src/parts/heights";
import { argumentRows, left, shown, summary } from "../../src/parts/text";
import { en } from "../../src/words/en";
import { zh } from "../../src/words/zh";

describe("text that is shown", () => {
  it("draws what hides or reorders it", () => {
    expect(shown("a\u202etxt.exe")).toBe("a‹U+202E›txt.exe");
    expect(shown("\u001b[31m\u200bx\u0000")).toBe("‹ESC›[31m‹U+200B›x‹U+0000›");
    expect(shown("\u00ad\u2028\u3164\ufe00\u{e0100}")).toBe("‹U+00AD›‹U+2028›‹U+3164›‹U+FE00›‹U+E0100›");
    expect(shown("\u{e0041}")).toBe("‹U+E0041›");
    expect(shown("plain\ttext\n中文")).toBe("plain\ttext\n中文");
  });

  it("draws emoji that are joined as the one that they are, and a joiner elsewhere as a mark", () => {
    for (const one of ["\u{1f469}\u200d\u{1f692}", "\u{1f469}\u{1f3fd}\u200d\u{1f91d}\u200d\u{1f469}\u{1f3fb}", "\u{1f3f3}\ufe0f\u200d\u{1f308}", "\u{1f9d1}\u200d\u2695\ufe0f", "\u{1f468}\u200d\u{1f469}\u200d\u{1f467}\u200d\u{1f466}"]) expect(shown(one)).toBe(one);
    expect(shown("pay\u200dpal")).toBe("pay‹U+200D›pal");
    expect(shown("\u{1f469}\u200dx \u200d\u{1f692}")).toBe("\u{1f469}‹U+200D›x ‹U+200D›\u{1f692}");
    expect(shown("1\u200d2 \u200b\u200c\u200e\u200f")).toBe("1‹U+200D›2 ‹U+200B›‹U+200C›‹U+200E›‹U+200F›");
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

describe("the beginning of a long text", () => {
  it("is 2,000 lines of it, and of a text without lines what can be drawn", () => {
    const lines = Array.from({ length: 2500 }, (_, at) => `line ${at}`);
    expect(beginning(lines.join("\n")).split("\n")).toEqual(lines.slice(0, 2000));
    expect(beginning("x".repeat(1_000_000))).toHaveLength(200_000);
    expect(beginning(`${"x".repeat(300_000)}\nend`)).toHaveLength(200_000);
    for (const short of ["", "one", "one\ntwo\n", lines.slice(0, 2000).join("\n")]) expect(beginning(short)).toBe(short);
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

  it("are joined between code, without empty ones, when the text grows no more", () => {
    const all = blocksOf(`\n\n${text}`);
    const few = joined(all);
    expect(few.map((each) => each.language)).toEqual([null, "js", null]);
    expect(few.map((each) => each.raw.trim()).join("\n\n")).toBe(text);
    expect(all.length).toBeGreaterThan(few.length);
    expect(joined(blocksOf("```\na\n```\n\n"))).toMatchObject([{ code: "a" }]);
  });

  it("begin again when another text comes", () => {
    const blocks = new Blocks();
    blocks.of("one\n\ntwo\n\nthree\n\nfour");
    expect(blocks.of("other")).toEqual(blocksOf("other"));
  });

  it("are all there when one nests deeper than can be read", () => {
    const deep = `${">".repeat(20_000)} x`;
    const text = `Before.\n\n${deep}\n\n**After.**`;
    const found = blocksOf(text);
    expect(found.map((each) => each.raw).join("")).toBe(text);
    expect(found[0]).toMatchObject({ raw: expect.stringContaining("Before."), language: null });
    expect(found.find((each) => each.raw.startsWith(deep))?.code).toContain(deep);
    expect(found.at(-1)).toMatchObject({ raw: "**After.**", language: null });
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
  const items = Array.from({ length: 1000 }, (_, at) => ({ id: `i${at}`, stamp: 0 }));
  const heightsOf = (all: readonly { id: string; stamp: number }[]) => {
    const heights = new Heights(() => 100);
    heights.take(all);
    return heights;
  };
  it("draws what is near the view, and keeps the whole height", () => {
    const heights = heightsOf(items);
    expect(heights.window(50_000, 800, 1500)).toEqual({ from: 485, to: 524 });
    expect(heights.total).toBe(100_000);
    expect(heights.window(0, 800, 1500).from).toBe(0);
    expect(heights.window(99_200, 800, 1500).to).toBe(1000);
    expect(heightsOf([]).window(0, 800, 1500)).toEqual({ from: 0, to: 0 });
  });

  it("grows from what is in sight by so much at a time, until it is as wanted", () => {
    const heights = heightsOf(items);
    const [sight, wanted] = [heights.window(50_000, 800, 100), heights.window(50_000, 800, 1500)];
    const draw = (drawn: ReadonlySet<string>, most: number) => {
      const { from, to } = heights.grown(sight, wanted, drawn, most);
      return { from, to, ids: new Set(items.slice(from, to).map((item) => item.id)) };
    };
    const first = draw(new Set(), 400);
    expect(first).toMatchObject(sight); // What is in sight is drawn at once, however much it is.
    const sizes = [];
    let last = first;
    while (last.from > wanted.from || last.to < wanted.to) {
      const next = draw(last.ids, 400);
      expect(next.ids.size - last.ids.size).toBeLessThanOrEqual(4);
      expect([...last.ids].every((id) => next.ids.has(id))).toBe(true);
      sizes.push((last = next).ids.size);
    }
    expect(last).toMatchObject(wanted);
    expect(sizes).toEqual([15, 19, 23, 27, 31, 35, 39]);
    expect(draw(last.ids, 400)).toMatchObject(wanted); // What is drawn already counts for nothing.
    expect(draw(new Set(), 10_000)).toMatchObject(wanted);
    const few = heightsOf(items.slice(0, 3));
    expect(few.grown(few.window(0, 800, 100), few.window(0, 800, 1500), new Set(), 400)).toEqual({ from: 0, to: 3 });
    expect(heightsOf([]).grown({ from: 0, to: 0 }, { from: 0, to: 0 }, new Set(), 400)).toEqual({ from: 0, to: 0 });
  });

  it("grows by one item that is higher than what may be drawn at a time, and by low ones together", () => {
    const heights = heightsOf(items.slice(0, 6));
    heights.measure("i2", 900);
    const drawn = new Set(["i0"]);
    const next = () => {
      const { to } = heights.grown({ from: 0, to: 1 }, { from: 0, to: 6 }, drawn, 300);
      for (const item of items.slice(0, to)) drawn.add(item.id);
      return to;
    };
    expect([next(), next(), next(), next()]).toEqual([2, 3, 6, 6]);
  });

  it("takes measured heights in place of estimates", () => {
    const heights = heightsOf(items);
    expect(heights.total).toBe(100_000);
    expect(heights.measure("i0", 340)).toBe(true);
    expect(heights.measure("i0", 340)).toBe(false);
    expect(heights.measure("nowhere", 340)).toBe(false);
    expect(heights.start(2)).toBe(440);
    expect([heights.at(0), heights.at(339), heights.at(340), heights.at(10 ** 9)]).toEqual([0, 0, 1, 999]);
    expect(heights.total).toBe(100_240);
  });

  it("keeps what was measured when items come in front, in between and at the end, or go", () => {
    const heights = heightsOf(items.slice(500));
    for (let at = 500; at < 1000; at++) heights.measure(`i${at}`, at);
    const total = heights.total;
    heights.take([...items.slice(400, 600), ...items.slice(601)]);
    expect(heights.total).toBe(total + 100 * 100 - 600);
    expect(heights.start(heights.indexOf("i501"))).toBe(100 * 100 + 500);
    expect(heights.indexOf("i600")).toBe(-1);
    heights.take([...items.slice(400, 600), ...items.slice(601), { id: "new", stamp: 0 }]);
    expect(heights.total).toBe(total + 100 * 100 - 600 + 100);
  });

  it("takes another estimate for an item that is another one now", () => {
    const heights = new Heights<{ id: string; stamp: number }>((item) => item.stamp);
    heights.take([{ id: "gap", stamp: 9000 }, ...items.slice(0, 2)]);
    expect(heights.total).toBe(9000);
    heights.take([{ id: "gap", stamp: 1000 }, ...items.slice(0, 2)]);
    expect(heights.total).toBe(1000);
  });
});

describe("words", () => {
  const paths = (value: object, above = ""): string[] =>
    Object.entries(value).flatMap(([name, each]) =>
      typeof each === "object" && each !== null ? paths(each as object, `${above}${name}.`) : [`${above}${name}`],
    );
  it("are the same in both languages, and none is empty", () => {
    expect(paths(zh).sort()).toEqual(paths(en).sort());
    for (const its of [en, zh]) expect(JSON.stringify(its)).not.toMatch(/[:,[]""/); // one of the names is empty
  });
});
