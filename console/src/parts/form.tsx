// Forms of screens: what is written outlives a reload, and what the server refuses is said at its field.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import * as app from "../store/app";
import { words } from "../store/settings";
import { refusal } from "./refusal";
import { shown } from "./text";

/** What the parts of a field have in common, to be given to its input. */
export interface FieldAttributes {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean;
}

interface FieldProps {
  label: ComponentChildren;
  hint?: ComponentChildren;
  problem?: string | undefined;
  isRequired?: boolean;
  /** What stands beside the label. */
  beside?: ComponentChildren;
  children(attributes: FieldAttributes): ComponentChildren;
}

export function Field({ label, hint, problem = "", isRequired = false, beside, children }: FieldProps) {
  const id = useId();
  const parts = [hint === undefined ? "" : `${id}-hint`, problem === "" ? "" : `${id}-problem`].filter((each) => each !== "");
  const name = (
    <label for={id}>
      {label}
      {isRequired && <span aria-hidden="true"> *</span>}
    </label>
  );
  return (
    <div class="field">
      {beside === undefined ? (
        name
      ) : (
        <div class="field-head">
          {name}
          {beside}
        </div>
      )}
      {children({ id, "aria-describedby": parts.length > 0 ? parts.join(" ") : undefined, "aria-invalid": problem !== "" })}
      {hint !== undefined && (
        <p class="under" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {problem !== "" && (
        <p class="problem" id={`${id}-problem`}>
          {shown(problem)}
        </p>
      )}
    </div>
  );
}

/** One of some, as a row of buttons of which one is pressed: for a few that are short. */
export function Choose<T extends string>({ label, isLabelHidden = false, value, options, choose }: { label: string; isLabelHidden?: boolean; value: T; options: readonly (readonly [T, string])[]; choose(value: T): void }) {
  const name = useId();
  return (
    <fieldset class="choose">
      <legend class={isLabelHidden ? "who" : ""}>{label}</legend>
      <div class="segments">
        {options.map(([each, text]) => (
          <label key={each} class={each === value ? "is-chosen" : ""}>
            <input type="radio" name={name} checked={each === value} onChange={() => choose(each)} />
            {text}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** What is written in a form, kept by the tab until it is sent or given up. Never for secrets. */
export function useDraft<T extends object>(name: string, initial: T): { value: T; set(change: Partial<T>): void; clear(): void; isChanged: boolean } {
  const place = `form:${name}`;
  const read = (): Partial<T> => {
    try {
      return JSON.parse(app.drafts.get(place) ?? "{}") as Partial<T>;
    } catch {
      return {};
    }
  };
  const [change, setChange] = useState(read);
  const latest = useRef(change);
  useEffect(() => {
    latest.current = read();
    setChange(latest.current);
  }, [place]);
  const keep = (all: Partial<T>) => {
    latest.current = all;
    setChange(all);
    app.drafts.set(place, Object.keys(all).length === 0 ? "" : JSON.stringify(all));
  };
  const isSame = (key: keyof T) => JSON.stringify(change[key]) === JSON.stringify(initial[key]);
  return {
    value: { ...initial, ...change },
    set: (more) => keep({ ...latest.current, ...more }),
    clear: () => keep({}),
    isChanged: (Object.keys(change) as (keyof T)[]).some((key) => !isSame(key)),
  };
}

export interface Sending {
  isBusy: boolean;
  /** What was refused as a whole, or at a field that the form does not show. */
  problem: string;
  /** What was refused, by its field. */
  problems: Readonly<Record<string, string>>;
  send(event?: Event): Promise<void>;
  forget(): void;
}

/** Send a form once at a time; what is refused stands at the field that the server names, which gets the focus. */
export function useSending(run: () => Promise<void>, fields: readonly string[] = []): Sending {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const isSending = useRef(false);
  const forget = () => {
    setProblem("");
    setProblems({});
  };
  const send = async (event?: Event) => {
    event?.preventDefault();
    if (isSending.current) return;
    const form = event?.currentTarget instanceof HTMLElement ? event.currentTarget : null;
    isSending.current = true;
    setBusy(true);
    forget();
    try {
      await run();
    } catch (error) {
      const { field, text } = refusal(error, fields);
      if (field === null) setProblem(text);
      else setProblems({ [field]: text });
      setTimeout(() => form?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus(), 0);
    } finally {
      isSending.current = false;
      setBusy(false);
    }
  };
  return { isBusy, problem, problems, send, forget };
}

interface FormEndProps {
  sending: Sending;
  action: string;
  cancel?: () => void;
  isOff?: boolean;
  children?: ComponentChildren;
}

/** What was refused as a whole, and the buttons. */
export function FormEnd({ sending, action, cancel, isOff = false, children }: FormEndProps) {
  return (
    <>
      {sending.problem !== "" && (
        <p class="problem" role="alert">
          {shown(sending.problem)}
        </p>
      )}
      <div class="buttons">
        <button type="submit" class="primary" disabled={isOff || sending.isBusy}>
          {sending.isBusy ? words.value.page.busy : action}
        </button>
        {cancel !== undefined && (
          <button type="button" class="quiet" onClick={cancel}>
            {words.value.link_.cancel}
          </button>
        )}
        {children}
      </div>
    </>
  );
}
