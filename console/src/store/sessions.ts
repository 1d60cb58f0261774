// What a person does with whole sessions: name them, remove them and have them back, take them along, find what was said.
import { effect, signal } from "@preact/signals";
import type { Methods } from "../link";
import { askFirst } from "../parts/dialog";
import { download } from "../parts/download";
import * as app from "./app";
import { words } from "./settings";

export type Hit = Methods["session/search"]["result"]["hits"][number];
type Page = Methods["session/export"]["result"];

const MAX_HITS = 20;
/** One letter is in every session. */
export const LEAST_CHARS = 2;
const SETTLE_MS = 200;
const EXPORT_MS = 60_000;
const FORMAT = 1;

/** Where the words of the search were said. */
export const hits = signal<readonly Hit[]>([]);
export const isExporting = signal(false);

let timer: ReturnType<typeof setTimeout> | undefined;
effect(() => {
  const query = app.query.value.trim();
  const isOpen = app.link.state.value.kind === "open";
  clearTimeout(timer);
  if (query.length < LEAST_CHARS) hits.value = [];
  else if (isOpen) timer = setTimeout(() => void find(query), SETTLE_MS);
});

async function find(query: string): Promise<void> {
  if (!app.may("session/search")) return;
  try {
    const found = await app.link.request("session/search", { query, limit: MAX_HITS });
    if (app.query.peek().trim() === query) hits.value = found.hits;
  } catch (error) {
    if (!app.isGone(error)) app.say(error);
  }
}

export async function rename(row: app.SessionRow): Promise<void> {
  const its = words.value.drawer;
  const title = await askFirst({ title: its.rename, field: { name: its.name, value: row.title }, action: its.renameDo });
  if (title === null || title === row.title) return;
  try {
    await app.link.request("session/rename", { session_id: row.session_id, title });
    await app.readSessions();
  } catch (error) {
    app.say(error);
  }
}

/** Hide a session; it can be had back as long as it is not purged. */
export async function remove(row: app.SessionRow): Promise<void> {
  const its = words.value.drawer;
  const text = row.is_active ? `${its.deleteText} ${its.deleteRuns}` : its.deleteText;
  if ((await askFirst({ title: its.deleteTitle(row.title || words.value.untitled), text, action: its.deleteDo, isBad: true })) === null) return;
  try {
    await app.link.request("session/delete", { session_ids: [row.session_id] });
    if (app.open.peek()?.id === row.session_id) location.hash = "#/chat/new";
    app.offer(its.deleted, its.undo, () => void restore(row.session_id));
    await app.readSessions();
  } catch (error) {
    app.say(error);
  }
}

export async function restore(id: string): Promise<void> {
  try {
    await app.link.request("session/restore", { session_ids: [id] });
    app.toast.value = words.value.drawer.restored;
    await app.readSessions();
  } catch (error) {
    app.say(error);
  }
}

export async function purge(row: app.SessionRow): Promise<void> {
  const its = words.value.drawer;
  if ((await askFirst({ title: its.purgeTitle(row.title || words.value.untitled), text: its.purgeText, action: its.purgeDo, isBad: true })) === null) return;
  try {
    await app.link.request("session/purge", { session_ids: [row.session_id] });
    await app.readSessions();
  } catch (error) {
    app.say(error);
  }
}

/** Save a session and those below it as a file that `session/import` takes. */
export async function save(row: app.SessionRow): Promise<void> {
  if (isExporting.value) return;
  isExporting.value = true;
  try {
    const first = await page(row.session_id, 0, 0);
    let count = 0;
    const texts: string[] = [];
    for (const id of first.session_ids) {
      const its = id === row.session_id ? first : await page(id, 0, 0);
      count += its.head_seq;
      texts.push(await events(id, its));
    }
    const head = { callboard_sessions: FORMAT, sessions: first.session_ids, events: count, exported_at_ms: Date.now() };
    download(`${fileName(row.title)}.jsonl`, new Blob([`${JSON.stringify(head)}\n`, ...texts], { type: "application/jsonl" }));
  } catch (error) {
    app.say(error);
  } finally {
    isExporting.value = false;
  }
}

const page = (session_id: string, after_seq: number, offset: number): Promise<Page> =>
  app.link.request("session/export", { session_id, after_seq, offset }, EXPORT_MS);

/** The lines of the events that there were at the first page; what happens meanwhile is not in the file. */
async function events(id: string, first: Page): Promise<string> {
  const last = first.head_seq;
  const texts = [first.text];
  let its = first;
  while (its.after_seq < last) {
    its = await page(id, its.after_seq, its.offset);
    if (its.text === "") throw new Error(words.value.drawer.changed);
    texts.push(its.text);
  }
  const whole = texts.join("");
  return its.after_seq === last && its.offset === 0 ? whole : `${whole.split("\n").slice(0, last).join("\n")}\n`;
}

export function fileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "session";
}
