// Where a person writes. It stays usable without a connection: what is written then goes out afterwards, once.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../fold/session";
import { Icon } from "../parts/icon";
import { shown, size } from "../parts/text";
import * as app from "../store/app";
import * as compose from "../store/compose";
import { prompt } from "../store/inputs";
import { restore } from "../store/sessions";
import { words } from "../store/settings";
import { BudgetFields, BudgetOf } from "./budget";
import { ChosenFolder } from "./folder";
import { Meter } from "./meter";
import { further } from "./routes";

const MAX_HEIGHT = 240;

export function Composer({ session }: { session: Session | null }) {
  void app.revision.value; // the session is changed in place
  const its = words.value;
  const name = compose.place.value;
  const [text, setText] = useState(app.drafts.get(name) ?? "");
  const [isOver, setOver] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const isRunning = session !== null && session.turnId !== "";
  const isReadOnly = !app.may("session/prompt") && app.link.welcome.value !== null;
  const isDeleted = session !== null && session.deletedAt !== null;
  const files = compose.files.value;

  useEffect(() => {
    setText(app.drafts.get(name) ?? "");
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, [name]);
  useEffect(() => {
    const element = field.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT)}px`;
  }, [text]);
  // What is said for a moment stands above it, however high it is.
  useEffect(() => {
    const { style } = document.documentElement;
    const observer = new ResizeObserver(() => style.setProperty("--writes", `${place.current?.offsetHeight ?? 0}px`));
    if (place.current !== null) observer.observe(place.current);
    return () => {
      observer.disconnect();
      style.removeProperty("--writes");
    };
  }, [isReadOnly, isDeleted]);
  // Files that are dropped anywhere on the page are meant for this; the browser would leave the page for them.
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (!(event.dataTransfer?.types.includes("Files") ?? false)) return;
      event.preventDefault();
      setOver(true);
    };
    const out = (event: DragEvent) => event.relatedTarget === null && setOver(false);
    const drop = (event: DragEvent) => {
      setOver(false);
      if (event.dataTransfer === null || event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      attach(event.dataTransfer.files);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", out);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", out);
      removeEventListener("drop", drop);
    };
  }, []);

  const attach = (all: Iterable<File>) => {
    const refused = compose.add(all);
    if (refused !== null) app.toast.value = words.value.composer.refused[refused];
    field.current?.focus();
  };
  const write = (value: string) => {
    compose.keep(name, value);
    setText(value);
  };
  const isEmpty = text.trim() === "" && files.length === 0;
  const send = () => {
    if (isEmpty) return;
    prompt(text, isRunning ? compose.mode.value : "queue");
    write("");
  };
  const isForeign = compose.isForeign(name, text);
  const isSlash = !isForeign && /^\/\S*$/.test(text) && app.may("mcp/prompts");
  const Slash = isSlash ? further.value?.Slash : undefined;
  const key = (event: KeyboardEvent) => {
    // While a word is composed, as in Chinese, Enter takes the word.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "ArrowUp" && text === "" && session !== null) {
      const last = session.rows.findLast((row) => row.kind === "user" && !row.isDeleted);
      if (last !== undefined) {
        event.preventDefault();
        write(last.content);
      }
    }
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    send();
  };
  const paste = (event: ClipboardEvent) => {
    const pasted = event.clipboardData?.files;
    if (pasted === undefined || pasted.length === 0) return;
    event.preventDefault();
    attach(pasted);
  };
  if (isReadOnly) return session === null ? null : <p class="notice">{its.readOnly}</p>;
  if (isDeleted) return <Deleted session={session} />;
  return (
    <div ref={place} class="writes">
      {Slash !== undefined && field.current !== null && (
        <Slash
          key={name}
          field={field.current}
          text={text}
          take={(taken, isUntrusted) => {
            if (isUntrusted) compose.noteMade(name, taken);
            write(taken);
          }}
        />
      )}
      <form
        class={`composer ${isOver ? "is-over" : ""}`}
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        {isForeign && <p class="under">{its.composer.foreign}</p>}
        {isOver && <p class="drop">{its.composer.drop}</p>}
        {files.length > 0 && (
          <ul class="files" aria-label={its.composer.files}>
            {files.map((file) => (
              <li key={file.id}>
                {file.url !== "" ? <img src={file.url} alt="" /> : <Icon name="file" />}
                <span class="name">{shown(file.name)}</span>
                <span class="size">{size(file.size)}</span>
                <button
                  type="button"
                  class="quiet tiny"
                  aria-label={its.composer.takeOut(shown(file.name))}
                  title={its.composer.takeOut(shown(file.name))}
                  onClick={() => compose.takeOut(file.id)}
                >
                  <Icon name="close" />
                </button>
              </li>
            ))}
          </ul>
        )}
        {name === "" && app.may("session/new") && <ChosenFolder />}
        <textarea
          ref={field}
          rows={1}
          aria-label={its.compose}
          placeholder={its.placeholder}
          value={text}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={key}
          onPaste={paste}
        />
        <div class="tools">
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            onChange={(event) => {
              attach([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
          <button
            type="button"
            class="quiet tiny"
            aria-label={its.composer.attach}
            title={its.composer.attach}
            onClick={() => picker.current?.click()}
          >
            <Icon name="clip" />
          </button>
          <ChosenOptions />
          <Meter session={session} />
          <span class="rest" />
          {isRunning && !isEmpty && (
            <select
              class="mode"
              aria-label={its.composer.mode}
              value={compose.mode.value}
              onChange={(event) => (compose.mode.value = event.currentTarget.value as compose.Mode)}
            >
              {(["queue", "steer", "interrupt"] as const).map((each) => (
                <option key={each} value={each}>
                  {its.composer.modes[each]}
                </option>
              ))}
            </select>
          )}
          {isRunning && (
            <button type="button" class="stop" disabled={app.isStopping.value} onClick={() => void app.cancel()}>
              <span aria-hidden="true">■</span> {app.isStopping.value ? its.stopping : its.stop}
            </button>
          )}
          <button type="submit" class="primary" disabled={isEmpty}>
            {its.send}
          </button>
        </div>
      </form>
    </div>
  );
}

/** A session that was deleted takes nothing more, until somebody restores it. */
function Deleted({ session }: { session: Session }) {
  const its = words.value.drawer;
  return (
    <p class="notice" role="status">
      {its.deleted}{" "}
      {app.may("session/restore") && (
        <button type="button" class="small" onClick={() => void restore(session.id)}>
          <Icon name="undo" /> {its.restore}
        </button>
      )}
    </p>
  );
}

/** With whom and how the session goes on: in one line, and to be changed behind it. */
function ChosenOptions() {
  const its = words.value.composer;
  const [isOpen, setOpen] = useState(false);
  const panel = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const { model, thinking, policy, budget, turnBudget } = compose.choices.value;
  const its_agent = compose.agent.value;
  const isNew = compose.place.value === "";
  const isLimited = compose.budgetOf(turnBudget) !== null || (isNew && compose.budgetOf(budget) !== null);
  const parts = [its_agent, model, thinking === "" ? "" : `${its.thinking}: ${its.efforts[thinking]}`, policy === "" ? "" : its.policies[policy], isLimited ? its.budget.given : ""];
  const line = parts.filter((each) => each !== "").map(shown).join(" · ");
  useEffect(() => {
    const from = button.current?.getBoundingClientRect();
    if (!isOpen || panel.current === null || from === undefined) return;
    void compose.readChoices();
    panel.current.style.left = `${Math.max(8, Math.min(from.left, innerWidth - panel.current.offsetWidth - 8))}px`;
    panel.current.style.bottom = `${innerHeight - from.top + 8}px`;
    panel.current.querySelector("select")?.focus();
  }, [isOpen]);
  const known = compose.agents.value.some((each) => each.name === its_agent);
  const offered = compose.models.value.flatMap((each) => each.models);
  return (
    <>
      <button
        ref={button}
        type="button"
        class="quiet small chosen"
        aria-label={`${its.options}: ${line}`}
        title={its.options}
        aria-expanded={isOpen}
        onClick={() => panel.current?.togglePopover()}
      >
        <Icon name="options" />
        <span class="line">{line}</span>
      </button>
      <div
        ref={panel}
        class="options"
        popover="auto"
        role="group"
        aria-label={its.options}
        onToggle={({ newState }) => setOpen(newState === "open")}
        onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), panel.current?.hidePopover(), button.current?.focus())}
      >
        <label>
          {its.agent}
          <select value={its_agent} onChange={(event) => void compose.chooseAgent(event.currentTarget.value)}>
            {!known && <option value={its_agent}>{shown(its_agent)}</option>}
            {compose.agents.value.map((each) => (
              <option key={each.name} value={each.name}>
                {shown(each.name)}
              </option>
            ))}
          </select>
        </label>
        <label>
          {its.model}
          <select value={model} onChange={(event) => compose.choose({ model: event.currentTarget.value })}>
            <option value="">{its.agents}</option>
            {model !== "" && !offered.includes(model) && <option value={model}>{shown(model)}</option>}
            {compose.models.value.map((each) => (
              <optgroup key={each.provider} label={shown(each.provider)}>
                {each.models.map((one) => (
                  <option key={one} value={one}>
                    {shown(one.slice(each.provider.length + 1))}
                  </option>
                ))}
              </optgroup>
            ))}
          </select>
        </label>
        <label>
          {its.thinking}
          <select value={thinking} onChange={(event) => compose.choose({ thinking: event.currentTarget.value as typeof thinking })}>
            <option value="">{its.agents}</option>
            {(["off", "low", "medium", "high"] as const).map((each) => (
              <option key={each} value={each}>
                {its.efforts[each]}
              </option>
            ))}
          </select>
        </label>
        <label>
          {its.policy}
          <select value={policy} onChange={(event) => compose.choose({ policy: event.currentTarget.value as typeof policy })}>
            <option value="">{its.agents}</option>
            {(["strict", "balanced", "auto"] as const).map((each) => (
              <option key={each} value={each}>
                {its.policies[each]}
              </option>
            ))}
          </select>
        </label>
        <p class="under">{its.holds}</p>
        <details>
          <summary>{its.budget.turn}</summary>
          <BudgetFields label={its.budget.turn} written={turnBudget} write={(written) => compose.choose({ turnBudget: written })} />
        </details>
        {app.may("session/set_budget") && (
          <details>
            <summary>{its.budget.title}</summary>
            {isNew ? (
              <BudgetFields label={its.budget.title} written={budget} write={(written) => compose.choose({ budget: written })} />
            ) : (
              isOpen && <BudgetOf key={compose.place.value} sessionId={compose.place.value} />
            )}
          </details>
        )}
      </div>
    </>
  );
}
