// What stands around every screen: the top bar with the state of the connection, the drawer, and what just went wrong.
import { useEffect, useState } from "preact/hooks";
import { AskDialog, LinkDialog } from "../parts/dialog";
import { shown } from "../parts/text";
import * as app from "../store/app";
import { isTabOnly } from "../store/login";
import { language, theme, words, type Language, type Theme } from "../store/settings";
import { Approvals } from "./approvals";
import { Chat } from "./chat";
import { Drawer } from "./drawer";
import { Login } from "./login";

const TOAST_MS = 10_000;

export function Frame() {
  const its = words.value;
  const [isDrawn, setDrawn] = useState(false);
  const count = app.approvals.value.length;
  useEffect(() => {
    document.title = count > 0 ? `(${count}) callboard` : "callboard";
  }, [count]);
  if (app.isLoggedOut.value) return <Login />;
  const at = app.route.value;
  void app.version.value;
  const title = at.screen === "approvals" ? its.approvals : shown(app.title.value) || "callboard";
  return (
    <div class="frame" onKeyDown={(event) => event.key === "Escape" && setDrawn(false)}>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        {its.skip}
      </a>
      <Drawer isOpen={isDrawn} close={() => setDrawn(false)} />
      {isDrawn && <div class="veil" onClick={() => setDrawn(false)} />}
      <div class="body">
        <header class="bar">
          <button
            type="button"
            class="quiet menu"
            aria-label={its.menu}
            aria-expanded={isDrawn}
            aria-controls="drawer"
            onClick={() => setDrawn(!isDrawn)}
          >
            ☰
          </button>
          <h1>{title}</h1>
          {count > 0 && (
            <a class="badge" href="#/approvals" aria-label={its.waitingFor(count)}>
              <span class="on-wide">{its.waitingFor(count)}</span>
              <span class="on-narrow">{count} ?</span>
            </a>
          )}
          <Connection />
          <Settings />
        </header>
        {isTabOnly.value && <p class="notice">{its.login.noCookie}</p>}
        {app.isOtherVersion.value && (
          <p class="notice" role="status">
            {its.link.version}{" "}
            <button type="button" class="small" onClick={() => location.reload()}>
              {its.link.reload}
            </button>
          </p>
        )}
        <main id="main" tabIndex={-1}>
          {at.screen === "approvals" ? <Approvals /> : <Chat />}
        </main>
      </div>
      <Toast />
      <LinkDialog />
      <AskDialog />
    </div>
  );
}

function Connection() {
  const its = words.value.link;
  const state = app.link.state.value;
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (state.kind !== "waiting") return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [state]);
  const text =
    state.kind === "waiting"
      ? its.waiting(Math.max(0, Math.ceil((state.until - now) / 1000)))
      : state.kind === "stopping"
        ? its.stopping(Math.round(state.seconds))
        : state.kind === "refused"
          ? `${its.refused}: ${state.reason}`
          : its[state.kind];
  return (
    <div class={`connection is-${state.kind}`}>
      <span class="dot" aria-hidden="true" />
      <span class="text" role="status" title={state.kind === "waiting" ? its.codes[state.code] : undefined}>
        {text}
      </span>
      {(state.kind === "waiting" || state.kind === "refused") && (
        <button type="button" class="small" onClick={() => app.link.start()}>
          {its.now}
        </button>
      )}
    </div>
  );
}

function Settings() {
  const its = words.value;
  return (
    <details class="settings">
      <summary aria-label={its.settings} title={its.settings}>
        ⚙
      </summary>
      <div class="panel">
        <label>
          {its.language}
          <select value={language.value} onChange={(event) => (language.value = event.currentTarget.value as Language)}>
            <option value="en">English</option>
            <option value="zh">中文</option>
          </select>
        </label>
        <label>
          {its.theme}
          <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
            {Object.entries(its.themes).map(([name, text]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => void app.leave()}>
          {its.logOut}
        </button>
      </div>
    </details>
  );
}

function Toast() {
  const text = app.toast.value;
  const offered = app.toastAction.value;
  const action = offered?.text === text ? offered : null;
  useEffect(() => {
    if (text === "") return;
    const timer = setTimeout(() => (app.toast.value = ""), TOAST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="toast" role="status">
      {text !== "" && (
        <p>
          {shown(text)}
          {action !== null && (
            <button type="button" class="quiet small do" onClick={() => ((app.toast.value = ""), action.run())}>
              {action.name}
            </button>
          )}
          <button type="button" class="quiet small" onClick={() => (app.toast.value = "")}>
            {words.value.close}
          </button>
        </p>
      )}
    </div>
  );
}
