// What a call would do, as the server says it: differences side by side where there is room, commands word by word, all else as it is.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { folded, isSign, pairsOf, partsOf, wordsOf, type Line } from "../parts/diff";
import { shown } from "../parts/text";
import { words } from "../store/settings";
import { said } from "../words/said";

const wide = globalThis.matchMedia?.("(min-width: 1100px)");
const isWide = signal(wide?.matches ?? false);
wide?.addEventListener("change", () => (isWide.value = wide.matches));

export function Preview({ text, json }: { text: string; json: string }) {
  const isCommand = hasCommand(json);
  return (
    <div class="preview" tabIndex={0} role="group" aria-label={words.value.ask.preview}>
      {/* What stands above a difference, the server has said. */}
      {partsOf(text.trimEnd()).map((part, at, all) =>
        part.kind === "hunk" ? <Hunk key={at} lines={part.lines} /> : isCommand ? <Said key={at} text={part.text} /> : <pre key={at}>{shown(at > 0 || all.length < 2 ? part.text : part.text.replace(/.*/, said))}</pre>,
      )}
    </div>
  );
}

function hasCommand(json: string): boolean {
  try {
    return "command" in (JSON.parse(json) as object);
  } catch {
    return false;
  }
}

/** A command, with what the server says of it in brackets before and behind. */
function Said({ text }: { text: string }) {
  const [, before = "", command = "", behind = ""] = /^(\(in [^\n]*?\)\s)?([^]*?)((?:\n\([^\n]*\))*)$/.exec(text) ?? [];
  return (
    <>
      {before !== "" && <pre>{shown(before.trim())}</pre>}
      <Command words={wordsOf(command)} />
      {behind !== "" && <pre>{shown(behind.trim())}</pre>}
    </>
  );
}

/** Each word in a box of its own: no two can pass for one, and none for two. */
export function Command({ words: all }: { words: readonly string[] }) {
  return (
    <p class="command">
      {all.map((word, at) => (word === "\n" ? <br key={at} /> : isSign(word) ? <span key={at}> {word} </span> : <code key={at}>{shown(word) || " "}</code>))}
    </p>
  );
}

function Hunk({ lines }: { lines: readonly Line[] }) {
  // What is new, or goes, has nothing beside it.
  const isBeside = isWide.value && lines.some((line) => line.sign === "+") && lines.some((line) => line.sign === "-");
  const rows = isBeside ? pairsOf(lines) : lines.map((line) => [line] as const);
  return (
    <table class={isBeside ? "diff is-wide" : "diff"}>
      {folded<readonly (Line | null)[]>(rows, (row) => row.every((line) => line?.sign === " ")).map((part, at) => (
        <Rows key={at} rows={part.rows} isFolded={part.isFolded} />
      ))}
    </table>
  );
}

function Rows({ rows, isFolded }: { rows: readonly (readonly (Line | null)[])[]; isFolded: boolean }) {
  const [isOpen, setOpen] = useState(!isFolded);
  return (
    <tbody>
      {isOpen ? (
        rows.map((row, at) => (
          <tr key={at}>
            {row.map((line, side) => (
              <Cells key={side} line={line} number={row.length > 1 && side === 0 ? line?.old : line?.now || line?.old} />
            ))}
          </tr>
        ))
      ) : (
        <tr>
          <td colSpan={4}>
            <button type="button" class="quiet small" onClick={() => setOpen(true)}>
              ⋯ {words.value.ask.unchanged(rows.length)}
            </button>
          </td>
        </tr>
      )}
    </tbody>
  );
}

function Cells({ line, number }: { line: Line | null; number: number | undefined }) {
  const kind = line === null ? "none" : line.sign === "+" ? "added" : line.sign === "-" ? "removed" : "";
  return (
    <>
      <td class={`at ${kind}`}>{number || ""}</td>
      <td class={kind}>
        {line !== null && (
          <pre>
            {line.sign}
            {shown(line.text)}
          </pre>
        )}
      </td>
    </>
  );
}
