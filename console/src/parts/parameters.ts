// What a tool's schema says of its arguments, as far as a form holds it. Its author may be a stranger: what is odd or huge is left to texts.

type Schema = Readonly<Record<string, unknown>>;

/** An argument that a tool takes. */
export interface Parameter {
  name: string;
  isRequired: boolean;
  description: string;
  /** What it is when it is left out; `undefined` if the schema does not say. */
  usual: unknown;
  /** The schemas of which its value has to fit one; none where they are too many. */
  variants: readonly Schema[];
  /** Where those that are named stand. */
  root: Schema;
}

/** By what an argument is changed; options are texts, or the JSON of numbers. Of a list without options, each line is a text. */
export interface Shape {
  kind: "text" | "choice" | "yes_no" | "number" | "integer" | "list" | "group" | "json";
  /** Whether options, and so the values of a list, are texts. */
  isText: boolean;
  options: readonly string[];
  least: number | null;
  most: number | null;
  /** What an object takes that has fields of its own. */
  inner: readonly Parameter[];
}

const MAX_PARAMETERS = 100;
const MAX_NAME = 100;
const MAX_DESCRIPTION = 400;
const MAX_OPTIONS = 100;
/** Schemas that are looked at for one argument: references may lead in a circle. */
const MAX_STEPS = 50;

const isObject = (value: unknown): value is Schema => typeof value === "object" && value !== null && !Array.isArray(value);
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const boundOf = (value: unknown): number | null => (typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : null);

/** A value as it is written in a form. */
export function written(value: unknown): { isText: boolean; text: string } {
  return typeof value === "string" ? { isText: true, text: value } : { isText: false, text: JSON.stringify(value, null, 2) };
}

/** The arguments that a tool takes, in its order; none where the schema does not say. What an object takes, in the schema of the whole. */
export function parametersOf(schema: unknown, whole = schema): Parameter[] {
  const its = isObject(schema) ? schema : {};
  const root = isObject(whole) ? whole : {};
  const required = new Set(listOf(its.required));
  const all = Object.entries(isObject(its.properties) ? its.properties : {});
  return all.flatMap(([name, its], at) => {
    if (at >= MAX_PARAMETERS || name.length > MAX_NAME) return [];
    const variants = variantsOf(its, root);
    const says = [its, ...(variants.length === 1 ? variants : [])].filter(isObject);
    const description = says.map((each) => each.description).find((each) => typeof each === "string") ?? "";
    return [
      {
        name,
        isRequired: required.has(name),
        description: oneLine(String(description), MAX_DESCRIPTION),
        usual: says.map((each) => each.default).find((each) => each != null),
        variants,
        root,
      },
    ];
  });
}

export function oneLine(text: string, most: number): string {
  const line = text.slice(0, 4 * most).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

function variantsOf(schema: unknown, root: Schema): Schema[] {
  const found: Schema[] = [];
  const todo: unknown[] = [schema];
  for (let step = 0; todo.length > 0; step++) {
    if (step === MAX_STEPS) return [];
    const each = todo.shift();
    if (!isObject(each)) continue;
    const inner = [...listOf(each.anyOf), ...listOf(each.oneOf)];
    const both = listOf(each.allOf);
    if (both.length > 1) return []; // a value has to fit all of them
    if (typeof each.$ref === "string") todo.push(targetOf(each.$ref, root));
    else if (inner.length + both.length > 0) todo.push(...[...inner, ...both].slice(0, MAX_STEPS));
    else for (const type of Array.isArray(each.type) ? each.type : [each.type]) if (type !== "null") found.push({ ...each, type });
  }
  return found;
}

function targetOf(reference: string, root: Schema): unknown {
  const [, group = "", name = ""] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(reference) ?? [];
  const all = root[group];
  return isObject(all) && Object.hasOwn(all, name) ? all[name] : null;
}

/** What may be chosen, if all of it is text, or all of it is numbers. */
function optionsOf({ enum: listed, const: only }: Schema): { isText: boolean; options: string[] } | null {
  const all = only === undefined ? listOf(listed) : [only];
  if (all.length === 0 || all.length > MAX_OPTIONS) return null;
  const [type] = new Set(all.map((each) => typeof each));
  if ((type !== "string" && type !== "number") || all.some((each) => typeof each !== type)) return null;
  return { isText: type === "string", options: [...new Set(all.map((each) => written(each).text))] };
}

/** How a list is changed: by what may be chosen, or as lines; `null` if its values are not of one kind, or would not come out as they are. */
function listShape({ items }: Schema, value: readonly unknown[], root: Schema): Partial<Shape> | null {
  const [item, ...others] = variantsOf(items, root);
  if (item === undefined || others.length > 0) return null;
  const chosen = optionsOf(item);
  const isSame = (each: unknown) => typeof each === "string" === (chosen?.isText ?? true);
  const texts = value.map((each) => written(each).text);
  if (!value.every(isSame)) return null;
  if (chosen !== null) return new Set(texts).size === texts.length && texts.every((each) => chosen.options.includes(each)) ? chosen : null;
  return item.type === "string" && texts.every((each) => /^.+$/.test(each)) ? {} : null;
}

/** How an argument is changed that begins as this text: as its schema says, if it fits that, and else as what it is. */
export function shapeOf(parameter: Parameter | null, isText: boolean, text: string, isInner = false): Shape {
  const shape = (kind: Shape["kind"], more: Partial<Shape> = {}): Shape => ({ kind, isText: true, options: [], least: null, most: null, inner: [], ...more });
  let value: unknown;
  try {
    value = isText ? text : JSON.parse(text);
  } catch {
    // a number that nobody has written yet
  }
  for (const each of parameter?.variants ?? []) {
    const chosen = optionsOf(each);
    if (chosen !== null) {
      if (chosen.isText === isText && chosen.options.includes(text)) return shape("choice", chosen);
      continue;
    }
    if (each.enum !== undefined || isText) continue;
    if (each.type === "boolean" && typeof value === "boolean") return shape("yes_no");
    const isNumber = each.type === "integer" ? text === "" || Number.isInteger(value) : each.type === "number" && (text === "" || typeof value === "number");
    if (isNumber) return shape(each.type as "integer" | "number", { least: boundOf(each.minimum), most: boundOf(each.maximum) });
    const list = each.type === "array" && Array.isArray(value) ? listShape(each, value, parameter!.root) : null;
    if (list !== null) return shape("list", list);
    // One within another is JSON: schemas may lead in a circle.
    const inner = each.type === "object" && isObject(value) && !isInner ? parametersOf(each, parameter!.root) : [];
    if (inner.length > 0) return shape("group", { inner });
  }
  return shape(isText ? "text" : "json");
}

/** With what an argument begins that the call leaves out. */
export function beginning({ usual, variants: [first = {}] }: Parameter): { isText: boolean; text: string } {
  if (usual !== undefined) return written(usual);
  const chosen = optionsOf(first);
  if (chosen !== null) return { isText: chosen.isText, text: chosen.options[0] ?? "" };
  const empty: Record<string, string> = { boolean: "false", integer: "", number: "", array: "[]", object: "{}" };
  const text = Object.hasOwn(empty, String(first.type)) ? empty[String(first.type)] : undefined;
  return { isText: text === undefined, text: text ?? "" };
}
