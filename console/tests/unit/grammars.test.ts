// Our own grammars of CSS and SQL colour what tells a reader where he is, and change no text.
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
