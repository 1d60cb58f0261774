// How most languages are coloured: what tells a reader where he is. The grammars of highlight.js know every word of them, at 15 kB.
import type { HLJSApi, Language, Mode } from "highlight.js";

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

export const typescript = (hljs: HLJSApi): Language => {
  const keywords = {
    keyword:
      "abstract as async await break case catch class const continue debugger declare default delete do else enum export extends finally for from function get if implements import in infer instanceof interface is keyof let namespace new of override private protected public readonly return satisfies set static super switch this throw try type typeof unique var void while with yield",
    literal: "true false null undefined NaN Infinity",
    type: "any bigint boolean never number object string symbol unknown",
    built_in: "Array Boolean Date Error Map Math JSON Number Object Promise Proxy Reflect RegExp Set String Symbol WeakMap console document globalThis process window",
  };
  const inside = { scope: "subst", begin: /\$\{/, end: /\}/, keywords, contains: [] as Mode[] };
  const template: Mode = { scope: "string", begin: /`/, end: /`/, contains: [hljs.BACKSLASH_ESCAPE, inside] };
  inside.contains.push(template, hljs.QUOTE_STRING_MODE, hljs.APOS_STRING_MODE, { begin: /\{/, end: /\}/, contains: ["self"] });
  return {
    name: "TypeScript",
    keywords,
    contains: [
      hljs.C_LINE_COMMENT_MODE,
      hljs.C_BLOCK_COMMENT_MODE,
      hljs.APOS_STRING_MODE,
      hljs.QUOTE_STRING_MODE,
      template,
      // A slash begins a pattern where a value may begin.
      { scope: "regexp", begin: /(?<=[=(,:;!&|?{}[]\s*|\breturn\s+)\/(?![/*])(?:\\.|\[(?:\\.|[^\]])*\]|[^/\\\n[])+\/[dgimsuvy]*/ },
      { scope: "meta", begin: /@[\w.]+/ },
      { begin: [/\b(?:class|interface|enum|type|function\*?)/, /\s+/, /[\w$]+/], beginScope: { 1: "keyword", 3: "title" } },
      // A name behind a dot is no keyword.
      { begin: /\.[\w$]+/ },
      hljs.C_NUMBER_MODE,
    ],
  };
};

export const python = (hljs: HLJSApi): Language => {
  const keywords = {
    $pattern: /\b\w+\b/,
    keyword: "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try type while with yield",
    literal: "True False None Ellipsis NotImplemented",
    built_in: "abs all any bool bytearray bytes callable chr classmethod dict dir enumerate eval filter float format frozenset getattr hasattr hash id input int isinstance issubclass iter len list map max memoryview min next object open ord pow print property range repr reversed round self set setattr slice sorted staticmethod str sum super tuple type vars zip",
  };
  const inside = { scope: "subst", begin: /\{(?!\{)/, end: /\}/, keywords };
  const strings = (start: RegExp, contains: Mode[]): Mode[] =>
    [/"""/, /'''/, /"/, /'/].map((quote) => ({ begin: new RegExp(start.source + quote.source, "i"), end: quote, contains: [hljs.BACKSLASH_ESCAPE, ...contains] }));
  return {
    name: "Python",
    keywords,
    contains: [
      { scope: "comment", begin: /#/, end: /$/ },
      { scope: "string", variants: [...strings(/\b(?:f|fr|rf|t)/, [{ begin: /\{\{/ }, inside]), ...strings(/(?:\b(?:b|r|u|br|rb))?/, [])] },
      { scope: "meta", begin: /^\s*@[\w.]+/ },
      { begin: [/\b(?:def|class)/, /\s+/, /\w+/], beginScope: { 1: "keyword", 3: "title" } },
      { begin: /\.\w+/ },
      hljs.C_NUMBER_MODE,
    ],
  };
};

export const go = (hljs: HLJSApi): Language => ({
  name: "Go",
  keywords: {
    keyword: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var",
    literal: "true false nil iota",
    type: "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr",
    built_in: "append cap clear close copy delete len make max min new panic print println recover",
  },
  contains: [
    hljs.C_LINE_COMMENT_MODE,
    hljs.C_BLOCK_COMMENT_MODE,
    { scope: "string", variants: [hljs.QUOTE_STRING_MODE, hljs.APOS_STRING_MODE, { begin: /`/, end: /`/ }] },
    { begin: [/\bfunc/, /\s+/, /\w+/], beginScope: { 1: "keyword", 3: "title" } },
    { begin: /\.\w+/ },
    hljs.C_NUMBER_MODE,
  ],
});

const values = (hljs: HLJSApi): Mode[] => [
  { scope: "comment", begin: /(?<=^|\s)[#;]/, end: /$/ },
  { scope: "string", variants: [{ begin: /"""/, end: /"""/ }, hljs.QUOTE_STRING_MODE, { begin: /'/, end: /'/ }] },
  { scope: "literal", begin: /\b(?:true|false|null|yes|no|on|off)\b/ },
  { scope: "number", begin: /(?<![\w.-])-?\d[\w.:-]*/ },
];

export const ini = (hljs: HLJSApi): Language => ({
  name: "TOML and INI",
  contains: [{ scope: "title", begin: /^\s*\[[^\]\n]*\]+/ }, { scope: "attr", begin: /^\s*[\w."'-]+(?=\s*=)/ }, ...values(hljs)],
});

export const yaml = (hljs: HLJSApi): Language => ({
  name: "YAML",
  contains: [{ scope: "meta", begin: /^---.*$/ }, { scope: "attr", begin: /[\w."'/-]+(?=:(?:\s|$))/ }, { scope: "symbol", begin: /(?<=\s)[&*!][\w!]+/ }, ...values(hljs)],
});

export const xml = (hljs: HLJSApi): Language => ({
  name: "HTML and XML",
  contains: [
    hljs.COMMENT("<!--", "-->"),
    { scope: "meta", begin: /<[!?]/, end: />/ },
    {
      begin: [/<\/?/, /[\w:.-]+/],
      beginScope: { 2: "keyword" },
      end: /\/?>/,
      contains: [{ scope: "attr", begin: /[\w:@.-]+(?==|[\s/>])/ }, { scope: "string", variants: [{ begin: /"/, end: /"/ }, { begin: /'/, end: /'/ }] }],
    },
    { scope: "symbol", begin: /&#?\w+;/ },
  ],
});
