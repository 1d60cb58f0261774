// A call changed before it is allowed: a form from the schema of its tool. What is written is judged again at each pause, and only what was judged goes out.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { CallError, type Methods } from "../link";
import { argumentsOf, jsonOf, linesOf, type Argument } from "../parts/fields";
import { Field, type FieldAttributes } from "../parts/form";
import { Icon } from "../parts/icon";
import { oneLine, parametersOf, written } from "../parts/parameters";
import { shown } from "../parts/text";
import { link, type ApprovalRow } from "../store/app";
import { textOf } from "../store/problem";
import { words } from "../store/settings";

export type Judged = Methods["approval/get"]["result"];

const PAUSE_MS = 300;
const MAX_ROWS = 14;
/** Characters of what an argument is when it is left out. */
const MAX_USUAL = 80;

interface ChangeProps {
  row: ApprovalRow;
  /** The schema of the tool's arguments; `null` if there is none. */
  schema: unknown;
  /** What the server says of the changed call; `null` while it is asked, and as long as something is wrong. */
  judge(its: { json: string; request: Judged } | null, isWrong?: boolean): void;
  /** What stands below has moved. */
  moved(): void;
}

export function Change({ row, schema, judge, moved }: ChangeProps) {
  const its = words.value.change;
  const [parts, setParts] = useState<readonly Argument[] | null>(() => argumentsOf(row.arguments, parametersOf(schema)));
  const [whole, setWhole] = useState(row.arguments);
  const [problem, setProblem] = useState<Refused | null>(null);
  const made = useMemo(() => (parts === null ? { json: whole } : jsonOf(parts)), [parts, whole]);

  useEffect(() => {
    setProblem(null);
    let isOver = false;
    const refuse = (field: string, text: string) => {
      setProblem({ field, text });
      judge(null, true);
    };
    const timer = setTimeout(() => {
      if ("wrong" in made) {
        const { name, kind, bound } = made.wrong;
        refuse(name, kind === "json" ? its.noJson : words.peek().question.problems[kind](bound));
        return;
      }
      const { json } = made;
      link.request("approval/get", { approval_id: row.approval_id, arguments: json }).then(
        (request) => !isOver && judge({ json, request }),
        (error: unknown) => {
          if (isOver) return;
          const field = error instanceof CallError ? (error.field ?? "") : "";
          refuse(field.replace(/^arguments\.?/, ""), textOf(error));
        },
      );
    }, PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [made]);

  // At once, and not with the next drawing: what was judged is not what is written any more.
  const changeAll = (text: string) => {
    judge(null);
    setWhole(text);
  };
  if (parts !== null) {
    return (
      <Parts
        parts={parts}
        problem={problem}
        write={(all) => {
          judge(null);
          setParts(all);
        }}
        moved={moved}
      />
    );
  }
  return (
    <div class="fields">
      <Field label={words.value.arguments} problem={problem?.text ?? ""}>
        {(attributes) => <Long attributes={attributes} text={whole} write={changeAll} />}
      </Field>
    </div>
  );
}

interface Refused {
  field: string;
  text: string;
}

interface PartsProps {
  parts: readonly Argument[];
  problem: Refused | null;
  write(parts: readonly Argument[]): void;
  moved(): void;
}

/** The fields of a call, or those of an object within it. */
function Parts({ parts, problem, write, moved }: PartsProps) {
  const its = words.value.change;
  const form = useRef<HTMLDivElement>(null);
  /** What gets the focus when it is drawn. */
  const next = useRef("");
  useLayoutEffect(() => {
    if (next.current !== "") form.current?.querySelector<HTMLElement>(`:scope > ${next.current}`)?.focus();
    next.current = "";
  });

  // What is wrong within an argument stands at it.
  const isAt = ({ name, isAbsent }: Argument) => problem !== null && !isAbsent && `${problem.field}.`.replace("[", ".").startsWith(`${name}.`);
  const at = parts.findIndex(isAt);
  const change = (place: number, its: Partial<Argument>) => write(parts.map((each, one) => (one === place ? { ...each, ...its } : each)));
  const put = (place: number, isAbsent: boolean) => {
    next.current = isAbsent ? `* > [data-add="${place}"]` : `[data-argument="${place}"] :is(input, select, textarea)`;
    change(place, { isAbsent });
    moved();
  };
  return (
    <div class="fields" ref={form}>
      {parts.map((each, place) =>
        each.isAbsent ? null : (
          <div key={each.name} data-argument={place}>
            <One
              argument={each}
              problem={place === at ? problem : null}
              write={(its) => change(place, its)}
              leaveOut={() => put(place, true)}
              moved={moved}
            />
          </div>
        ),
      )}
      {parts.some(({ isAbsent }) => isAbsent) && (
        <div class="left-out" role="group" aria-label={its.leftOut}>
          <span class="under">{its.leftOut}</span>
          {parts.map((each, place) =>
            !each.isAbsent ? null : (
              <button key={each.name} type="button" class="small" data-add={place} aria-label={its.add(shown(each.name))} onClick={() => put(place, false)}>
                <Icon name="plus" />
                <code>{shown(each.name)}</code>
              </button>
            ),
          )}
        </div>
      )}
      {problem !== null && at < 0 && (
        <p class="problem" role="alert">
          {shown(problem.text)}
        </p>
      )}
    </div>
  );
}

interface OneProps {
  argument: Argument;
  problem: Refused | null;
  write(its: Partial<Argument>): void;
  leaveOut(): void;
  moved(): void;
}

function One({ argument, problem, write: change, leaveOut, moved }: OneProps) {
  const { name, text, inner, parameter, shape } = argument;
  const kind = shape.kind === "list" && shape.options.length > 0 ? "choices" : shape.kind;
  const chosen = linesOf(text);
  const write = (text: string) => change({ text });
  const its = words.value.change;
  const { least, most } = words.value.question.problems;
  const usual = parameter?.usual === undefined ? "" : oneLine(written(parameter.usual).text, MAX_USUAL);
  const hint = [
    shown(parameter?.description ?? ""),
    shape.least === null ? "" : least(shape.least),
    shape.most === null ? "" : most(shape.most),
    usual === "" ? "" : its.usual(shown(usual)),
    kind === "list" ? its.lines : "",
  ].filter((each) => each !== "");
  return (
    <Field
      label={
        <>
          <code>{shown(name)}</code>
          {kind === "json" && <small> JSON</small>}
        </>
      }
      isRequired={parameter?.isRequired ?? false}
      {...(hint.length > 0 ? { hint: hint.join(" ") } : {})}
      problem={kind === "group" ? "" : (problem?.text ?? "")}
      {...(parameter === null || parameter.isRequired
        ? {}
        : {
            beside: (
              <button type="button" class="quiet small" aria-label={its.leaveOutThis(shown(name))} onClick={leaveOut}>
                {its.leaveOut}
              </button>
            ),
          })}
    >
      {(attributes) => {
        switch (kind) {
          case "yes_no":
            return (
              <div class="check">
                <input type="checkbox" {...attributes} checked={text.trim() === "true"} onChange={(event) => write(String(event.currentTarget.checked))} />
                <code aria-hidden="true">{text}</code>
              </div>
            );
          case "choice":
            return (
              <select {...attributes} value={text} onChange={(event) => write(event.currentTarget.value)}>
                {shape.options.map((each) => (
                  <option key={each} value={each}>
                    {shown(each)}
                  </option>
                ))}
              </select>
            );
          case "number":
          case "integer":
            return (
              <input
                type="text"
                class="mono"
                inputMode={shape.least === null || shape.least < 0 ? "text" : kind === "integer" ? "numeric" : "decimal"}
                autocomplete="off"
                placeholder={usual}
                {...attributes}
                value={text}
                onInput={(event) => write(event.currentTarget.value)}
              />
            );
          case "group":
            return (
              <div role="group" aria-label={shown(name)}>
                <Parts parts={inner} problem={problem && { ...problem, field: problem.field.slice(name.length + 1) }} write={(all) => change({ inner: all })} moved={moved} />
              </div>
            );
          case "choices":
            return (
              <div role="group" aria-label={shown(name)}>
                {shape.options.map((each) => (
                  <label key={each} class="check">
                    <input
                      type="checkbox"
                      checked={chosen.includes(each)}
                      onChange={(event) => write((event.currentTarget.checked ? [...chosen, each] : chosen.filter((other) => other !== each)).join("\n"))}
                    />
                    {shown(each)}
                  </label>
                ))}
              </div>
            );
          default:
            return <Long attributes={attributes} text={text} write={write} />;
        }
      }}
    </Field>
  );
}

function Long({ attributes, text, write }: { attributes: FieldAttributes; text: string; write(text: string): void }) {
  return (
    <textarea
      class="mono"
      spellcheck={false}
      rows={Math.min(MAX_ROWS, text.split("\n").length)}
      {...attributes}
      value={text}
      onInput={(event) => write(event.currentTarget.value)}
    />
  );
}
