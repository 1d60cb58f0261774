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
/** The sessions that somebody has chosen, to do something with all of them; `null` while nobody chooses. */
export const chosen = signal<ReadonlySet<string> | null>(null);
/** How much of a file has been sent, from 0 to 1; `null` while none is. */
export const imported = signal<number | null>(null);

let timer: ReturnType<typeof setTimeout> | undefined;
effect(() => {
  const query = app.query.value.trim();
  const sift = app.sift.value;
  const isOpen = app.link.state.value.kind === "open";
  clearTimeout(timer);
  if (query.length < LEAST_CHARS) hits.value = [];
  else if (isOpen) timer = setTimeout(() => void find(query, sift), SETTLE_MS);
});

async function find(query: string, sift: app.Sift): Promise<void> {
  if (!app.may("session/search")) return;
  try {
    const found = await app.link.request("session/search", { query, limit: MAX_HITS, ...app.filterOf(sift) });
    if (app.query.peek().trim() === query && app.sift.peek() === sift) hits.value = found.hits;
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

/** Hide a session; it can be had back as long as it is not purged. One that was swiped away is asked about only if that ends a turn. */
export async function remove(row: app.SessionRow, isSwiped = false): Promise<void> {
  const its = words.value.drawer;
  const text = row.is_active ? `${its.deleteText} ${its.deleteRuns}` : its.deleteText;
  if (!(isSwiped && !row.is_active) && (await askFirst({ title: its.deleteTitle(row.title || words.value.untitled), text, action: its.deleteDo, isBad: true })) === null) return;
  try {
    await app.link.request("session/delete", { session_ids: [row.session_id] });
    if (app.open.peek()?.id === row.session_id) location.hash = "#/chat/new";
    app.offer(its.deleted, its.undo, () => void restore(row.session_id));
    await app.readSessions();
  } catch (error) {
    app.say(error);
  }
}

export async function restore(...session_ids: string[]): Promise<void> {
  try {
    await app.link.request("session/restore", { session_ids });
    app.toast.value = session_ids.length === 1 ? words.value.drawer.restored : words.value.drawer.restoredMany(session_ids.length);
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

/** What was chosen and is in the list: what has left it, as by another tab, is left out. */
const stillChosen = (): app.SessionRow[] => app.sessions.peek().filter((row) => chosen.peek()?.has(row.session_id) === true);

export function choose(id: string): void {
  const all = new Set(chosen.value);
  if (!all.delete(id)) all.add(id);
  chosen.value = all;
}

/** Do something with all sessions that were chosen, as with one: a deletion can be undone, and for good is asked about. */
export async function doWithChosen(what: "delete" | "restore" | "purge"): Promise<void> {
  const its = words.value.drawer;
  const rows = stillChosen();
  const given = chosen.peek();
  const session_ids = rows.map((row) => row.session_id);
  if (rows.length === 0) return;
  const text = what === "purge" ? its.purgeText : rows.some((row) => row.is_active) ? its.deleteSome : its.deleteText;
  const [title, action] = what === "purge" ? [its.purgeMany(rows.length), its.purgeDo] : [its.deleteMany(rows.length), its.deleteDo];
  if (what !== "restore" && (await askFirst({ title, text, action, isBad: true })) === null) return;
  if (what === "restore") await restore(...session_ids);
  else {
    try {
      await app.link.request(`session/${what}`, { session_ids });
      if (session_ids.includes(app.open.peek()?.id ?? "")) location.hash = "#/chat/new";
      if (what === "delete") app.offer(its.deletedMany(rows.length), its.undo, () => void restore(...session_ids));
      await app.readSessions();
    } catch (error) {
      return app.say(error);
    }
  }
  // Somebody may choose others by now: of a slow daemon the answer comes late.
  if (chosen.peek() === given) chosen.value = null;
}

/** Make sessions of a file that was exported, and show the first of them. */
export async function take(file: File): Promise<void> {
  if (imported.value !== null) return;
  imported.value = 0;
  try {
    const text = await file.text();
    const upload_id = crypto.randomUUID();
    let made: string | null | undefined;
    for (const [part, piece] of partsOf(text).entries()) {
      const is_last = piece.end === text.length;
      const answer = await app.link.request("session/import", { upload_id, part, text: piece.text, is_last, idempotency_key: `${upload_id}-${part}` }, EXPORT_MS);
      made = answer.session_id;
      imported.value = piece.end / Math.max(1, text.length);
    }
    app.toast.value = words.value.drawer.imported;
    await app.readSessions();
    if (made != null) location.hash = `#/chat/${encodeURIComponent(made)}`;
  } catch (error) {
    app.say(error);
  } finally {
    imported.value = null;
  }
}

const PART_CHARS = 128 * 1024;

/** A text in parts that are sent one by one; none ends within a character. */
export function partsOf(text: string): { text: string; end: number }[] {
  const parts: { text: string; end: number }[] = [];
  let at = 0;
  do {
    let end = Math.min(at + PART_CHARS, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end -= 1;
    parts.push({ text: text.slice(at, end), end });
    at = end;
  } while (at < text.length);
  return parts;
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
