// What the build leaves out, so that less has to be loaded. Nothing of it changes what the page does, and the build fails where the
// sources or a library are no longer as they are expected here.
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "vite";
import { nodesOf, parsed, textsOf, Uses, type Node } from "./texts.ts";

/** The Chinese texts as they stand, without their names: those of the English ones, in the same order. */
function unnamed(english: Node, chinese: Node, code: string): string {
  const [first, second] = [textsOf(english), textsOf(chinese)];
  if (first === null || second === null) return code.slice(chinese.start, chinese.end);
  const [names, its] = [[...first.keys()], [...second.keys()]];
  if (names.join() !== its.join()) {
    const at = names.findIndex((name, index) => name !== its[index]);
    throw new Error(`The Chinese texts must stand in the order of the English ones: ${its[at]} is where ${names[at]} should be.`);
  }
  return `[${names.map((name) => unnamed(first.get(name)!, second.get(name)!, code)).join(",")}]`;
}

/** The English texts by their places, but for those that are used by their names. */
function placed(english: Node, code: string, uses: Uses): string {
  const texts = uses.isNamed(english) ? null : textsOf(english);
  if (texts === null) return code.slice(english.start, english.end);
  return `[${[...texts.values()].map((each) => placed(each, code, uses)).join(",")}]`;
}

/** The value of `const NAME = …`. */
function valueOf(code: string, name: string): Node {
  for (const node of nodesOf(parsed(code))) {
    if (node.type === "VariableDeclarator" && (node["id"] as Node)["name"] === name) return node["init"] as Node;
  }
  throw new Error(`There is no ${name}.`);
}

/** The two of `inBoth({…}, {…})`. */
function pairOf(code: string): [Node, Node] {
  for (const node of nodesOf(parsed(code))) {
    if (node.type === "CallExpression" && (node["callee"] as Node)["name"] === "inBoth") return node["arguments"] as [Node, Node];
  }
  throw new Error("A file of texts has no texts in both languages.");
}

const replaced = (code: string, { start, end }: Node, instead: string): string => code.slice(0, start) + instead + code.slice(end);
const isScreen = (path: string): boolean => /\/words\/screens\/\w+\.ts$/.test(path);

/** The sources by their paths, with texts by their places and without the names of these; `named` of src/store/settings.ts reads them. */
export function leanTexts(sources: ReadonlyMap<string, string>): Map<string, string> {
  const all = [...sources].filter(([path]) => /\.tsx?$/.test(path));
  const [english, chinese] = ["en", "zh"].map((name) => all.find(([path]) => path.endsWith(`/words/${name}.ts`))!);
  const own: [Node, Node] = [valueOf(english![1], "en"), valueOf(chinese![1], "zh")];
  const pairs = new Map(all.filter(([path]) => isScreen(path)).map(([path, code]) => [path, pairOf(code)]));
  const uses = new Uses();
  for (const [path, code] of all) {
    uses.read(path, code, (from, name) => {
      const target = `${join(dirname(path), from.replace(/\.tsx?$/, ""))}.ts`;
      if (target.endsWith("/store/settings.ts")) return name === "words" || name === "*" ? own[0] : null;
      return name === "its" || name === "*" ? (pairs.get(target)?.[0] ?? null) : null;
    });
  }
  return new Map(
    all.map(([path, code]) => {
      const [one, other] = pairs.get(path) ?? [];
      if (path === english![0]) return [path, replaced(code, own[0], placed(own[0], code, uses))];
      if (path === chinese![0]) return [path, replaced(code, own[1], unnamed(...own, code))];
      if (one === undefined || other === undefined) return [path, uses.rewritten(path, code)];
      return [path, replaced(replaced(code, other, unnamed(one, other, code)), one, placed(one, code, uses))];
    }),
  );
}

function without(code: string, part: RegExp, instead: string): string {
  if (!part.test(code)) throw new Error(`A library is another one now: ${part} is not in it.`);
  return code.replace(part, instead);
}

// Of SVG and MathML the page lets nothing through, and it names the attributes that it does let through: without the lists of what is
// known of these, DOMPurify takes them out as things that it does not know.
const LISTS = ["svg$1", "svgFilters", "svgDisallowed", "mathMl$1", "mathMlDisallowed", "html", "svg", "mathMl", "xml"];

// What the page never asks of it: then nothing else is done.
const FLAGS = ["SAFE_FOR_TEMPLATES", "WHOLE_DOCUMENT", "FORCE_BODY", "RETURN_TRUSTED_TYPE", "SANITIZE_NAMED_PROPS", "IN_PLACE"];

export function leanPurify(code: string): string {
  const less = LISTS.reduce(
    (rest, name) => without(rest, new RegExp(`const ${name.replace("$", "\\$")} = freeze\\(\\[[^\\]]*\\]\\);`), `const ${name} = freeze([]);`),
    code,
  );
  return FLAGS.reduce((rest, name) => {
    const set = without(without(rest, new RegExp(`let ${name} = false;`), ""), new RegExp(`${name} = cfg\\.${name} \\|\\| false;`), "");
    return set.replaceAll(new RegExp(`(?<![.\\w])${name}\\b`, "g"), "false");
  }, less);
}

/** What nothing names but its own declaration is left out, and what only that named. All of it must be there for its value alone. */
function withoutUnused(code: string): string {
  const all = parsed(code);
  const names = new Map<string, number>();
  for (const { type, name } of nodesOf(all)) if (type === "Identifier") names.set(name as string, (names.get(name as string) ?? 0) + 1);
  const isUnused = ({ id }: Node) => names.get((id as Node)["name"] as string) === 1;
  const found = (all["body"] as Node[]).filter(({ type, declarations }) => type === "VariableDeclaration" && (declarations as Node[]).some(isUnused));
  if (found.length === 0) return code;
  const less = found.reduceRight((rest, each) => {
    const kept = (each["declarations"] as Node[]).filter((one) => !isUnused(one)).map(({ start, end }) => code.slice(start, end));
    return replaced(rest, each, kept.length === 0 ? "" : `${each["kind"]} ${kept.join(",")};`);
  }, code);
  return withoutUnused(less);
}

// The page has no options, and those are what these are without.
const OPTIONS = { pedantic: "!1", breaks: "!1", silent: "!1", gfm: "!0", extensions: "(void 0)", hooks: "(void 0)" };

/** marked without the instance that has extensions and options, and without what these choose: the page has neither. */
export function leanMarked(code: string): string {
  const [, lexer] = /(\w+) as Lexer\b/.exec(code) ?? [];
  const [, parser] = /(\w+) as Parser\b/.exec(code) ?? [];
  const [, renderer] = /(\w+) as Renderer\b/.exec(code) ?? [];
  let less = without(code, /var \w+=class\{options;block;.*$/s, `export{${lexer} as Lexer,${parser} as Parser,${renderer} as Renderer};`);
  for (const [name, value] of Object.entries(OPTIONS)) {
    less = without(less, new RegExp(`this\\.options\\.${name}\\b`), value).replaceAll(new RegExp(`this\\.options\\.${name}\\b`, "g"), value);
  }
  less = without(less, /static get rules\(\)\{[^}]*\}\}/, "");
  less = without(less, /(!1)\?\(\w+\.block=\w+\.pedantic,\w+\.inline=\w+\.pedantic\):/, "");
  less = without(less, /(!1)\?(\w+\.inline=)\w+\.breaks:/, "");
  less = without(less, /,pedantic:\w+\}/, "}");
  return withoutUnused(without(less, /,breaks:\w+,pedantic:\w+\}/, "}"));
}

/** The sources of the console by their paths. */
function sourcesOf(folder: string): Map<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  return new Map(files.map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name), "utf8")]));
}

export function lean(folder: string): Plugin {
  const sources = sourcesOf(folder);
  const texts = leanTexts(sources);
  return {
    name: "lean",
    enforce: "pre",
    apply: "build",
    transform(code, id) {
      let less = texts.get(id);
      if (less !== undefined && code !== sources.get(id)) throw new Error(`${id} is not what was read before.`);
      if (/\/dompurify\/.*\.mjs$/.test(id)) less = leanPurify(code);
      else if (/\/marked\/.*\.js$/.test(id)) less = leanMarked(code);
      return less === undefined ? null : { code: less, map: null };
    },
  };
}
