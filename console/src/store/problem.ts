// What went wrong, as a person reads it: the kind of the error in their language, and the sentence of the server, which is English.
import { CallError } from "../link";
import { words } from "./settings";

export function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (!(error instanceof CallError) || error.type === "") return text;
  const its = words.peek();
  // A later daemon may have kinds of its own: those are said as it calls them.
  return its.errorKind(its.errorKinds[error.type] ?? error.type.replaceAll("_", " ")) + text;
}
