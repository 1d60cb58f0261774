// What the build leaves out, so that less has to be loaded. Nothing of it changes what the page does, and the build fails where the
// sources or a library are no longer as they are expected here.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAst, type Plugin } from "vite";

interface Node {
  type: string;
  start: number;
  end: number;
  [field: string]: unknown;
}

/** The object behind `{…} as T` and the like; `null` if there is another thing, or one whose names come in an order of their own. */
function objectOf(node: Node | undefined): { names: string[]; values: Node[] } | null {
  if (node === undefined) return null;
  if (node.type === "TSAsExpression" || node.type === "TSSatisfiesExpression") return objectOf(node["expression"] as Node);
  if (node.type !== "ObjectExpression") return null;
  const properties = node["properties"] as Node[];
  const names = properties.map(({ type, key }) => (type === "Property" ? String((key as Node)["name"] ?? (key as Node)["value"]) : "0"));
  return names.some((name) => /^\d+$/.test(name)) ? null : { names, values: properties.map((each) => each["value"] as Node) };
}

/** The Chinese texts as they stand, without their names: those of the English ones, in the same order. */
function unnamed(english: Node, chinese: Node, code: string): string {
  const [first, second] = [objectOf(english), objectOf(chinese)];
  if (first === null || second === null) return code.slice(chinese.start, chinese.end);
  if (first.names.join() !== second.names.join()) {
    const at = first.names.findIndex((name, index) => name !== second.names[index]);
    throw new Error(`The Chinese texts must stand in the order of the English ones: ${second.names[at]} is where ${first.names[at]} should be.`);
  }
  return `[${second.values.map((each, at) => unnamed(first.values[at]!, each, code)).join(",")}]`;
}

function* nodesOf(value: unknown): Generator<Node> {
  if (typeof value !== "object" || value === null) return;
  if ("type" in value && "start" in value) yield value as Node;
  for (const each of Object.values(value)) yield* nodesOf(each);
}

const parsed = (code: string): unknown => parseAst(code, { lang: "ts" });

/** The value of `const NAME = …`. */
function valueOf(code: string, name: string): Node {
  for (const node of nodesOf(parsed(code))) {
    if (node.type === "VariableDeclarator" && (node["id"] as Node)["name"] === name) return node["init"] as Node;
  }
  throw new Error(`There is no ${name}.`);
}

/** A file of texts without the names of the Chinese ones; `named` of src/store/settings.ts puts them back. */
export function leanWords(code: string, english: string): string {
  let pair: [Node, Node] | undefined;
  if (english !== "") pair = [valueOf(english, "en"), valueOf(code, "zh")];
  else {
    for (const node of nodesOf(parsed(code))) {
      if (node.type === "CallExpression" && (node["callee"] as Node)["name"] === "inBoth") pair = node["arguments"] as [Node, Node];
    }
  }
  if (pair === undefined) throw new Error("A file of texts has no texts in both languages.");
  return code.slice(0, pair[1].start) + unnamed(...pair, code) + code.slice(pair[1].end);
}

function without(code: string, part: RegExp, instead: string): string {
  if (!part.test(code)) throw new Error(`A library is another one now: ${part} is not in it.`);
  return code.replace(part, instead);
}

// Of SVG and MathML the page lets nothing through, and it names the attributes that it does let through: without the lists of what is
// known of these, DOMPurify takes them out as things that it does not know.
const LISTS = ["svg$1", "svgFilters", "svgDisallowed", "mathMl$1", "mathMlDisallowed", "html", "svg", "mathMl", "xml"];

export function leanPurify(code: string): string {
  return LISTS.reduce(
    (rest, name) => without(rest, new RegExp(`const ${name.replace("$", "\\$")} = freeze\\(\\[[^\\]]*\\]\\);`), `const ${name} = freeze([]);`),
    code,
  );
}

/** marked without the instance that has extensions and options: the page has neither. */
export function leanMarked(code: string): string {
  const [, lexer] = /(\w+) as Lexer\b/.exec(code) ?? [];
  const [, parser] = /(\w+) as Parser\b/.exec(code) ?? [];
  return without(code, /var (\w+)=new \w+;function (\w+)\(\w+,\w+\)\{return \1\.parse\(.*$/s, `export{${lexer} as Lexer,${parser} as Parser};`);
}

export const lean: Plugin = {
  name: "lean",
  enforce: "pre",
  apply: "build",
  transform(code, id) {
    let less: string | undefined;
    if (/\/words\/screens\/\w+\.ts$/.test(id)) less = leanWords(code, "");
    else if (id.endsWith("/words/zh.ts")) less = leanWords(code, readFileSync(join(id, "../en.ts"), "utf8"));
    else if (/\/dompurify\/.*\.mjs$/.test(id)) less = leanPurify(code);
    else if (/\/marked\/.*\.js$/.test(id)) less = leanMarked(code);
    return less === undefined ? null : { code: less, map: null };
  },
};
