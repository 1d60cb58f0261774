// What a call is given, whole: by name, commands word by word, and long texts in a box.
import { wordsOf } from "../parts/diff";
import { Excerpt } from "../parts/excerpt";
import { hasLongNumber } from "../parts/fields";
import { argumentRows, shown } from "../parts/text";
import type { Binding } from "../protocol";
import { numbered, words } from "../store/settings";
import { Command } from "./preview";

export function Arguments({ json }: { json: string }) {
  const rows = hasLongNumber(json) ? null : argumentRows(json);
  if (rows === null) return <Long text={json} />;
  if (rows.length === 0) return <p class="empty">{words.value.noArguments}</p>;
  return (
    <dl class="arguments">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{shown(name)}</dt>
          <dd>{commandOf(name, json) === null ? <Long text={value} isMeasured /> : <Command words={commandOf(name, json)!} />}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The words of an argument that is a list of words, or the line of a shell; `null` for all others. */
function commandOf(name: string, json: string): readonly string[] | null {
  const value = (JSON.parse(json) as Record<string, unknown>)[name];
  if (typeof value === "string") return name === "command" ? wordsOf(value) : null;
  return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === "string") ? value : null;
}

/** More than this is seldom in sight at once. */
const LONG_CHARS = 1000;
const LONG_LINES = 15;

/** A text in a box that scrolls; of a very long one its beginning, with how long it is, as where it is measured. */
export function Long({ text, isMeasured = false }: { text: string; isMeasured?: boolean }) {
  const lines = text.split("\n").length;
  return (
    <>
      <Excerpt text={text}>
        {(part) => (
          <pre class="long" tabIndex={0}>
            {shown(part)}
          </pre>
        )}
      </Excerpt>
      {isMeasured && (text.length > LONG_CHARS || lines > LONG_LINES) && <p class="under">{words.value.show.size(numbered(lines), numbered(text.length))}</p>}
    </>
  );
}

/** Which calls a remembered answer is about: paths or hosts where they say it, and what else must be the same. */
export function Covered({ paths = {}, hosts = {}, arguments: json, free = [] }: Binding) {
  const places = [...Object.values(paths), ...Object.values(hosts)];
  const all = places.length > 0 && json === "{}" ? places : [...places, json];
  return (
    <>
      {all.map((each) => (
        <code key={each}>{shown(each)} </code>
      ))}
      {free.length > 0 && words.value.ask.mayDiffer(shown(free.join(", ")))}
      {Object.values(paths).some((each) => /[*?[{]/.test(each)) && (
        <>
          {" "}
          <span class="mark is-warn">{words.value.ask.wider}</span>
        </>
      )}
    </>
  );
}
