// Of a long text, its beginning; and all of it when somebody wants that.
import type { ComponentChildren } from "preact";
import { numbered, words } from "../store/settings";
import { useOpened } from "./opened";

const MAX_LINES = 2000;
const MAX_CHARS = 200_000;

/** The first lines of a text, as many as a page draws without a thought. */
export function beginning(text: string): string {
  let end = -1;
  for (let count = 0; count < MAX_LINES; count++) {
    end = text.indexOf("\n", end + 1);
    if (end < 0 || end > MAX_CHARS) return text.slice(0, MAX_CHARS);
  }
  return text.slice(0, end);
}

/** Draw the beginning of a text, with a button for all of it where that is more. */
export function Excerpt({ text, children }: { text: string; children(part: string): ComponentChildren }) {
  const [isWhole, setWhole] = useOpened(`text:${text.length}:${text.slice(0, 64)}`);
  const part = beginning(text);
  const its = words.value.show;
  return (
    <>
      {children(isWhole ? text : part)}
      {part.length < text.length && (
        <button type="button" class="quiet small" onClick={() => setWhole(!isWhole)}>
          {isWhole ? its.less : its.all(numbered(text.split("\n").length), numbered(text.length))}
        </button>
      )}
    </>
  );
}
