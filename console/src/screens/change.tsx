// A call changed before it is allowed: what is written is judged again at each pause, and only what was judged goes out.
import { useEffect, useState } from "preact/hooks";
import { CallError, type Methods } from "../link";
import { argumentsOf, jsonOf, type Argument } from "../parts/fields";
import { shown } from "../parts/text";
import { link, type ApprovalRow } from "../store/app";
import { textOf } from "../store/problem";
import { words } from "../store/settings";

export type Judged = Methods["approval/get"]["result"];

const PAUSE_MS = 300;
const MAX_ROWS = 14;

interface ChangeProps {
  row: ApprovalRow;
  /** What the server says of the changed call; `null` while it is asked. */
  judge(its: { json: string; request: Judged } | null): void;
}

export function Change({ row, judge }: ChangeProps) {
  const its = words.value.change;
  const [parts, setParts] = useState<readonly Argument[] | null>(() => argumentsOf(row.arguments));
  const [whole, setWhole] = useState(row.arguments);
  const [problem, setProblem] = useState<{ field: string; text: string } | null>(null);
  const made = parts === null ? { json: whole } : jsonOf(parts);
  const json = "json" in made ? made.json : null;
  const wrong = "wrong" in made ? made.wrong : null;

  useEffect(() => {
    setProblem(wrong === null ? null : { field: wrong, text: its.noJson });
    if (json === null) return;
    let isOver = false;
    const timer = setTimeout(() => {
      link.request("approval/get", { approval_id: row.approval_id, arguments: json }).then(
        (request) => !isOver && judge({ json, request }),
        (error: unknown) => {
          if (isOver) return;
          const field = error instanceof CallError ? (error.field ?? "") : "";
          setProblem({ field: field.replace(/^arguments\.?/, ""), text: textOf(error) });
        },
      );
    }, PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [json, wrong]);

  // What is wrong within an argument stands at it.
  const at = parts?.findIndex(({ name }) => problem !== null && `${problem.field}.`.replace("[", ".").startsWith(`${name}.`)) ?? -1;
  // At once, and not with the next drawing: what was judged is not what is written any more.
  const change = (place: number, text: string) => {
    judge(null);
    setParts((parts ?? []).map((each, one) => (one === place ? { ...each, text } : each)));
  };
  const changeAll = (text: string) => {
    judge(null);
    setWhole(text);
  };
  return (
    <div class="fields">
      {parts === null ? (
        <Text name={words.value.arguments} isText={false} text={whole} write={changeAll} problem="" />
      ) : (
        parts.map((each, place) => (
          <Text
            key={each.name}
            name={shown(each.name)}
            isText={each.isText}
            text={each.text}
            write={(text) => change(place, text)}
            problem={place === at ? (problem?.text ?? "") : ""}
          />
        ))
      )}
      {problem !== null && at < 0 && (
        <p class="problem" role="alert">
          {shown(problem.text)}
        </p>
      )}
    </div>
  );
}

interface TextProps {
  name: string;
  isText: boolean;
  text: string;
  problem: string;
  write(text: string): void;
}

function Text({ name, isText, text, problem, write }: TextProps) {
  return (
    <div class="field">
      <label>
        <span>
          <code>{name}</code>
          {!isText && <small> JSON</small>}
        </span>
        <textarea
          class="mono"
          spellcheck={false}
          rows={Math.min(MAX_ROWS, text.split("\n").length)}
          aria-invalid={problem !== ""}
          value={text}
          onInput={(event) => write(event.currentTarget.value)}
        />
      </label>
      {problem !== "" && (
        <p class="problem" role="alert">
          {shown(problem)}
        </p>
      )}
    </div>
  );
}
