// How CSS and SQL are coloured: what tells a reader where he is. The grammars of highlight.js know every word of both, at 6 kB.
import type { HLJSApi, Language } from "highlight.js";

export const css = (hljs: HLJSApi): Language => ({
  name: "CSS",
  case_insensitive: true,
  contains: [
    hljs.C_BLOCK_COMMENT_MODE,
    hljs.APOS_STRING_MODE,
    hljs.QUOTE_STRING_MODE,
    { scope: "keyword", begin: /@[\w-]+|!important\b/ },
    { scope: "attr", begin: /(?:--)?[a-z][\w-]*(?=\s*:[^{]*[;}])/ },
    { scope: "number", begin: /#[0-9a-f]{3,8}\b|-?\b\d*\.?\d+(?:%|[a-z]+\b)?/ },
    { scope: "title", begin: /[.#]?[a-z_][\w-]*(?=[^{};]*\{)/ },
  ],
});

const WORDS =
  "add all alter and any as asc begin between by case cast check column commit constraint create cross database default delete desc distinct drop else end except exists explain false foreign from full function grant group having if in index inner insert intersect into is join key left like limit not null offset on or order outer over partition pragma primary references replace returning right rollback row select set table temporary then transaction trigger true union unique update using values view when where window with without";

export const sql = (hljs: HLJSApi): Language => ({
  name: "SQL",
  case_insensitive: true,
  keywords: {
    keyword: WORDS,
    type: "bigint blob boolean bytea char date decimal double float integer int interval json jsonb numeric real serial smallint text timestamp timestamptz uuid varchar",
    built_in: "avg coalesce count date lower max min now round substr sum upper",
  },
  contains: [
    { scope: "string", begin: /'/, end: /'/, contains: [{ begin: /''/ }] },
    { begin: /"/, end: /"/ },
    hljs.C_NUMBER_MODE,
    hljs.C_BLOCK_COMMENT_MODE,
    hljs.COMMENT("--", "$"),
  ],
});
