// Texts without their names: `{ save: "Save" }` is `["Save"]`, and `its.value.save` is `its.value[0]`. It is done where each use of a
// text stands in the sources by name. What is used in another way, as by a name that the daemon says, keeps its names; what can't be
// followed fails the build.
import { parseAst } from "vite";

export interface Node {
  type: string;
  start: number;
  end: number;
  [field: string]: unknown;
}
/** The texts that stand together in one object, by their names. */
type Texts = Map<string, Node>;
/** What a name in the sources means: the signal of texts, or a part of its texts. `null` is any other thing. */
type Meaning = { signal: Node } | { texts: Node } | null;
type Scope = Map<string, Meaning>;
interface Step {
  of: Node;
  start: number;
  end: number;
  place: number;
}

export const parsed = (code: string, lang: "ts" | "tsx" = "ts"): Node => parseAst(code, { lang }) as unknown as Node;

function* childrenOf(value: unknown): Generator<Node> {
  if (typeof value !== "object" || value === null) return;
  for (const each of Object.values(value)) {
    if (Array.isArray(each)) yield* each.filter((one): one is Node => typeof one?.type === "string");
    else if (typeof (each as Node | null)?.type === "string") yield each as Node;
  }
}

export function* nodesOf(node: Node): Generator<Node> {
  yield node;
  for (const each of childrenOf(node)) yield* nodesOf(each);
}

const PASSED = ["TSAsExpression", "TSSatisfiesExpression", "TSNonNullExpression", "ParenthesizedExpression"];
const bare = (node: Node): Node => (PASSED.includes(node.type) ? bare(node["expression"] as Node) : node);

/** The texts of `{…}`, also of `{…} as T`; `null` of anything else, and of what has numbers for names, which have an order of their own. */
export function textsOf(node: Node): Texts | null {
  const properties = bare(node).type === "ObjectExpression" ? (bare(node)["properties"] as Node[]) : null;
  if (properties === null || properties.some(({ type }) => type !== "Property")) return null;
  const found = new Map(properties.map(({ key, value }) => [String((key as Node)["name"] ?? (key as Node)["value"]), value as Node]));
  return [...found.keys()].some((name) => /^\d+$/.test(name)) ? null : found;
}

const BLOCKS = ["Program", "BlockStatement", "StaticBlock", "SwitchStatement", "ForStatement", "ForOfStatement", "ForInStatement", "CatchClause"];
const FUNCTIONS = ["ArrowFunctionExpression", "FunctionExpression", "FunctionDeclaration"];

/** The names that a pattern binds, as of a parameter or of `const { a, b } = …`. */
function* boundBy(pattern: Node | null | undefined): Generator<string> {
  if (pattern == null) return;
  if (pattern.type === "Identifier") yield pattern["name"] as string;
  else if (pattern.type === "AssignmentPattern") yield* boundBy(pattern["left"] as Node);
  else if (pattern.type === "Property") yield* boundBy(pattern["value"] as Node);
  else for (const each of childrenOf(pattern)) if (!each.type.startsWith("TS")) yield* boundBy(each);
}

/** Where texts are used in the sources, and which of them must keep their names. */
export class Uses {
  readonly #steps = new Map<string, Step[]>();
  readonly #named = new Set<Node>();

  /** Read a source; `imported` gives the texts of an imported name, if it has some. */
  read(path: string, code: string, imported: (from: string, name: string) => Node | null): void {
    const program = parsed(code, path.endsWith("x") ? "tsx" : "ts");
    const scope: Scope = new Map();
    for (const each of program["body"] as Node[]) {
      const from = (each["source"] as Node | null | undefined)?.["value"] as string | undefined;
      if (from === undefined) continue;
      for (const one of (each["specifiers"] as Node[] | undefined) ?? [each]) {
        const isNamed = one.type === "ImportSpecifier";
        const texts = imported(from, isNamed ? ((one["imported"] as Node)["name"] as string) : "*");
        if (!isNamed && texts !== null) throw new Error(`${path}: import texts by name; nobody follows them through ${code.slice(each.start, each.end)}`);
        if (isNamed) scope.set((one["local"] as Node)["name"] as string, texts === null ? null : { signal: texts });
      }
    }
    const steps: Step[] = [];
    this.#steps.set(path, steps);
    this.#walk(program, [scope], steps);
  }

  /** Whether these texts keep their names. */
  isNamed(texts: Node): boolean {
    return this.#named.has(bare(texts));
  }

  /** A source that takes texts by their places. */
  rewritten(path: string, code: string): string {
    const steps = (this.#steps.get(path) ?? []).filter(({ of }) => !this.isNamed(of)).sort((one, other) => other.start - one.start);
    return steps.reduce((rest, { start, end, place }) => `${rest.slice(0, rest.lastIndexOf(".", start))}[${place}]${rest.slice(end)}`, code);
  }

  #keep(texts: Node): void {
    this.#named.add(bare(texts));
    for (const each of textsOf(texts)?.values() ?? []) this.#keep(each);
  }

  /** What a chain as `its.value.states` means; its steps are noted in `steps`. */
  #meaning(node: Node, scopes: readonly Scope[], steps: Step[]): Meaning {
    const at = bare(node);
    if (at.type === "Identifier") return scopes.findLast((each) => each.has(at["name"] as string))?.get(at["name"] as string) ?? null;
    const isPeek = at.type === "CallExpression";
    const member = isPeek ? (at["callee"] as Node) : at;
    if (member.type !== "MemberExpression" || member["computed"] === true || member["optional"] === true) return null;
    const whole = this.#meaning(member["object"] as Node, scopes, steps);
    if (whole === null) return null;
    const name = (member["property"] as Node)["name"] as string;
    if ("signal" in whole) return name === (isPeek ? "peek" : "value") ? { texts: whole.signal } : null;
    const all = textsOf(whole.texts);
    if (all === null || isPeek) return null;
    const place = [...all.keys()].indexOf(name);
    if (place < 0) throw new Error(`There is no text ${name}.`);
    steps.push({ of: whole.texts, start: (member["property"] as Node).start, end: member.end, place });
    return { texts: all.get(name)! };
  }

  /** The names that a block declares. Those of `const its = words.value` mean texts, in all of the block. */
  #declared(nodes: readonly Node[], scopes: readonly Scope[], aliases: Set<Node>, steps: Step[]): Scope {
    const scope: Scope = new Map();
    const statements = nodes.map((each) => (each.type === "ExportNamedDeclaration" && each["declaration"] !== null ? (each["declaration"] as Node) : each));
    for (const each of statements) {
      if (each.type === "VariableDeclaration") for (const one of each["declarations"] as Node[]) for (const name of boundBy(one["id"] as Node)) scope.set(name, null);
      else if (each.type === "FunctionDeclaration" || each.type === "ClassDeclaration") scope.set((each["id"] as Node)["name"] as string, null);
    }
    for (const each of nodes) {
      if (each.type !== "VariableDeclaration" || each["kind"] !== "const") continue;
      for (const one of each["declarations"] as Node[]) {
        const [id, init] = [one["id"] as Node, one["init"] as Node | null];
        if (id.type !== "Identifier" || init === null) continue;
        const taken: Step[] = [];
        const meaning = this.#meaning(init, [...scopes, scope], taken);
        if (meaning === null || (!("signal" in meaning) && textsOf(meaning.texts) === null)) continue;
        scope.set(id["name"] as string, meaning);
        aliases.add(one);
        steps.push(...taken);
      }
    }
    return scope;
  }

  #walk(node: Node, scopes: readonly Scope[], steps: Step[], aliases = new Set<Node>()): void {
    if (node.type.startsWith("TS") && !PASSED.includes(node.type)) return;
    if (node.type === "ImportDeclaration" || aliases.has(node)) return;
    const taken: Step[] = [];
    const meaning = this.#meaning(node, scopes, taken);
    if (meaning !== null) {
      // The end of a chain: a text, or texts that go on to where nobody follows them.
      steps.push(...taken);
      this.#keep("signal" in meaning ? meaning.signal : meaning.texts);
      return;
    }
    let inner = scopes;
    if (FUNCTIONS.includes(node.type)) {
      const names = [...(node["params"] as Node[]).flatMap((each) => [...boundBy(each)]), ...boundBy(node["id"] as Node | null | undefined)];
      inner = [...scopes, new Map(names.map((name) => [name, null]))];
    } else if (BLOCKS.includes(node.type)) {
      const own = node.type === "SwitchStatement" ? (node["cases"] as Node[]).flatMap((each) => each["consequent"] as Node[]) : [...childrenOf(node)];
      const caught = node.type === "CatchClause" ? [...boundBy(node["param"] as Node | null)] : [];
      const scope = this.#declared(own, scopes, aliases, steps);
      for (const name of caught) scope.set(name, null);
      // Imports are in the first scope, and nothing else at the top of a file has their names.
      inner = [...scopes, scope];
    }
    for (const each of childrenOf(node)) {
      // A name behind a dot, or before a colon, is no variable.
      const isName = (node.type === "MemberExpression" && each === node["property"]) || (node.type === "Property" && each === node["key"] && node["shorthand"] !== true);
      if (!isName || node["computed"] === true) this.#walk(each, inner, steps, aliases);
    }
  }
}
