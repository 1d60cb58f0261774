// What a person does with what is said already: again, on another way, or taken back.
import { effect, signal } from "@preact/signals";
import type { Row } from "../fold/session";
import type { Methods } from "../link";
import { askFirst } from "../parts/dialog";
import * as app from "./app";
import { textOf } from "./problem";
import { words } from "./settings";

export type ChangedCall = Methods["session/changes"]["result"]["changes"][number];

const SETTLE_MS = 250;
/** An undo waits for calls that run in its workspace. */
const UNDO_MS = 120_000;

/** The calls of the open session that changed files, by call id. */
export const changes = signal<ReadonlyMap<string, ChangedCall>>(new Map());
export const isUndoing = signal(false);

let timer: ReturnType<typeof setTimeout> | undefined;
let readFor = "";
effect(() => {
  const session = app.open.value;
  void app.filesChanged.value;
  clearTimeout(timer);
  if (session === null || session.id !== readFor) changes.value = new Map();
  readFor = session?.id ?? "";
  if (session !== null) timer = setTimeout(() => void readChanges(session.id), SETTLE_MS);
});

async function readChanges(id: string): Promise<void> {
  if (!app.may("session/changes") || app.link.state.peek().kind !== "open") return;
  try {
    const found = await app.link.request("session/changes", { session_id: id });
    if (app.open.peek()?.id === id) changes.value = new Map(found.changes.map((each) => [each.call_id, each]));
  } catch (error) {
    if (!app.isGone(error)) app.say(error);
  }
}

/** Run the last turn again; the page may take a turn that ended early for one that was answered. */
export async function again(isAnswered: boolean): Promise<void> {
  const session_id = app.open.value?.id;
  if (session_id === undefined) return;
  const method = isAnswered ? "session/regenerate" : "session/retry";
  await app.link.request(method, { session_id, idempotency_key: crypto.randomUUID() }).catch(app.say);
}

/** Go on from a message in a copy of the session; from an input, with its text to be changed. */
export async function fork(row: Row): Promise<void> {
  const session = app.open.value;
  if (session === null) return;
  try {
    const made = await app.link.request("session/fork", {
      session_id: session.id,
      message_id: row.id,
      idempotency_key: crypto.randomUUID(),
    });
    if (row.kind === "user") app.drafts.set(made.session_id, row.content);
    location.hash = `#/chat/${encodeURIComponent(made.session_id)}`;
    app.toast.value = words.value.turnMenu.forked;
  } catch (error) {
    app.say(error);
  }
}

export async function deleteMessage(row: Row): Promise<void> {
  const its = words.value.turnMenu;
  const session_id = app.open.value?.id;
  if (session_id === undefined) return;
  const wanted = { title: its.deleteTitle, text: its.deleteText, action: its.deleteDo, isBad: true };
  if ((await askFirst(wanted)) === null) return;
  await app.link.request("session/delete_messages", { session_id, message_ids: [row.id] }).catch(app.say);
}

/** Show what an undo would do, and do it; files that were changed since are asked about once more. */
export async function undo(callId: string): Promise<void> {
  const its = words.value.turnMenu;
  const session_id = app.open.value?.id;
  if (session_id === undefined || isUndoing.value) return;
  const ask = (force: boolean, dry_run: boolean) =>
    app.link.request("session/undo", { session_id, call_id: callId, force, dry_run, idempotency_key: crypto.randomUUID() }, UNDO_MS);
  isUndoing.value = true;
  try {
    let force = false;
    let title = its.undoTitle;
    let action = its.undo;
    let text: string | undefined;
    let plan: Methods["session/undo"]["result"];
    try {
      plan = await ask(false, true);
    } catch (error) {
      if (!app.isConflict(error)) throw error;
      force = true;
      text = textOf(error);
      [title, action] = [its.undoForceTitle, its.undoForce];
      plan = await ask(true, true);
    }
    const lines = [...plan.lines, ...(plan.running ?? []), ...(plan.left ?? [])];
    if ((await askFirst({ title, lines, action, isBad: force, ...(text === undefined ? {} : { text }) })) === null) return;
    const done = await ask(force, false);
    const left = done.left?.length ?? 0;
    app.toast.value = left > 0 ? its.undoLeft(left) : its.undoDone;
    app.filesChanged.value += 1;
  } catch (error) {
    app.say(error);
  } finally {
    isUndoing.value = false;
  }
}
