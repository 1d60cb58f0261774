// The value of one setting, as a form has it: what its schema says decides how it is written and read.
import { FieldError } from "../parts/refusal";
import type { SettingRow } from "../protocol";

interface Schema {
  type?: string;
  enum?: readonly (string | null)[];
  anyOf?: readonly Schema[];
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
}

export type Kind = "number" | "integer" | "boolean" | "string";
export interface Shape {
  kind: Kind;
  options: readonly string[];
  least: number | null;
  most: number | null;
  /** Whether it may be nothing. */
  isOptional: boolean;
}

/** How a setting is written: of a choice between a type and nothing, the type. */
export function shapeOf(schema: object): Shape {
  const its = schema as Schema;
  const all = its.anyOf ?? [its];
  const one = all.find((each) => each.type !== "null") ?? {};
  return {
    kind: one.type === "number" || one.type === "integer" || one.type === "boolean" ? one.type : "string",
    options: (one.enum ?? []).filter((each) => each !== null),
    least: one.minimum ?? one.exclusiveMinimum ?? null,
    most: one.maximum ?? null,
    isOptional: all.some((each) => each.type === "null"),
  };
}

/** What is sent for what was written; throws `FieldError` for what is no number. */
export function valueOf(shape: Shape, text: string, notNumber: string): boolean | number | string | null {
  if (shape.kind === "boolean") return text === "true";
  if (shape.kind === "string") return text;
  const number = Number(text);
  if (text.trim() === "" || !Number.isFinite(number) || (shape.kind === "integer" && !Number.isInteger(number))) throw new FieldError("value", notNumber);
  return number;
}

/** Whether it can be set from here: what the operator's own file says wins, and is changed there. */
export const canBeSet = (row: SettingRow): boolean => row.can_be_set === true && row.schema != null && !(row.place ?? "").startsWith("callboard.toml");

/** By their tables, in the order in which the server has them; what is in none stands first. */
export function grouped(rows: readonly SettingRow[]): [string, SettingRow[]][] {
  const found = new Map<string, SettingRow[]>();
  for (const row of rows) {
    const at = row.name.indexOf(".");
    const table = at < 0 ? "" : row.name.slice(0, at);
    found.set(table, [...(found.get(table) ?? []), row]);
  }
  return [...found].sort(([one], [other]) => Number(one !== "") - Number(other !== ""));
}
