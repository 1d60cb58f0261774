// What was refused, and at which field of a form.
import { CallError } from "../link";
import { textOf } from "../store/problem";

/** A field that the page itself finds wrong, said in the language of the person: throw it in what a form sends. */
export class FieldError extends CallError {
  constructor(field: string, text: string) {
    super(text, "", field);
  }
}

/** What the server says of a form, and at which of its fields: of `tools[0].name` that is `tools`. */
export function refusal(error: unknown, fields: readonly string[]): { field: string | null; text: string } {
  const text = textOf(error);
  const named = error instanceof CallError ? error.field : null;
  if (named === null) return { field: null, text };
  const parts = named.split(/[.[\]]+/).filter((each) => each !== "");
  const found = fields.find((each) => each === named) ?? parts.findLast((each) => fields.includes(each)) ?? null;
  return { field: found, text };
}
