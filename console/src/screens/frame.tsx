// What stands around every screen: the top bar with the state of the connection, the drawer, and what just went wrong.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { clock } from "../parts/amounts";
import { AskDialog, LinkDialog } from "../parts/dialog";
import { Icon } from "../parts/icon";
import { shown } from "../parts/text";
import * as app from "../store/app";
import { firstVisit } from "../store/first";
import { isCovered } from "../store/keys";
import { isTabOnly } from "../store/login";
import { textOf } from "../store/problem";
import type { Route } from "../store/route";
import { words } from "../store/settings";
import { AgentSwitch } from "./agent";
import { Approvals } from "./approvals";
import { Aloud, Waiting } from "./attention";
import { Chat } from "./chat";
import { Drawer } from "./drawer";
import { Folder } from "./folder";
import { Help } from "./help";
import { Login } from "./login";
import { Nav } from "./nav";
import { PageScreen } from "./page";
import { loadAhead, screenOf, type ScreenName } from "./routes";

const TOAST_MS = 10_000;
/** As in look/narrow.css. */
const narrow = globalThis.matchMedia?.("(max-width: 719px)");
const isNarrow = signal(narrow?.matches ?? false);
narrow?.addEventListener("change", () => (isNarrow.value = narrow.matches));

/** What is shown, in a few words; of the chat, the title of its session. */
function titleOf(at: Route): string {
  const its = words.value;
  if (at.screen === "approvals") return its.approvals;
  if (at.screen === "sessions") return its.sessions;
  if (at.screen === "page") return screenOf(at.name) === null ? its.page.unknown : its.screens[at.name as ScreenName];
  return shown(app.title.value);
}

export function Frame() {
  const its = words.value;
  const [isDrawn, setDrawn] = useState(false);
  const count = app.waiting.value.length;
  const at = app.route.value;
  const title = titleOf(at);
  const isBeside = at.screen === "page" || at.screen === "approvals";
  useEffect(() => {
    document.title = `${count > 0 ? `(${count}) ` : ""}${title === "" ? "" : `${title} · `}callboard`;
  }, [count, title]);
  const isOpen = app.link.state.value.kind === "open";
  useEffect(() => {
    if (!isOpen) return;
    void firstVisit();
    loadAhead();
  }, [isOpen]);
  // What was there has gone: who reads by ear or by keys goes on at the beginning of what came.
  const place = at.screen === "page" ? [at.name, ...at.parts].join("/") : at.screen;
  const [first] = useState(place);
  useEffect(() => {
    if (at.screen === "sessions") {
      setDrawn(true);
      document.querySelector<HTMLInputElement>("#drawer input[type=search]")?.focus();
    } else if (at.screen !== "chat" && place !== first) {
      document.querySelector("#main > .page")?.scrollTo(0, 0);
      document.getElementById("main")?.focus();
    }
  }, [place]);
  // Where the list lies over the page, the page is out of reach until it is closed, by keys as by eye.
  const isOver = isDrawn && isNarrow.value;
  const menu = useRef<HTMLButtonElement>(null);
  const wasOver = useRef(false);
  useEffect(() => {
    const drawer = document.getElementById("drawer");
    const isLost = document.activeElement === document.body || drawer?.contains(document.activeElement) === true;
    if (isOver && drawer?.contains(document.activeElement) === false) drawer.querySelector<HTMLElement>(at.screen === "sessions" ? "input[type=search]" : "a, button")?.focus();
    else if (!isOver && wasOver.current && isLost) menu.current?.focus();
    wasOver.current = isOver;
  }, [isOver]);
  if (app.isLoggedOut.value) return <Login />;
  return (
    <div class="frame" onKeyDown={(event) => event.key === "Escape" && isDrawn && !isCovered() && (isOver && event.preventDefault(), setDrawn(false))}>
      <a class="skip" inert={isOver} href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        {its.skip}
      </a>
      <Drawer isOpen={isDrawn} close={() => setDrawn(false)} />
      {isDrawn && <div class="veil" onClick={() => setDrawn(false)} />}
      <div class="body" inert={isOver}>
        <header class="bar">
          <button
            ref={menu}
            type="button"
            class="quiet menu"
            aria-label={its.menu}
            aria-expanded={isDrawn}
            aria-controls="drawer"
            onClick={() => setDrawn(!isDrawn)}
          >
            <Icon name="menu" />
          </button>
          <div class="titles">
            <h1>{title || "callboard"}</h1>
            <AgentSwitch />
            <Folder />
          </div>
          {count > 0 && (
            <a class="badge" href="#/approvals" aria-label={its.waitingFor(count)}>
              <span class="on-wide">{its.waitingFor(count)}</span>
              <span class="on-narrow">{count} ?</span>
            </a>
          )}
          <Connection />
          <Ways isBeside={isBeside} />
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
        <div class="beside">
          <main id="main" tabIndex={-1}>
            {at.screen === "page" ? <PageScreen name={at.name} parts={at.parts} /> : at.screen === "approvals" ? <Approvals /> : <Chat />}
          </main>
          {isBeside && (
            <nav class="side" aria-label={its.screensNav}>
              <Nav />
            </nav>
          )}
        </div>
      </div>
      <Toast />
      <Aloud />
      <Waiting />
      <Help />
      <LinkDialog />
      <AskDialog />
    </div>
  );
}

export function Connection() {
  const its = words.value.link;
  const state = app.link.state.value;
  const awayMs = app.link.awayMs.value;
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (state.kind !== "waiting") return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [state]);
  const isWaiting = state.kind === "waiting";
  const text =
    isWaiting
      ? its.broken(its.codes[state.code] ?? its.codes[1006]!)
      : state.kind === "stopping"
        ? its.stopping(Math.round(state.seconds))
        : state.kind === "refused"
          ? `${its.refused}${state.error === null ? "" : `: ${textOf(state.error)}`}`
          : awayMs === null || state.kind !== "open"
            ? its.states[state.kind]
            : its.away(clock(awayMs));
  const isAway = awayMs !== null && state.kind === "open";
  return (
    <div class={`connection is-${isAway ? "waiting" : state.kind}`}>
      <span class="dot" aria-hidden="true" />
      <span class="text">
        <span role="status">{text}</span>
        {/* What counts down is not read aloud each second. */}
        {isWaiting && <span aria-live="off">{its.waiting(Math.max(0, Math.ceil((state.until - now) / 1000)))}</span>}
      </span>
      {isWaiting && (
        <button type="button" class="small" onClick={() => app.link.start()}>
          {its.now}
        </button>
      )}
      {/* The daemon speaks another protocol: the page that it has does, too. */}
      {state.kind === "refused" && (
        <button type="button" class="small" onClick={() => location.reload()}>
          {its.reload}
        </button>
      )}
    </div>
  );
}

/** The screens behind a button; where there is room, they stand beside the screen that is open. */
function Ways({ isBeside }: { isBeside: boolean }) {
  const its = words.value;
  const panel = useRef<HTMLElement>(null);
  const [isOpen, setOpen] = useState(false);
  const close = () => panel.current?.hidePopover();
  return (
    <div class={isBeside ? "settings is-beside" : "settings"}>
      <button
        type="button"
        class="quiet tiny"
        aria-label={its.screensNav}
        title={its.screensNav}
        aria-expanded={isOpen}
        popovertarget="ways"
      >
        <Icon name="settings" />
      </button>
      <nav ref={panel} id="ways" class="panel" popover="auto" aria-label={its.screensNav} onToggle={({ newState }) => setOpen(newState === "open")}>
        {isOpen && <Nav close={close} />}
      </nav>
    </div>
  );
}

/** What just happened, with what can be done about it, for some seconds. */
export function Toast() {
  const text = app.toast.value;
  const offered = app.toastAction.value;
  const action = offered?.text === text ? offered : null;
  useEffect(() => {
    if (text === "") return;
    const timer = setTimeout(() => (app.toast.value = ""), TOAST_MS);
    return () => clearTimeout(timer);
  }, [text, offered]); // the same words may be about something else
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
