// Prompts of servers behind a slash: listed while one is typed, asked for their arguments, and put where the person writes, who sends them.
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Field, FormEnd, useSending } from "../../parts/form";
import { Mark } from "../../parts/page";
import { shown } from "../../parts/text";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { hrefOf } from "../../store/route";
import { its } from "../../words/screens/mcp";
import { completer, matching, nameOf, type PromptRow } from "./prompts";

/** A server is started for this, and may take a minute. */
const MAKE_MS = 120_000;

interface SlashProps {
  /** Where the person writes: it has the focus, and this takes some of its keys. */
  field: HTMLTextAreaElement;
  text: string;
  take(text: string, isUntrusted: boolean): void;
}

export function Slash({ field, text, take }: SlashProps) {
  const said = its.value;
  const all = useResource(() => app.link.request("mcp/prompts", {}), ["tools"]);
  const [mark, setMark] = useState({ of: "", at: 0 });
  const [closed, setClosed] = useState("");
  const [row, setRow] = useState<PromptRow | null>(null);
  const id = useId();
  const found = matching(all.value?.prompts ?? [], text);
  const isOpen = closed !== text && row === null && found.length > 0;
  const at = mark.of === text ? Math.min(mark.at, found.length - 1) : 0;
  const choose = (one: PromptRow) => {
    if ((one.problem ?? "") === "") return setRow(one);
    setClosed(text);
    app.offer(said.isWithheld(shown(`/${nameOf(one)}`)), said.look_, () => (location.hash = hrefOf("mcp", one.server)));
  };
  useLayoutEffect(() => {
    if (!isOpen) return;
    const key = (event: KeyboardEvent) => {
      if (event.isComposing || event.keyCode === 229 || event.shiftKey) return;
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step !== 0) setMark({ of: text, at: (at + step + found.length) % found.length });
      else if (event.key === "Enter" || event.key === "Tab") choose(found[at]!);
      else if (event.key === "Escape") setClosed(text);
      else return;
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    const close = () => setClosed(text);
    const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-haspopup": "listbox", "aria-expanded": "true", "aria-controls": id, "aria-activedescendant": `${id}-${at}` };
    for (const [name, value] of Object.entries(attributes)) field.setAttribute(name, value);
    document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" });
    field.addEventListener("keydown", key, true);
    field.addEventListener("blur", close);
    return () => {
      for (const name of Object.keys(attributes)) field.removeAttribute(name);
      field.removeEventListener("keydown", key, true);
      field.removeEventListener("blur", close);
    };
  });
  const end = () => {
    setClosed(text);
    setRow(null);
    field.focus();
  };
  return (
    <>
      {isOpen && (
        <ul class="slash" id={id} role="listbox" aria-label={said.prompts}>
          {found.map((each, n) => (
            <li key={nameOf(each)} id={`${id}-${n}`} role="option" aria-selected={n === at} onMouseDown={(event) => event.preventDefault()} onClick={() => choose(each)}>
              <code>{shown(`/${nameOf(each)}`)}</code> {each.problem ? <Mark kind="warn">{said.marks.changed}</Mark> : <span>{shown(each.title || each.description || "")}</span>}
            </li>
          ))}
        </ul>
      )}
      {row !== null && <PromptForm row={row} take={take} end={end} />}
    </>
  );
}

/** What a prompt wants to be given; one that wants nothing is made at once. */
function PromptForm({ row, take, end }: { row: PromptRow; take: SlashProps["take"]; end(): void }) {
  const said = its.value;
  const place = useRef<HTMLDialogElement>(null);
  const title = useId();
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({});
  const wants = row.arguments ?? [];
  const sending = useSending(async () => {
    const filled = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ""));
    const made = await app.link.request("mcp/prompt", { server: row.server, name: row.name, arguments: filled }, MAKE_MS);
    if (place.current === null) return; // the person has left it
    place.current.close(); // which gives the focus back
    take(made.text, made.is_untrusted !== false);
    if (made.notes?.length) app.toast.value = shown(made.notes.join(" · "));
  });
  useLayoutEffect(() => {
    place.current?.showModal();
    if (wants.length === 0) void sending.send();
  }, []);
  return (
    <dialog ref={place} class="dialog" aria-labelledby={title} onClose={end}>
      <form onSubmit={(event) => void sending.send(event)}>
        <h2 id={title}>{shown(`/${nameOf(row)}`)}</h2>
        {row.description && <p class="said">{shown(row.description)}</p>}
        {wants.map((each) => (
          <Argument key={each.name} row={row} argument={each} given={given} set={(value) => setGiven((old) => ({ ...old, [each.name]: value }))} />
        ))}
        <FormEnd sending={sending} action={said.insert} cancel={() => place.current?.close()} isOff={wants.some((each) => each.required && !given[each.name])} />
      </form>
    </dialog>
  );
}

interface ArgumentProps {
  row: PromptRow;
  argument: NonNullable<PromptRow["arguments"]>[number];
  given: Readonly<Record<string, string>>;
  set(value: string): void;
}

/** One of them, with what it may be as the server says; nothing is said of a server that can't. */
function Argument({ row, argument, given, set }: ArgumentProps) {
  const { name } = argument;
  const [values, setValues] = useState<readonly string[]>([]);
  const others = useRef(given);
  others.current = given;
  const list = useId();
  const [asking] = useState(() =>
    completer(async (value) => {
      const { [name]: _, ...rest } = others.current;
      return (await app.link.request("mcp/complete", { server: row.server, prompt: row.name, argument: name, value, arguments: rest })).values;
    }, setValues),
  );
  useLayoutEffect(() => asking.end, []);
  return (
    <Field label={shown(name)} hint={argument.description ? shown(argument.description) : undefined} isRequired={argument.required ?? false}>
      {(attributes) => (
        <>
          <input
            type="text"
            autoComplete="off"
            {...attributes}
            required={argument.required ?? false}
            list={list}
            value={given[name] ?? ""}
            onFocus={() => asking.typed(given[name] ?? "")}
            onInput={({ currentTarget: { value } }) => {
              set(value);
              asking.typed(value);
            }}
          />
          <datalist id={list}>
            {values.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
