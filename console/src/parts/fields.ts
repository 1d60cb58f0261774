// The values of forms: of a server's question, and of a call's arguments. What can't be said is refused with its field.
import { beginning, shapeOf, written, type Parameter, type Shape } from "./parameters";

export interface Field {
  name: string;
  kind?: string;
  required?: boolean;
  options?: readonly string[];
  default?: unknown;
  least?: number | null;
  most?: number | null;
}

/** What somebody filled in: texts, marks, and options of several. */
export type Filled = Readonly<Record<string, string | boolean | readonly string[]>>;
export type Problem = { name: string; kind: "required" | "number" | "least" | "most" };

export function begun(fields: readonly Field[]): Filled {
  const all: Record<string, string | boolean | readonly string[]> = {};
  for (const { name, kind, default: its } of fields) {
    if (kind === "yes_no") all[name] = its === true;
    else if (kind === "choices") all[name] = Array.isArray(its) ? its.map(String) : [];
    else all[name] = its == null ? "" : String(its);
  }
  return all;
}

/** The JSON object of an answer, or what is wrong with it. */
export function answerOf(fields: readonly Field[], filled: Filled): { text: string } | Problem {
  const said: Record<string, unknown> = {};
  for (const { name, kind = "text", required = false, least, most } of fields) {
    const its = filled[name];
    if (kind === "yes_no") {
      said[name] = its === true;
      continue;
    }
    const isNumber = kind === "number" || kind === "integer";
    if (its === undefined || its === "" || (Array.isArray(its) && its.length === 0)) {
      if (required) return { name, kind: "required" };
      continue;
    }
    const number = Number(its);
    if (isNumber && (!Number.isFinite(number) || (kind === "integer" && !Number.isInteger(number)))) return { name, kind: "number" };
    const size = isNumber ? number : typeof its === "string" || Array.isArray(its) ? its.length : 0;
    if (kind !== "choice" && least != null && size < least) return { name, kind: "least" };
    if (kind !== "choice" && most != null && size > most) return { name, kind: "most" };
    said[name] = isNumber ? number : its;
  }
  return { text: JSON.stringify(said) };
}

/** An argument of a call as somebody changes it: texts as they are, lists with a line for each value, everything else as JSON. */
export interface Argument {
  name: string;
  isText: boolean;
  text: string;
  /** The fields of an object that has some. */
  inner: readonly Argument[];
  /** What the tool's schema says of it, if it does. */
  parameter: Parameter | null;
  shape: Shape;
  /** It is left out of the call. */
  isAbsent: boolean;
}

/** What is wrong with an argument; `bound` is what it has to keep. */
export interface Wrong {
  name: string;
  kind: Problem["kind"] | "json";
  bound: number;
}

const withoutTexts = (json: string): string => json.replace(/"(?:[^"\\]|\\.)*"/g, "");

/** Whether a number of a JSON would be shown as another one. */
export const hasLongNumber = (json: string): boolean => /\d{16}|\d[eE]/.test(withoutTexts(json));

/** Whether each number of a JSON is the same when it is read and written here. */
const keepsNumbers = (json: string): boolean => (withoutTexts(json).match(/-?\d[-+.\deE]*/g) ?? []).every((each) => String(Number(each)) === each);

/**
 * The arguments of a call to be changed, and those that it leaves out, in the order of the schema; `null` if they are changed as one text,
 * for they are no object or have numbers that are not kept here.
 */
export function argumentsOf(json: string, parameters: readonly Parameter[] = [], within: "" | "given" | "added" = ""): Argument[] | null {
  if (!keepsNumbers(json)) return null;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const given = new Map(Object.entries(value));
  const known = new Map(parameters.map((each) => [each.name, each]));
  const names = [...parameters.map(({ name }) => name).filter((name) => given.has(name)), ...[...given.keys()].filter((name) => !known.has(name))];
  const absent = parameters.filter(({ name }) => !given.has(name));
  const made = (name: string, { isText, text }: { isText: boolean; text: string }, isAbsent: boolean): Argument => {
    const parameter = known.get(name) ?? null;
    const shape = shapeOf(parameter, isText, text, within !== "");
    const lines = shape.kind === "list" ? (JSON.parse(text) as unknown[]).join("\n") : text;
    return { name, isText, text: lines, inner: (shape.kind === "group" && argumentsOf(text, shape.inner, isAbsent ? "added" : "given")) || [], parameter, shape, isAbsent };
  };
  return [...names.map((name) => made(name, written(given.get(name)), false)), ...absent.map((each) => made(each.name, beginning(each), within !== "added" || !each.isRequired))];
}

/** The JSON of changed arguments, or what is wrong with one. */
export function jsonOf(all: readonly Argument[]): { json: string } | { wrong: Wrong } {
  const members: string[] = [];
  for (const each of all) {
    if (each.isAbsent) continue;
    const found = valueOf(each);
    if ("wrong" in found) return found;
    members.push(`${JSON.stringify(each.name)}:${found.json}`);
  }
  return { json: `{${members.join(",")}}` };
}

/** The values of a list. */
export const linesOf = (text: string): string[] => text.split("\n").filter((each) => each !== "");

function valueOf(argument: Argument): { json: string } | { wrong: Wrong } {
  const { name, isText, text, inner, shape } = argument;
  if (isText) return { json: JSON.stringify(text) };
  if (shape.kind === "list") return { json: shape.isText ? JSON.stringify(linesOf(text)) : `[${linesOf(text).join(",")}]` };
  if (shape.kind === "group") {
    const found = jsonOf(inner);
    return "wrong" in found ? { wrong: { ...found.wrong, name: `${name}.${found.wrong.name}` } } : found;
  }
  const wrong = wrongOf(argument);
  // As it was written: a number is not read and written again.
  return wrong === null ? { json: text.trim() } : { wrong };
}

function wrongOf({ name, text, shape: { kind, least, most } }: Argument): Wrong | null {
  const wrong = (its: Wrong["kind"], bound = 0): Wrong => ({ name, kind: its, bound });
  const isNumber = kind === "number" || kind === "integer";
  if (isNumber && text.trim() === "") return wrong("required");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return wrong(isNumber ? "number" : "json");
  }
  if (!isNumber) return null;
  if (typeof value !== "number" || (kind === "integer" && !Number.isInteger(value))) return wrong("number");
  if (least !== null && value < least) return wrong("least", least);
  return most !== null && value > most ? wrong("most", most) : null;
}
