// What went wrong, as a person reads it: the sentences of the server are English, so that elsewhere the kind of the error stands before them.
import { CallError } from "../link";
import { words } from "./settings";

export function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return error instanceof CallError ? words.peek().errorKind(error.type) + text : text;
}
