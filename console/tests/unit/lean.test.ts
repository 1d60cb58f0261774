// What the build leaves out (scripts/lean.ts): the page has the same texts and the same reader of Markdown all the same.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { leanMarked, leanPurify, leanWords } from "../../scripts/lean";
import { named } from "../../src/store/settings";
import { en } from "../../src/words/en";
import { zh } from "../../src/words/zh";

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
/** What a value is when functions are written out. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value, (_, each: unknown) => (typeof each === "function" ? `${each}` : each)));
/** The same texts without names, as the build writes them. */
const bare = (value: unknown): unknown =>
  typeof value !== "object" || value === null || Object.keys(value).some((name) => /^\d+$/.test(name)) ? value : Object.values(value).map(bare);

describe("texts", () => {
  it("have their names again", () => {
    expect(plain(named<unknown>(en, bare(zh)))).toEqual(plain(zh));
    expect(Object.keys(zh.link.codes)).toContain("1006");
  });

  it("keep what has an order of its own, and lists", () => {
    const english = { a: "A", codes: { 2: "two", 1: "one" }, rows: [["x", "y"]], deep: { b: "B", c: "C" } };
    const code = 'const its = inBoth({ a: "A", codes: { 2: "two", 1: "one" }, rows: [["x", "y"]], deep: { b: "B", c: "C" } as Record<string, string> }, { a: "甲", codes: { 2: "二", 1: "一" }, rows: [["x", "寅"]], deep: { b: "乙", c: "丙" } });';
    const less = leanWords(code, "");
    expect(less).toContain(', ["甲",{ 2: "二", 1: "一" },[["x", "寅"]],["乙","丙"]]);');
    const chinese = JSON.parse(less.slice(less.indexOf(', ["甲"') + 2, -2).replace("{ 2:", '{ "2":').replace(", 1:", ', "1":')) as never;
    expect(named(english, chinese)).toEqual({ a: "甲", codes: { 2: "二", 1: "一" }, rows: [["x", "寅"]], deep: { b: "乙", c: "丙" } });
  });

  it("must stand in one order", () => {
    expect(() => leanWords('inBoth({ a: "A", b: "B" }, { b: "乙", a: "甲" })', "")).toThrow("b is where a should be");
    expect(leanWords('export const zh: Words = { a: "甲" };', 'export const en = { a: "A" };')).toBe('export const zh: Words = ["甲"];');
    expect(() => leanWords("const nothing = 1;", "")).toThrow("no texts");
    expect(() => leanWords("const nothing = 1;", "export const en = {};")).toThrow("no zh");
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
  });

  it("read Markdown as before", async () => {
    const less = leanMarked(read("node_modules/marked/lib/marked.esm.js"));
    const { Lexer, Parser } = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(less)}`)) as typeof import("marked");
    const whole = (await import("marked")).marked;
    const text = "# T\n\n- [x] a **b** ~~c~~ `d`\n- e\n\n| a | b |\n|:-|-:|\n| 1 | 2 |\n\n> q\n\n```js\nx < 1\n```\n\n<b>h</b> https://a.example [l](https://b.example \"t\")\n\n1. x\n\n   y\n";
    expect(Parser.parse(Lexer.lex(text))).toBe(whole.parse(text, { async: false, gfm: true }));
    expect(less).not.toContain("setOptions=");
  });
});
