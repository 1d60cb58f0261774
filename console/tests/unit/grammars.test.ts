// Our own grammars colour what tells a reader where he is, and change no text.
import { describe, expect, it } from "vitest";
import { highlighted } from "../../src/parts/highlight";

const texts = (html: string, scope: string) => [...html.matchAll(new RegExp(`<span class="hljs-${scope}">([^<]*)</span>`, "g"))].map((found) => found[1]);
const plain = (html: string) => html.replace(/<[^>]*>/g, "").replaceAll("&quot;", '"').replaceAll("&#x27;", "'").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

describe("CSS", () => {
  it("has its selectors, properties, numbers, strings and comments", () => {
    const code = '/* a */\n@media (max-width: 40em) {\n  .card > a:hover {\n    color: #ff0;\n    margin: 0 -1.5rem !important;\n    content: "x;y";\n  }\n}\n';
    const html = highlighted(code, "css") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "attr")).toEqual(["color", "margin", "content"]);
    expect(texts(html, "keyword")).toEqual(["@media", "!important"]);
    expect(texts(html, "number")).toEqual(expect.arrayContaining(["#ff0", "0", "-1.5rem"]));
    expect(texts(html, "comment")).toEqual(["/* a */"]);
    expect(texts(html, "title")).toEqual(expect.arrayContaining([".card"]));
  });
});

describe("SQL", () => {
  it("has its words, strings, numbers and comments, in any case", () => {
    const code = "SELECT name, count(*) FROM people -- all\nwhere name = 'O''Brien' and age >= 21;\n";
    const html = highlighted(code, "sql") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "keyword")).toEqual(["SELECT", "FROM", "where", "and"]);
    expect(texts(html, "string")).toEqual(["&#x27;O&#x27;&#x27;Brien&#x27;"]);
    expect(texts(html, "number")).toEqual(["21"]);
    expect(texts(html, "comment")).toEqual(["-- all"]);
  });
});

describe("Rust", () => {
  it("has its words, lifetimes, macros, strings and comments", () => {
    const code = 'fn main<\'a>(x: &\'a str) { // b\n    println!("a \\" {}", r#"raw "x" "#, \'c\', 1_000u32);\n}\n';
    const html = highlighted(code, "rust") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "keyword")).toEqual(["fn"]);
    expect(texts(html, "symbol")).toEqual(["&#x27;a", "&#x27;a"]);
    expect(texts(html, "title")).toEqual(["println!"]);
    expect(texts(html, "comment")).toEqual(["// b"]);
    expect(texts(html, "string").map((each) => plain(each!))).toEqual(['"a \\" {}"', 'r#"raw "x" "#', "'c'"]);
  });
});

describe("a shell", () => {
  it("has its words, variables, strings and comments", () => {
    const code = '#!/bin/sh\nfor name in a b; do # all\n  echo "$name: ${HOME}" \'$x\' >> out-in.txt\ndone\n';
    const html = highlighted(code, "sh") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "keyword")).toEqual(["for", "in", "do", "done"]);
    expect(texts(html, "built_in")).toEqual(["echo"]);
    expect(texts(html, "variable")).toEqual(["$name", "${HOME}"]);
    expect(texts(html, "comment")).toEqual([" # all"]);
    expect(texts(html, "meta")).toEqual(["#!/bin/sh"]);
  });
});

describe("JavaScript", () => {
  it("is coloured as TypeScript is, under each of its names", () => {
    const code = "const one = async () => `two ${3}`; // four\n";
    for (const name of ["javascript", "js", "jsx", "typescript", "ts"]) {
      const html = highlighted(code, name) ?? "";
      expect(plain(html)).toBe(code);
      expect(texts(html, "keyword")).toEqual(["const", "async"]);
      expect(texts(html, "comment")).toEqual(["// four"]);
    }
    expect(highlighted(code, "nothing")).toBeNull();
  });
});
