// Our own grammars colour what tells a reader where he is, and change no text.
import { describe, expect, it } from "vitest";
import { coloured, type Piece } from "../../src/parts/colours";
import { GRAMMARS } from "../../src/parts/grammars";

const plain = (found: readonly Piece[]) => found.map(([, text]) => text).join("");
const texts = (found: readonly Piece[], scope: string) => found.filter(([its]) => its === scope).map(([, text]) => text);

describe("CSS", () => {
  it("has its selectors, properties, numbers, strings and comments", () => {
    const code = '/* a */\n@media (max-width: 40em) {\n  .card > a:hover {\n    color: #ff0;\n    margin: 0 -1.5rem !important;\n    content: "x;y";\n  }\n}\n';
    const found = coloured(code, "css") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "attr")).toEqual(["color", "margin", "content"]);
    expect(texts(found, "keyword")).toEqual(["@media", "!important"]);
    expect(texts(found, "number")).toEqual(expect.arrayContaining(["#ff0", "0", "-1.5rem"]));
    expect(texts(found, "comment")).toEqual(["/* a */"]);
    expect(texts(found, "title")).toEqual(expect.arrayContaining([".card"]));
  });
});

describe("SQL", () => {
  it("has its words, strings, numbers and comments, in any case", () => {
    const code = "SELECT name, count(*) FROM people -- all\nwhere name = 'O''Brien' and age >= 21;\n";
    const found = coloured(code, "sql") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "keyword")).toEqual(["SELECT", "FROM", "where", "and"]);
    expect(texts(found, "string")).toEqual(["'O''Brien'"]);
    expect(texts(found, "number")).toEqual(["21"]);
    expect(texts(found, "comment")).toEqual(["-- all"]);
  });
});

describe("Rust", () => {
  it("has its words, lifetimes, macros, strings and comments", () => {
    const code = 'fn main<\'a>(x: &\'a str) { // b\n    println!("a \\" {}", r#"raw "x" "#, \'c\', 1_000u32);\n}\n';
    const found = coloured(code, "rust") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "keyword")).toEqual(["fn"]);
    expect(texts(found, "symbol")).toEqual(["'a", "'a"]);
    expect(texts(found, "title")).toEqual(["println!"]);
    expect(texts(found, "comment")).toEqual(["// b"]);
    expect(texts(found, "string")).toEqual(['"a \\" {}"', 'r#"raw "x" "#', "'c'"]);
  });
});

describe("a shell", () => {
  it("has its words, variables, strings and comments", () => {
    const code = '#!/bin/sh\nfor name in a b; do # all\n  echo "$name: ${HOME}" \'$x\' >> out-in.txt\ndone\n';
    const found = coloured(code, "sh") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "keyword")).toEqual(["for", "in", "do", "done"]);
    expect(texts(found, "built_in")).toEqual(["echo"]);
    expect(texts(found, "variable")).toEqual(["$name", "${HOME}"]);
    expect(texts(found, "comment")).toEqual(["# all"]);
    expect(texts(found, "meta")).toEqual(["#!/bin/sh"]);
  });
});

describe("JavaScript", () => {
  it("is coloured as TypeScript is, under each of its names", () => {
    const code = "const one = async () => `two ${3}`; // four\n";
    for (const name of ["javascript", "js", "jsx", "typescript", "ts"]) {
      const found = coloured(code, name) ?? [];
      expect(plain(found)).toBe(code);
      expect(texts(found, "keyword")).toEqual(["const", "async"]);
      expect(texts(found, "comment")).toEqual(["// four"]);
    }
    expect(coloured(code, "nothing")).toBeNull();
  });
});

describe("TypeScript", () => {
  it("has templates with what is in them, patterns, and names behind a dot", () => {
    const code = 'const a = `x ${b + {c: 1}} y`;\nfunction f(x: number): string { return /a[/]b/g.test(x) ? "1" : null }\n@deep.one class A extends B {}\nx.type = 3 / 4 / 5;\n';
    const found = coloured(code, "ts") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "keyword")).toEqual(["const", "function", "return", "class", "extends"]);
    expect(texts(found, "title")).toEqual(["f", "A"]);
    expect(texts(found, "regexp")).toEqual(["/a[/]b/g"]);
    expect(texts(found, "type")).toEqual(["number", "string"]);
    expect(texts(found, "number")).toEqual(["1", "3", "4", "5"]);
  });
});

describe("Python", () => {
  it("has decorators, strings of all kinds, and names behind a dot", () => {
    const code = '@dec.one\ndef main(names: list[str]) -> int:\n    # greets\n    print(r"\\d", """doc\n# x""", \'b\')\n    return self.type if None else 1\n';
    const found = coloured(code, "py") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "keyword")).toEqual(["def", "return", "if", "else"]);
    expect(texts(found, "string")).toEqual(['r"\\d"', '"""doc\n# x"""', "'b'"]);
    expect(texts(found, "comment")).toEqual(["# greets"]);
    expect(texts(found, "meta")).toEqual(["@dec.one"]);
    const inside = coloured('f"Hello, {len(name)}! {{x}}" + f\'{a:>{3}}\'', "python") ?? [];
    expect(texts(inside, "built_in")).toEqual(["len"]);
    expect(texts(inside, "string")).toEqual(['f"Hello, ', '! {{x}}"', "f'", "'"]);
  });
});

describe("Go, TOML and YAML", () => {
  it("have their words, keys and values, and change no text", () => {
    const code = "func main() {\n\tx := map[string]int{`a`: 1} // one\n}\n";
    const found = coloured(code, "go") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "keyword")).toEqual(["func", "map"]);
    expect(texts(found, "title")).toEqual(["main"]);
    const toml = '[server]\nport = 8790 # the door\nname = "a # b"\non = true\n';
    const inToml = coloured(toml, "toml") ?? [];
    expect(plain(inToml)).toBe(toml);
    expect(texts(inToml, "title")).toEqual(["[server]"]);
    expect(texts(inToml, "attr")).toEqual(["port", "name", "on"]);
    expect(texts(inToml, "string")).toEqual(['"a # b"']);
    expect(texts(inToml, "comment")).toEqual(["# the door"]);
    const yaml = "---\nname: a-1\nlist:\n  - 3.4\n  - yes # so\n";
    const inYaml = coloured(yaml, "yaml") ?? [];
    expect(plain(inYaml)).toBe(yaml);
    expect(texts(inYaml, "attr")).toEqual(["name", "list"]);
    expect(texts(inYaml, "number")).toEqual(["3.4"]);
    expect(texts(inYaml, "literal")).toEqual(["yes"]);
  });
});

describe("HTML", () => {
  it("has its elements, attributes, comments and entities", () => {
    const code = '<!doctype found>\n<p class="a b" hidden>It &amp; that</p><br/><!-- no <b> -->\n';
    const found = coloured(code, "html") ?? [];
    expect(plain(found)).toBe(code);
    expect(texts(found, "keyword")).toEqual(["p", "p", "br"]);
    expect(texts(found, "attr")).toEqual(["class", "hidden"]);
    expect(texts(found, "string")).toEqual(['"a b"']);
    expect(texts(found, "symbol")).toEqual(["&amp;"]);
    expect(texts(found, "comment")).toEqual(["<!-- no <b> -->"]);
  });
});

describe("JSON and differences", () => {
  it("have keys, values, and what came and went", () => {
    const found = coloured('{"a": "b\\"c", "n": [-1.5e3, true, null]}', "json") ?? [];
    expect(texts(found, "attr")).toEqual(['"a"', '"n"']);
    expect(texts(found, "string")).toEqual(['"b\\"c"']);
    expect(texts(found, "number")).toEqual(["-1.5e3"]);
    expect(texts(found, "literal")).toEqual(["true", "null"]);
    const changed = coloured("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n same\n", "diff") ?? [];
    expect(texts(changed, "meta")).toEqual(["--- a/x", "+++ b/x", "@@ -1 +1 @@"]);
    expect(texts(changed, "added")).toEqual(["+two"]);
    expect(texts(changed, "removed")).toEqual(["-one"]);
  });
});

describe("all languages", () => {
  const parts = ["`", "${", "}", "{", '"', "'", "\\", "\n", " ", "/*", "*/", "//", "#", "<", ">", "-", "+", "=", ":", "name", "if", "1.5", '"""', 'f"', "r#\"", "中", "😀", "$", "@x", "--", "[", "/"];
  /** The same texts each time. */
  const texts_ = (seed: number) => {
    let state = seed + 1;
    const next = () => (state = (state * 48_271) % 2_147_483_647);
    return Array.from({ length: next() % 60 }, () => parts[next() % parts.length]).join("");
  };

  it("change no text, whatever it is", () => {
    for (const name of GRAMMARS.keys()) for (let seed = 0; seed < 300; seed++) expect(plain(coloured(texts_(seed), name) ?? []), `${name} ${seed}`).toBe(texts_(seed));
  });

  it("take time in proportion to a text, whatever it is", () => {
    for (const text of ["`${".repeat(12_000), "<a ".repeat(12_000), "{".repeat(50_000), "a:".repeat(25_000), "'".repeat(25_001), "/*".repeat(25_000), "a ".repeat(25_000), "-".repeat(50_000), " ".repeat(50_000), "\n".repeat(50_000), "a".repeat(50_000), "/".repeat(50_000), "1".repeat(50_000), 'r#"'.repeat(15_000), "#[".repeat(25_000), ".".repeat(50_000), `<a ${"b".repeat(50_000)}`, "'\\".repeat(25_000), "\"".repeat(25_001)])
      for (const name of ["bash", "css", "diff", "go", "ini", "json", "python", "rust", "sql", "ts", "xml", "yaml"]) expect(plain(coloured(text, name) ?? []).length, name).toBe(text.length);
  }, 15_000);
});
