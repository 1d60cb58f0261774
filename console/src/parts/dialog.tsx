// Dialogs of the browser's own: focus stays in them, and returns where it was.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "../store/settings";
import { shown } from "./text";

const address = signal<string | null>(null);

/** Show a link's whole address before it is opened: its text may say another one. */
export function askToOpen(url: string): void {
  if (/^(https?|mailto):/i.test(url)) address.value = url;
}

export function LinkDialog() {
  const place = useRef<HTMLDialogElement>(null);
  const url = address.value;
  useEffect(() => {
    if (url !== null) place.current?.showModal();
  }, [url]);
  if (url === null) return null;
  const close = () => (address.value = null);
  return (
    <dialog ref={place} class="dialog" aria-labelledby="link-title" onClose={close}>
      <h2 id="link-title">{words.value.link_.title}</h2>
      <p class="address">{shown(url)}</p>
      <div class="buttons">
        <button type="button" class="quiet" onClick={() => place.current?.close()}>
          {words.value.link_.cancel}
        </button>
        <a class="button" href={url} target="_blank" rel="noopener noreferrer" onClick={() => place.current?.close()}>
          {words.value.link_.open}
        </a>
      </div>
    </dialog>
  );
}

export interface Asking {
  title: string;
  text?: string;
  /** Lines that are shown as they are. */
  lines?: readonly string[];
  /** A text that can be changed, with its name; then the answer is that text. */
  field?: { name: string; value: string };
  action: string;
  isBad?: boolean;
}

const asking = signal<(Asking & { answer(text: string | null): void }) | null>(null);

/** Ask before something is done; the answer is `null` when it is not to be done. */
export function askFirst(wanted: Asking): Promise<string | null> {
  asking.peek()?.answer(null);
  return new Promise((answer) => (asking.value = { ...wanted, answer }));
}

export function AskDialog() {
  const its = asking.value;
  return its === null ? null : <OneAsked key={its.title} its={its} />;
}

function OneAsked({ its }: { its: NonNullable<typeof asking.value> }) {
  const place = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState(its.field?.value ?? "");
  useEffect(() => {
    place.current?.showModal();
    place.current?.querySelector("input")?.select();
  }, []);
  const end = (answer: string | null) => {
    asking.value = null;
    its.answer(answer);
  };
  const isEmpty = its.field !== undefined && text.trim() === "";
  return (
    <dialog ref={place} class="dialog" aria-labelledby="ask-title" onClose={() => asking.peek() === its && end(null)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isEmpty) return;
          const answer = its.field === undefined ? "" : text.trim();
          asking.value = null;
          place.current?.close();
          its.answer(answer);
        }}
      >
        <h2 id="ask-title">{shown(its.title)}</h2>
        {its.text !== undefined && <p class="said">{shown(its.text)}</p>}
        {its.lines !== undefined && its.lines.length > 0 && (
          <pre class="long" tabIndex={0}>
            {its.lines.map(shown).join("\n")}
          </pre>
        )}
        {its.field !== undefined && (
          <input type="text" aria-label={its.field.name} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        )}
        <div class="buttons">
          <button type="button" class="quiet" onClick={() => place.current?.close()}>
            {words.value.link_.cancel}
          </button>
          <button type="submit" class={its.isBad ? "primary bad" : "primary"} disabled={isEmpty}>
            {its.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
