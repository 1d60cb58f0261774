// A dialog of the browser's own: focus stays in it, and returns where it was.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
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
