// How CSS, SQL, Rust and shells are coloured: what tells a reader where he is. The grammars of highlight.js know every word of them, at 7 kB.
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

export const rust = (hljs: HLJSApi): Language => ({
  name: "Rust",
  keywords: {
    keyword: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self static struct super trait type unsafe use where while",
    literal: "true false None Some Ok Err",
    type: "bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize Box Option Result Self String Vec",
  },
  contains: [
    hljs.C_LINE_COMMENT_MODE,
    hljs.C_BLOCK_COMMENT_MODE,
    { scope: "string", variants: [{ begin: /b?"/, end: /"/, contains: [hljs.BACKSLASH_ESCAPE] }, { begin: /b?r(#*)"(?:.|\n)*?"\1/ }, { begin: /b?'(?:\\[^']+|[^\\'])'/ }] },
    { scope: "symbol", begin: /'[a-z_]\w*/ },
    { scope: "title", begin: /\b[a-z_]\w*!(?=[({[])/ },
    { scope: "meta", begin: /#!?\[/, end: /\]/ },
    hljs.C_NUMBER_MODE,
  ],
});

export const bash = (hljs: HLJSApi): Language => {
  const variable = { scope: "variable", begin: /\$(?:[\w@#?*!$-]|\{[^}]*\})\w*/ };
  return {
    name: "Bash",
    keywords: {
      keyword: "if then else elif fi for while until in do done case esac function select return time",
      built_in: "alias break cd continue declare echo eval exec exit export getopts kill local printf pwd read readonly set shift source test trap type ulimit umask unset wait",
    },
    contains: [
      { scope: "meta", begin: /^#!.*$/ },
      { scope: "comment", begin: /(?:^|\s)#/, end: /$/ },
      { scope: "string", begin: /"/, end: /"/, contains: [hljs.BACKSLASH_ESCAPE, variable] },
      { scope: "string", begin: /'/, end: /'/ },
      variable,
      // A word with a dash or a dot in it is no keyword.
      { begin: /[\w./]+[-.][\w.-]*/ },
      hljs.C_NUMBER_MODE,
    ],
  };
};
