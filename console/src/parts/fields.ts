// The values of forms: of a server's question, and of a call's arguments. What can't be said is refused with its field.

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

/** An argument of a call as somebody changes it: texts as they are, everything else as JSON. */
export interface Argument {
  name: string;
  isText: boolean;
  text: string;
}

/** A number that would be another one when it is read and written here. */
const LONG_NUMBER = /\d{16}|\d[eE.][\d+-]/;

const withoutTexts = (json: string): string => json.replace(/"(?:[^"\\]|\\.)*"/g, "");

/** Whether a number of a JSON would be shown as another one. */
export const hasLongNumber = (json: string): boolean => /\d{16}|\d[eE]/.test(withoutTexts(json));

/** The arguments of a call to be changed; `null` if they are changed as one text, for they are no object or have long numbers. */
export function argumentsOf(json: string): Argument[] | null {
  if (LONG_NUMBER.test(withoutTexts(json))) return null;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  return Object.entries(value).map(([name, each]) => {
    const isText = typeof each === "string";
    return { name, isText, text: isText ? each : JSON.stringify(each, null, 2) };
  });
}

/** The JSON of changed arguments, or the name of the one that is none. */
export function jsonOf(all: readonly Argument[]): { json: string } | { wrong: string } {
  const members: string[] = [];
  for (const { name, isText, text } of all) {
    if (!isText) {
      try {
        JSON.parse(text);
      } catch {
        return { wrong: name };
      }
    }
    // As it was written: a number is not read and written again.
    members.push(`${JSON.stringify(name)}:${isText ? JSON.stringify(text) : text.trim()}`);
  }
  return { json: `{${members.join(",")}}` };
}
