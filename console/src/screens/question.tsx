// A question of a model, or a form of a tool's server: answered where it was asked, or where all that waits is listed.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Question } from "../fold/session";
import { askToOpen } from "../parts/dialog";
import { answerOf, begun, type Problem } from "../parts/fields";
import { useDraft } from "../parts/form";
import { shown } from "../parts/text";
import * as app from "../store/app";
import { textOf } from "../store/problem";
import { words } from "../store/settings";
import { From } from "./ask";

type Form = NonNullable<Question["form"]>;
type FormField = NonNullable<Form["fields"]>[number];
type Answer = { text?: string; option?: number };

const KEYS = { integer: "numeric", number: "decimal", email: "email", uri: "url" } as const;

export function Asked({ question, isHere = true }: { question: Question; isHere?: boolean }) {
  const its = words.value.question;
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const title = `question-${question.question_id}`;
  const options = question.options ?? [];
  const form = question.form ?? null;
  const answer = (params: Answer) => {
    if (isBusy) return;
    setBusy(true);
    setProblem("");
    app
      .answer({ question_id: question.question_id, ...params })
      .catch((error: unknown) => setProblem(textOf(error)))
      .finally(() => setBusy(false));
  };
  const buttons = options.map((each, at) => (
    <button key={at} type="button" disabled={isBusy} onClick={() => answer({ option: at })}>
      {its.known[each] ?? shown(each)}
    </button>
  ));
  const url = form?.url ?? "";
  const fields = form?.fields ?? [];
  return (
    <section class="ask question" aria-labelledby={title} tabIndex={-1}>
      <h3 id={title}>{its.title}</h3>
      {!isHere && <From id={question.session_id} isHere={false} />}
      <p class="quoted">{shown(question.question)}</p>
      {!app.may("question/answer") ? (
        <p class="empty">{words.value.ask.notYours}</p>
      ) : url !== "" ? (
        <div class="buttons">
          <button type="button" class="primary" onClick={() => askToOpen(url)}>
            {its.open}
          </button>
          {buttons}
        </div>
      ) : form !== null ? (
        <Fields id={question.question_id} fields={fields} isBusy={isBusy} answer={(text) => answer({ text })} others={buttons} />
      ) : (
        <Free id={question.question_id} answer={(text) => answer({ text })} isBusy={isBusy} others={buttons} />
      )}
      {problem !== "" && (
        <p class="problem" role="alert">
          {shown(problem)}
        </p>
      )}
    </section>
  );
}

interface PartProps {
  /** Of the question: what is written is kept until it is answered. */
  id: string;
  isBusy: boolean;
  answer(text: string): void;
  others: ComponentChildren;
}

function Free({ id, answer, isBusy, others }: PartProps) {
  const its = words.value.question;
  const { value, set } = useDraft(app.ANSWER + id, { text: "" });
  const { text } = value;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim() !== "") answer(text);
      }}
    >
      <div class="buttons">{others}</div>
      <div class="line">
        <input type="text" aria-label={its.answer} value={text} onInput={(event) => set({ text: event.currentTarget.value })} />
        <button type="submit" class="primary" disabled={isBusy || text.trim() === ""}>
          {its.answer}
        </button>
      </div>
    </form>
  );
}

function Fields({ id, fields, answer, isBusy, others }: PartProps & { fields: readonly FormField[] }) {
  const its = words.value.question;
  const { value: filled, set: fill } = useDraft(app.ANSWER + id, begun(fields));
  const [wrong, setWrong] = useState<Problem | null>(null);
  const set = (name: string, value: string | boolean | readonly string[]) => fill({ [name]: value });
  return (
    <form
      class="fields"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        const found = answerOf(fields, filled);
        if ("text" in found) {
          setWrong(null);
          answer(found.text);
          return;
        }
        setWrong(found);
        const at = fields.findIndex((each) => each.name === found.name);
        event.currentTarget.querySelector<HTMLElement>(`[data-field="${at}"] :is(input, select)`)?.focus();
      }}
    >
      {fields.map((field, at) => {
        const name = shown(field.title || field.name) + (field.required ? " *" : "");
        const problem = wrong?.name === field.name ? its.problems[wrong.kind](wrong.kind === "least" ? (field.least ?? 0) : (field.most ?? 0)) : "";
        const value = filled[field.name];
        return (
          <div key={field.name} class="field" data-field={at}>
            {field.kind === "choices" ? (
              <fieldset>
                <legend>{name}</legend>
                {(field.options ?? []).map((each, one) => {
                  const chosen = Array.isArray(value) ? (value as readonly string[]) : [];
                  return (
                    <label key={each} class="check">
                      <input
                        type="checkbox"
                        checked={chosen.includes(each)}
                        onChange={(event) =>
                          set(field.name, event.currentTarget.checked ? [...chosen, each] : chosen.filter((other) => other !== each))
                        }
                      />
                      {shown(field.labels?.[one] ?? each)}
                    </label>
                  );
                })}
              </fieldset>
            ) : field.kind === "yes_no" ? (
              <label class="check">
                <input type="checkbox" checked={value === true} onChange={(event) => set(field.name, event.currentTarget.checked)} />
                {name}
              </label>
            ) : (
              <label>
                <span>{name}</span>
                {field.kind === "choice" ? (
                  <select value={String(value ?? "")} onChange={(event) => set(field.name, event.currentTarget.value)}>
                    <option value="">–</option>
                    {(field.options ?? []).map((each, one) => (
                      <option key={each} value={each}>
                        {shown(field.labels?.[one] ?? each)}
                      </option>
                    ))}
                  </select>
                ) : (
                  <Value field={field} isWrong={problem !== ""} value={String(value ?? "")} write={(text) => set(field.name, text)} />
                )}
              </label>
            )}
            {(field.description ?? "") !== "" && <p class="under">{shown(field.description ?? "")}</p>}
            {problem !== "" && (
              <p class="problem" role="alert">
                {problem}
              </p>
            )}
          </div>
        );
      })}
      <div class="buttons">
        <button type="submit" class="primary" disabled={isBusy}>
          {its.answer}
        </button>
        {others}
      </div>
    </form>
  );
}

function Value({ field, isWrong, value, write }: { field: FormField; isWrong: boolean; value: string; write(text: string): void }) {
  const its = { "aria-invalid": isWrong, value, onInput: (event: { currentTarget: HTMLInputElement }) => write(event.currentTarget.value) };
  if (field.form === "date") return <input type="date" {...its} />;
  const keys = KEYS[(field.form || field.kind) as keyof typeof KEYS] ?? "text";
  return <input type="text" inputMode={keys} {...its} />;
}
