// Our own grammars colour what tells a reader where he is, and change no text.
import { describe, expect, it } from "vitest";
import { highlighted } from "../../src/parts/highlight";

const plain = (html: string) => html.replace(/<[^>]*>/g, "").replaceAll("&quot;", '"').replaceAll("&#x27;", "'").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
const texts = (html: string, scope: string) => [...html.matchAll(new RegExp(`<span class="hljs-${scope}">([^<]*)</span>`, "g"))].map((found) => plain(found[1] ?? ""));

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
    expect(texts(html, "string")).toEqual(["'O''Brien'"]);
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
    expect(texts(html, "symbol")).toEqual(["'a", "'a"]);
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

describe("TypeScript", () => {
  it("has templates with what is in them, patterns, and names behind a dot", () => {
    const code = 'const a = `x ${b + {c: 1}} y`;\nfunction f(x: number): string { return /a[/]b/g.test(x) ? "1" : null }\n@deep.one class A extends B {}\nx.type = 3 / 4 / 5;\n';
    const html = highlighted(code, "ts") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "keyword")).toEqual(["const", "function", "return", "class", "extends"]);
    expect(texts(html, "title")).toEqual(["f", "A"]);
    expect(texts(html, "regexp")).toEqual(["/a[/]b/g"]);
    expect(texts(html, "type")).toEqual(["number", "string"]);
    expect(texts(html, "number")).toEqual(["3", "4", "5"]);
  });
});

describe("Python", () => {
  it("has decorators, strings of all kinds, and names behind a dot", () => {
    const code = '@dec.one\ndef main(names: list[str]) -> int:\n    # greets\n    print(r"\\d", """doc\n# x""", \'b\')\n    return self.type if None else 1\n';
    const html = highlighted(code, "py") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "keyword")).toEqual(["def", "return", "if", "else"]);
    expect(texts(html, "string")).toEqual(['r"\\d"', '"""doc\n# x"""', "'b'"]);
    expect(texts(html, "comment")).toEqual(["# greets"]);
    expect(texts(html, "meta")).toEqual(["@dec.one"]);
    const inside = highlighted('f"Hello, {len(name)}! {{x}}"', "python") ?? "";
    expect(inside).toContain('<span class="hljs-subst">{<span class="hljs-built_in">len</span>(name)}</span>');
  });
});

describe("Go, TOML and YAML", () => {
  it("have their words, keys and values, and change no text", () => {
    const code = "func main() {\n\tx := map[string]int{`a`: 1} // one\n}\n";
    const html = highlighted(code, "go") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "keyword")).toEqual(["func", "map"]);
    expect(texts(html, "title")).toEqual(["main"]);
    const toml = '[server]\nport = 8790 # the door\nname = "a # b"\non = true\n';
    const ofToml = highlighted(toml, "toml") ?? "";
    expect(plain(ofToml)).toBe(toml);
    expect(texts(ofToml, "title")).toEqual(["[server]"]);
    expect(texts(ofToml, "attr")).toEqual(["port", "name", "on"]);
    expect(texts(ofToml, "string")).toEqual(['"a # b"']);
    expect(texts(ofToml, "comment")).toEqual(["# the door"]);
    const yaml = "---\nname: a-1\nlist:\n  - 3.4\n  - yes # so\n";
    const ofYaml = highlighted(yaml, "yaml") ?? "";
    expect(plain(ofYaml)).toBe(yaml);
    expect(texts(ofYaml, "attr")).toEqual(["name", "list"]);
    expect(texts(ofYaml, "number")).toEqual(["3.4"]);
    expect(texts(ofYaml, "literal")).toEqual(["yes"]);
  });
});

describe("HTML", () => {
  it("has its elements, attributes, comments and entities", () => {
    const code = '<!doctype html>\n<p class="a b" hidden>It &amp; that</p><br/><!-- no <b> -->\n';
    const html = highlighted(code, "html") ?? "";
    expect(plain(html)).toBe(code);
    expect(texts(html, "keyword")).toEqual(["p", "p", "br"]);
    expect(texts(html, "attr")).toEqual(["class", "hidden"]);
    expect(texts(html, "string")).toEqual(['"a b"']);
    expect(texts(html, "symbol")).toEqual(["&amp;"]);
    expect(texts(html, "comment")).toEqual(["<!-- no <b> -->"]);
  });
});
