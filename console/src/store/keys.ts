// Keys that hold everywhere but where somebody writes.
import { signal } from "@preact/signals";
import type { ListHandle } from "../parts/list";
import * as app from "./app";
import { hrefOf } from "./route";

/** Escape twice within this time stops the turn. */
const TWICE_MS = 1500;
/** `g` and another key within this time go to a screen. */
const SECOND_MS = 1500;

export const isHelpOpen = signal(false);
/** Whether somebody looks for words in the open session. */
export const isFinding = signal(false);
/** The list of messages that is shown. */
export const list: { current: ListHandle | null } = { current: null };

let begunAt = -SECOND_MS;
let escapedAt = -TWICE_MS;

export function begin(): void {
  addEventListener("keydown", (event) => {
    if (app.isLoggedOut.peek() || event.defaultPrevented || event.isComposing) return;
    // A tick is set by Space; a browser would send the whole form at Enter, as it stands.
    if (event.key === "Enter" && event.target instanceof HTMLInputElement && /^(checkbox|radio)$/.test(event.target.type)) event.preventDefault();
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "f") {
      // The browser's own search sees what is drawn alone.
      if (app.open.peek() === null || isFinding.peek()) return;
      isFinding.value = true;
      event.preventDefault();
      return;
    }
    if (event.key === "Escape") return escape(event);
    if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
    const run = event.timeStamp - begunAt < SECOND_MS ? GO[event.key] : KEYS[event.key];
    begunAt = event.key === "g" ? event.timeStamp : -SECOND_MS;
    if (run === undefined) return;
    event.preventDefault();
    run();
  });
}

/** Stop the turn of the open session at the second press; what a dialog or another field does with the key comes first. */
function escape(event: KeyboardEvent): void {
  const isInComposer = event.target instanceof Element && event.target.closest("form.composer") !== null;
  const session = app.open.peek();
  if (isCovered() || (isWriting(event.target) && !isInComposer) || app.route.peek().screen !== "chat" || session === null || session.turnId === "") return;
  const isSecond = event.timeStamp - escapedAt < TWICE_MS;
  escapedAt = isSecond ? -TWICE_MS : event.timeStamp;
  if (isSecond) void app.cancel();
}

/** Whether a dialog or a menu is open, which keys are for before all else. */
export const isCovered = (): boolean => document.querySelector("dialog[open], :popover-open") !== null;

function isWriting(target: EventTarget | null): boolean {
  if (isCovered()) return true;
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}

const goTo = (href: string) => void (location.hash = href);
const focus = (selector: string) => document.querySelector<HTMLElement>(selector)?.focus();

const GO: Record<string, () => void> = {
  c: () => goTo(lastChat()),
  s: () => goTo(hrefOf("sessions")),
  a: () => goTo(hrefOf("approvals")),
  u: () => goTo(hrefOf("usage")),
};

const KEYS: Record<string, () => void> = {
  "?": () => void (isHelpOpen.value = true),
  n: () => goTo(hrefOf("chat", "new")),
  "/": () => goTo(hrefOf("sessions")),
  c: () => focus("form.composer textarea"),
  j: () => list.current?.step(1),
  k: () => list.current?.step(-1),
  o: toggleCall,
  a: nextQuestion,
  e: changeCall,
};

let chat = hrefOf("chat", "new");
/** The session that was open last. */
function lastChat(): string {
  const at = app.route.peek();
  return at.screen === "chat" && at.id !== null ? hrefOf("chat", at.id) : chat;
}
app.route.subscribe((at) => {
  if (at.screen === "chat" && at.id !== null) chat = hrefOf("chat", at.id);
});

/** The message that has the focus, or all of the page. */
function here(): Element {
  return document.activeElement?.closest("[data-id]") ?? document.body;
}

function toggleCall(): void {
  const all = [...here().querySelectorAll<HTMLDetailsElement>("details")];
  // Without a message in focus, it is the last call that is meant.
  const found = here() === document.body ? [...document.querySelectorAll<HTMLDetailsElement>(".call > details")].at(-1) : all[0];
  if (found !== undefined) found.open = !found.open;
}

/** Change the call that the question is about; what is changed already is gone on with, and never dropped. */
function changeCall(): void {
  const wanted = "section.ask [data-key=change]";
  const button = here().querySelector<HTMLElement>(wanted) ?? document.querySelector<HTMLElement>(wanted);
  if (button?.ariaExpanded === "true") button.closest("section")?.querySelector<HTMLElement>(".fields :is(input, select, textarea)")?.focus();
  else button?.click();
}

/** Focus the next question, never one of its buttons: whoever presses on has read it. */
function nextQuestion(): void {
  const all = [...document.querySelectorAll<HTMLElement>("section.ask")];
  if (all.length === 0) {
    if (app.waiting.peek().length > 0) goTo(hrefOf("approvals"));
    return;
  }
  const at = all.findIndex((each) => each.contains(document.activeElement));
  const next = all[(at + 1) % all.length]!;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
