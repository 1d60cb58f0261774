// All keys, behind "?".
import { useEffect, useRef } from "preact/hooks";
import { isHelpOpen } from "../store/keys";
import { its } from "../words/screens/chat";

export function Help() {
  const place = useRef<HTMLDialogElement>(null);
  const isOpen = isHelpOpen.value;
  const text = its.value.keys;
  useEffect(() => {
    if (isOpen) place.current?.showModal();
  }, [isOpen]);
  if (!isOpen) return null;
  return (
    <dialog ref={place} class="dialog keys" aria-labelledby="keys-title" onClose={() => (isHelpOpen.value = false)}>
      <h2 id="keys-title">{text.title}</h2>
      <p class="under">{text.about}</p>
      <dl tabIndex={0}>
        {text.rows.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              {keys.split(" · ").map((each) => (
                <span key={each} class="combo">
                  {each.split(" ").map((key) => (
                    <kbd key={key}>{key}</kbd>
                  ))}
                </span>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" autofocus onClick={() => place.current?.close()}>
          {text.close}
        </button>
      </div>
    </dialog>
  );
}
