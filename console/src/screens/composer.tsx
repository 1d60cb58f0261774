// Where a person writes. It stays usable without a connection: what is written then goes out afterwards, once.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../fold/session";
import * as app from "../store/app";
import { words } from "../store/settings";

export function Composer({ session }: { session: Session | null }) {
  void app.version.value; // the session is changed in place
  const its = words.value;
  const at = app.route.value;
  const name = at.screen === "chat" ? (at.id ?? "") : "";
  const [text, setText] = useState(app.drafts.get(name) ?? "");
  const field = useRef<HTMLTextAreaElement>(null);
  const isRunning = session !== null && session.turnId !== "";

  useEffect(() => {
    setText(app.drafts.get(name) ?? "");
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, [name]);
  useEffect(() => {
    const element = field.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, 240)}px`;
  }, [text]);

  const write = (value: string) => {
    app.drafts.set(name, value);
    setText(value);
  };
  const send = () => {
    if (text.trim() === "") return;
    app.prompt(text);
    write("");
  };
  const key = (event: KeyboardEvent) => {
    // While a word is composed, as in Chinese, Enter takes the word.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  };
  if (!app.may("session/prompt") && app.link.welcome.value !== null) return null;
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        rows={1}
        aria-label={its.compose}
        placeholder={its.placeholder}
        value={text}
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={key}
      />
      {isRunning && (
        <button type="button" class="stop" disabled={app.isStopping.value} onClick={() => void app.cancel()}>
          <span aria-hidden="true">■</span> {app.isStopping.value ? its.stopping : its.stop}
        </button>
      )}
      <button type="submit" class="primary" disabled={text.trim() === ""}>
        {its.send}
      </button>
    </form>
  );
}
