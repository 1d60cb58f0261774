// What the build leaves out (scripts/lean.ts): the page has the same texts and the same reader of Markdown all the same.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { leanMarked, leanPurify, leanTexts } from "../../scripts/lean";
import { named } from "../../src/store/settings";
import { en } from "../../src/words/en";
import { zh } from "../../src/words/zh";

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
/** What a value is when functions are written out. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value, (_, each: unknown) => (typeof each === "function" ? `${each}` : each)));
/** The same texts without names, as the build writes them. */
const bare = (value: unknown): unknown =>
  typeof value !== "object" || value === null || Object.keys(value).some((name) => /^\d+$/.test(name)) ? value : Object.values(value).map(bare);

/** A page of these texts and this source, as the build writes it. */
function built(english: string, chinese: string, source: string, name = "screens/a.tsx"): { texts: string; source: string } {
  const all = new Map([
    ["/src/words/en.ts", 'export const en = { own: "Own", deep: { a: "A", b: "B" } };'],
    ["/src/words/zh.ts", 'export const zh: Words = { own: "自", deep: { a: "甲", b: "乙" } };'],
    ["/src/words/screens/a.ts", `export const its = inBoth(${english}, ${chinese});`],
    [`/src/${name}`, source],
  ]);
  const less = leanTexts(all);
  return { texts: less.get("/src/words/screens/a.ts")!, source: less.get(`/src/${name}`)! };
}

const ITS = 'import { its } from "../words/screens/a";\n';
const WORDS = 'import { words } from "../store/settings";\n';
const BOTH = ['{ a: "A", b: (n: number) => `${n}`, deep: { c: "C", d: "D" } }', '{ a: "甲", b: (n) => `${n}`, deep: { c: "丙", d: "丁" } }'] as const;
const PLACES = 'inBoth(["A",(n: number) => `${n}`,["C","D"]], ["甲",(n) => `${n}`,["丙","丁"]]);';
const KEPT = 'inBoth(["A",(n: number) => `${n}`,{ c: "C", d: "D" }], ["甲",(n) => `${n}`,["丙","丁"]]);';

describe("texts", () => {
  it("have the names again that the English ones kept", () => {
    expect(plain(named<unknown>(en, bare(zh)))).toEqual(plain(zh));
    expect(Object.keys(zh.link.codes)).toContain("1006");
    expect(named<unknown>(["A", { c: "C", d: "D" }, [["x"]], { 2: "two" }], ["甲", ["丙", "丁"], [["寅"]], { 2: "二" }])).toEqual(["甲", { c: "丙", d: "丁" }, [["寅"]], { 2: "二" }]);
  });

  it.each([
    ["a chain", "f(its.value.a, its.value.b(1), its.value.deep.d);", "f(its.value[0], its.value[1](1), its.value[2][1]);"],
    ["its length", "f(its.value.a.length);", "f(its.value[0].length);"],
    ["a look without following", "f(its.peek().a);", "f(its.peek()[0]);"],
    ["a name for all", "const text = its.value; f(() => text.deep.c);", "const text = its.value; f(() => text[2][0]);"],
    ["a name for a part, used before it is given", "function g() { return deep.c; } const deep = its.value.deep; g();", "function g() { return deep[0]; } const deep = its.value[2]; g();"],
    ["markup", "const x = <p title={its.value.a}>{its.value.deep.c}</p>;", "const x = <p title={its.value[0]}>{its.value[2][0]}</p>;"],
    ["another thing of that name", "f((its: T) => its.value.a, its.value.a); { const its = g(); f(its.value.a); } try { f(); } catch (its) { f(its.value.a); }", "f((its: T) => its.value.a, its.value[0]); { const its = g(); f(its.value.a); } try { f(); } catch (its) { f(its.value.a); }"],
    ["the name of another thing's property", "f({ its: 1 }.its, other.its.value.a);", "f({ its: 1 }.its, other.its.value.a);"],
  ])("are taken by their places: %s", (_, source, less) => {
    expect(built(...BOTH, ITS + source)).toEqual({ texts: `export const its = ${PLACES}`, source: ITS + less });
  });

  it.each([
    ["a name that is computed", "f(its.value.deep[name]);", "f(its.value[2][name]);"],
    ["a list of all", "f(Object.entries(its.value.deep), its.value.deep.c);", "f(Object.entries(its.value[2]), its.value[2].c);"],
    ["a part in a variable that changes", "let deep = its.value.deep; f(deep.c);", "let deep = its.value[2]; f(deep.c);"],
    ["a part taken apart", "const { c } = its.value.deep; f(c);", "const { c } = its.value[2]; f(c);"],
    ["one that may not be there", "f(its.value.deep?.c);", "f(its.value[2]?.c);"],
    ["one of several", "const deep = is ? its.value.deep : other; f(deep.c);", "const deep = is ? its.value[2] : other; f(deep.c);"],
    ["a part for others", "export const deep = its.value.deep;", "export const deep = its.value[2];"],
    ["a shorthand", "const deep = its.value.deep; f({ deep });", "const deep = its.value[2]; f({ deep });"],
  ])("keep their names where nobody can follow them: %s", (_, source, less) => {
    expect(built(...BOTH, ITS + source)).toEqual({ texts: `export const its = ${KEPT}`, source: ITS + less });
  });

  it("keep all their names where the whole of them goes on", () => {
    for (const source of ["f(its.value);", "f(its);", "f(its.value[name]);"]) {
      const less = built(...BOTH, `${ITS}${source} f(its.value.a, its.value.deep.c);`);
      expect(less.texts).toContain(`inBoth(${BOTH[0]}, ["甲"`);
      expect(less.source).toContain("f(its.value.a, its.value.deep.c);");
    }
  });

  it("keep what has an order of its own, and lists", () => {
    const english = '{ codes: { 2: "two", 1: "one" } as Record<number, string>, rows: [["x", "y"]] }';
    const less = built(english, '{ codes: { 2: "二", 1: "一" }, rows: [["x", "寅"]] }', `${ITS}f(its.value.codes[2], its.value.rows[0]);`);
    expect(less.texts).toContain('inBoth([{ 2: "two", 1: "one" } as Record<number, string>,[["x", "y"]]], [{ 2: "二", 1: "一" },[["x", "寅"]]]);');
    expect(less.source).toContain("f(its.value[0][2], its.value[1][0]);");
  });

  it("of all screens are followed, too, by another name and from a store", () => {
    expect(built(...BOTH, `import { words as all } from "./settings";\nf(all.value.deep.b);`, "store/b.ts").source).toContain("f(all.value[1][1]);");
    expect(built(...BOTH, `${WORDS}f(words.value.own);`).source).toContain("f(words.value[0]);");
    expect(built(...BOTH, `import { words } from "../store/other";\nf(words.value.own);`).source).toContain("f(words.value.own);");
  });

  it("must be imported by name, have what is used, and stand in one order", () => {
    expect(() => built(...BOTH, 'import * as all from "../words/screens/a";')).toThrow("by name");
    expect(() => built(...BOTH, 'export { its } from "../words/screens/a";')).toThrow("by name");
    expect(() => built(...BOTH, 'export * from "../store/settings";')).toThrow("by name");
    expect(() => built(...BOTH, `${ITS}f(its.value.never);`)).toThrow("no text never");
    expect(() => built('{ a: "A", b: "B" }', '{ b: "乙", a: "甲" }', "f();")).toThrow("b is where a should be");
    expect(() => leanTexts(new Map([["/src/words/en.ts", "const nothing = 1;"], ["/src/words/zh.ts", "const zh = {};"]]))).toThrow("no en");
    expect(() => leanTexts(new Map([["/src/words/en.ts", "const en = {};"], ["/src/words/zh.ts", "const zh = {};"], ["/src/words/screens/a.ts", "const its = 1;"]]))).toThrow("no texts");
  });
});

describe("libraries", () => {
  it("are refused when they are other ones", () => {
    expect(() => leanPurify("const other = 1;")).toThrow("another one");
    expect(() => leanMarked("const other = 1;")).toThrow("another one");
  });

  it("lose lists of what is not let through, and no list of what is", () => {
    const whole = read("node_modules/dompurify/dist/purify.es.mjs");
    const less = leanPurify(whole);
    expect(whole).toContain('"feMergeNode"');
    expect(less).not.toContain('"feMergeNode"');
    expect(less).toContain('"blockquote"');
    // Nor what the page never asks of it.
    for (const each of ["cfg.IN_PLACE", "cfg.WHOLE_DOCUMENT", "if (FORCE_BODY)"]) {
      expect(whole).toContain(each);
      expect(less).not.toContain(each);
    }
    expect(less).toContain("cfg.KEEP_CONTENT");
    expect(() => leanPurify(whole.replaceAll("IN_PLACE = cfg", "IN_PLACE = its"))).toThrow("another one");
  });

  it("read Markdown as before", async () => {
    const less = leanMarked(read("node_modules/marked/lib/marked.esm.js"));
    const { Lexer, Parser } = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(less)}`)) as typeof import("marked");
    const whole = (await import("marked")).marked;
    const text = "# T\n\n- [x] a **b** ~~c~~ `d`\n- e\n\n| a | b |\n|:-|-:|\n| 1 | 2 |\n\n> q\n\n```js\nx < 1\n```\n\n<b>h</b> https://a.example [l](https://b.example \"t\")\n\n1. x\n\n   y\n\na  \nb\\\nc\n\n    code\n\n* * *\n\nT\n=\n\n[r]: https://c.example 't'\n[r] ![i](j.png) <a@b.example> __s__ *e*f _g_ \\* www.d.example\n\n- a\n  - b\n    1. c\n\n<div>\n*x*\n</div>\n";
    expect(Parser.parse(Lexer.lex(text))).toBe(whole.parse(text, { async: false, gfm: true }));
    expect(less).not.toContain("setOptions=");
    // What the options would choose is not there either, nor what only that needs.
    for (const each of ["this.options.pedantic", "static get rules", "openQuote"]) {
      expect(read("node_modules/marked/lib/marked.esm.js")).toContain(each);
      expect(less).not.toContain(each);
    }
    expect(() => leanMarked(read("node_modules/marked/lib/marked.esm.js").replaceAll("static get rules", "get rules"))).toThrow("another one");
  });
});
