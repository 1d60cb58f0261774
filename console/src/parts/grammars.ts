// How languages are coloured: what tells a reader where he is, and not every word that they know. The pattern of a rule takes time in
// proportion to what it reads, whatever that is: one that can begin anywhere in a run of characters says where the run begins.

/** What a piece of code is; each is a class of look/markdown.css. */
export type Scope = "keyword" | "literal" | "built_in" | "type" | "string" | "regexp" | "number" | "attr" | "symbol" | "variable" | "comment" | "meta" | "title" | "added" | "removed" | "plain";

export interface Rule {
  /** Without one, it is what stands around it. */
  scope?: Scope;
  is: RegExp;
  /** What follows is of another grammar, until that ends. */
  inside?: Grammar;
  until?: RegExp;
}

export interface Grammar {
  rules: readonly Rule[];
  words?: Readonly<Partial<Record<Scope, string>>>;
  isAnyCase?: boolean;
}

const rule = (scope: Scope, is: RegExp): Rule => ({ scope, is });
const plain = (is: RegExp): Rule => ({ is });
const NUMBER = rule("number", /\b(?:0x[\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*/);
const C_COMMENT = rule("comment", /\/\*[^]*?(?:\*\/|$(?![^]))/);
const LINE_COMMENT = rule("comment", /\/\/.*/);
const HASH_COMMENT = rule("comment", /(?<=^|\s)#.*/);
const QUOTED = rule("string", /"(?:\\[^]|[^"\\\n])*"?/);
const APOSTROPHES = rule("string", /'(?:\\[^]|[^'\\\n])*'?/);
const ESCAPED = plain(/\\[^]/);
/** A name behind a dot is no keyword. */
const MEMBER = plain(/\.[\w$]+/);

const css: Grammar = {
  rules: [
    C_COMMENT,
    APOSTROPHES,
    QUOTED,
    rule("keyword", /@[\w-]+|!important\b/),
    rule("attr", /(?<![\w-])(?:--)?[a-z][\w-]*(?=\s*:[^{};]{0,500}[;}])/),
    rule("number", /#[0-9a-f]{3,8}\b|-?\b\d*\.?\d+(?:%|[a-z]+\b)?/),
    rule("title", /(?<![\w-])[.#]?[a-z_][\w-]*(?=[^{};]{0,500}\{)/),
  ],
  isAnyCase: true,
};

const sql: Grammar = {
  isAnyCase: true,
  words: {
    keyword:
      "add all alter and any as asc begin between by case cast check column commit constraint create cross database default delete desc distinct drop else end except exists explain false foreign from full function grant group having if in index inner insert intersect into is join key left like limit not null offset on or order outer over partition pragma primary references replace returning right rollback row select set table temporary then transaction trigger true union unique update using values view when where window with without",
    type: "bigint blob boolean bytea char date decimal double float integer int interval json jsonb numeric real serial smallint text timestamp timestamptz uuid varchar",
    built_in: "avg coalesce count lower max min now round substr sum upper",
  },
  rules: [rule("string", /'(?:''|[^'])*'?/), plain(/"[^"\n]*"/), NUMBER, C_COMMENT, rule("comment", /--.*/)],
};

const rust: Grammar = {
  words: {
    keyword: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self static struct super trait type unsafe use where while",
    literal: "true false None Some Ok Err",
    type: "bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize Box Option Result Self String Vec",
  },
  rules: [
    LINE_COMMENT,
    C_COMMENT,
    rule("string", /b?r(?<hashes>#*)"[^]*?(?:"\k<hashes>|$(?![^]))|b?"(?:\\[^]|[^"\\])*"?|b?'(?:\\[^'\n]{1,12}|[^\\'])'/),
    rule("symbol", /'[a-z_]\w*/),
    rule("title", /\b[a-z_]\w*!(?=[({[])/),
    rule("meta", /#!?\[[^\]\n]{0,500}\]/),
    NUMBER,
  ],
};

const VARIABLE = rule("variable", /\$(?:[\w@#?*!$-]|\{[^}\n]{0,200}\})\w*/);
const bash: Grammar = {
  words: {
    keyword: "if then else elif fi for while until in do done case esac function select return time",
    built_in: "alias break cd continue declare echo eval exec exit export getopts kill local printf pwd read readonly set shift source test trap type ulimit umask unset wait",
  },
  rules: [
    rule("meta", /^#!.*/),
    HASH_COMMENT,
    { scope: "string", is: /"/, until: /"/, inside: { rules: [ESCAPED, VARIABLE] } },
    rule("string", /'[^']*'/),
    VARIABLE,
    // A word with a dash or a dot in it is no keyword.
    plain(/(?<![\w./])[\w./]+[-.][\w.-]*/),
    NUMBER,
  ],
};

const TS_WORDS = {
  keyword:
    "abstract as async await break case catch class const continue debugger declare default delete do else enum export extends finally for from function get if implements import in infer instanceof interface is keyof let namespace new of override private protected public readonly return satisfies set static super switch this throw try type typeof unique var void while with yield",
  literal: "true false null undefined NaN Infinity",
  type: "any bigint boolean never number object string symbol unknown",
  built_in: "Array Boolean Date Error Map Math JSON Number Object Promise Proxy Reflect RegExp Set String Symbol WeakMap console document globalThis process window",
};
const inTemplate: Rule[] = [];
const template: Rule = { scope: "string", is: /`/, until: /`/, inside: { rules: [ESCAPED, { scope: "plain", is: /\$\{/, until: /\}/, inside: { words: TS_WORDS, rules: inTemplate } }] } };
inTemplate.push(template, QUOTED, APOSTROPHES, { is: /\{/, until: /\}/, inside: { words: TS_WORDS, rules: inTemplate } }, NUMBER);
const typescript: Grammar = {
  words: TS_WORDS,
  rules: [
    LINE_COMMENT,
    C_COMMENT,
    APOSTROPHES,
    QUOTED,
    template,
    // A slash begins a pattern where a value may begin.
    rule("regexp", /\/(?![/*])(?<=(?:[=(,:;!&|?{}[]\s*|\breturn\s+)\/)(?:\\.|\[(?:\\.|[^\]\n])*\]|[^/\\\n[])+\/[dgimsuvy]*/),
    rule("meta", /@[\w.]+/),
    rule("title", /(?=[\w$])(?<=\b(?:class|interface|enum|type|function\*?)\s+)[\w$]+/),
    MEMBER,
    NUMBER,
  ],
};

const PY_WORDS = {
  keyword: "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try type while with yield",
  literal: "True False None Ellipsis NotImplemented",
  built_in: "abs all any bool bytearray bytes callable chr classmethod dict dir enumerate eval filter float format frozenset getattr hasattr hash id input int isinstance issubclass iter len list map max memoryview min next object open ord pow print property range repr reversed round self set setattr slice sorted staticmethod str sum super tuple type vars zip",
};
const inField: Rule[] = [NUMBER, MEMBER];
const field: Rule = { scope: "plain", is: /\{/, until: /\}/, inside: { words: PY_WORDS, rules: inField } };
inField.push(field);
const inFormat: Grammar = { rules: [ESCAPED, plain(/\{\{/), field] };
const python: Grammar = {
  words: PY_WORDS,
  rules: [
    rule("comment", /#.*/),
    ...['"""', "'''", '"', "'"].map((quote): Rule => ({ scope: "string", is: new RegExp(`\\b(?:[fFtT]|[fF][rR]|[rR][fF])${quote}`), until: new RegExp(quote), inside: inFormat })),
    rule("string", /(?:\b(?:[bBrRuU]|[bB][rR]|[rR][bB]))?(?:"""[^]*?(?:"""|$(?![^]))|'''[^]*?(?:'''|$(?![^]))|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?)/),
    rule("meta", /@(?<=^[ \t]*@)[\w.]+/),
    rule("title", /(?=\w)(?<=\b(?:def|class)\s+)\w+/),
    MEMBER,
    NUMBER,
  ],
};

const go: Grammar = {
  words: {
    keyword: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var",
    literal: "true false nil iota",
    type: "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr",
    built_in: "append cap clear close copy delete len make max min new panic print println recover",
  },
  rules: [LINE_COMMENT, C_COMMENT, QUOTED, APOSTROPHES, rule("string", /`[^`]*`/), rule("title", /(?=\w)(?<=\bfunc\s+)\w+/), MEMBER, NUMBER],
};

const VALUES = [
  rule("comment", /(?<=^|\s)[#;].*/),
  rule("string", /"""[^]*?"""/),
  QUOTED,
  rule("string", /'[^'\n]*'/),
  rule("literal", /\b(?:true|false|null|yes|no|on|off)\b/),
  rule("number", /(?<![\w.-])-?\d[\w.:-]*/),
  plain(/\w+/),
];
const ini: Grammar = { rules: [rule("title", /\[(?<=^[ \t]*\[)[^\]\n]*\]+/), rule("attr", /(?=[\w."'-])(?<=^[ \t]*)[\w."'-]+(?=[ \t]*=)/), ...VALUES] };
const yaml: Grammar = { rules: [rule("meta", /^---.*/), rule("attr", /(?<![\w."'/-])[\w."'/-]+(?=:(?:\s|$))/), rule("symbol", /(?<=\s)[&*!][\w!]+/), ...VALUES] };
const json: Grammar = { words: { literal: "true false null" }, rules: [rule("attr", /"(?:\\.|[^"\\\n])*"(?=\s*:)/), QUOTED, rule("number", /-?\d[\d.eE+-]*/), LINE_COMMENT, C_COMMENT] };

const xml: Grammar = {
  rules: [
    rule("comment", /<!--[^]*?(?:-->|$(?![^]))/),
    rule("meta", /<[!?][^>]*>?/),
    { is: /<\/?(?=[\w:.-])/, until: /\/?>/, inside: { rules: [rule("keyword", /(?<=<\/?)[\w:.-]+/), rule("attr", /(?<![\w:@.-])[\w:@.-]+(?==|[\s/>])/), rule("string", /"[^"]*"|'[^']*'/)] } },
    rule("symbol", /&#?\w+;/),
  ],
};

const diff: Grammar = {
  rules: [rule("meta", /^(?:@@.*|diff .*|index .*|(?:---|\+\+\+) .*)/), rule("added", /^[+>].*/), rule("removed", /^[-<].*/)],
};

/** By each name that they go by. JavaScript is TypeScript without types. */
export const GRAMMARS: ReadonlyMap<string, Grammar> = new Map(
  (
    [
      ["bash sh shell console", bash],
      ["css", css],
      ["diff patch", diff],
      ["go golang", go],
      ["ini toml", ini],
      ["json json5 jsonc", json],
      ["python py", python],
      ["rust rs", rust],
      ["sql", sql],
      ["typescript javascript js jsx mjs cjs ts tsx", typescript],
      ["xml html svg", xml],
      ["yaml yml", yaml],
    ] as const
  ).flatMap(([names, grammar]) => names.split(" ").map((name) => [name, grammar] as const)),
);
