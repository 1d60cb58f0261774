// The session that is open: read from the record, kept by its events, and gone on with after a break or a reload.
import { batch, effect } from "@preact/signals";
import { Session, type Gap, type Kept } from "../fold/session";
import { errorOf, type Notifications } from "../link";
import * as app from "./app";
import { arrived } from "./inputs";
import { textOf } from "./problem";
import { words } from "./settings";

/** A screen and what is above it; the rest comes as somebody scrolls. */
const FIRST_PAGE = 40;
const PAGE = 100;
/** In the middle of a gap, a few messages above the place are read along. */
const ABOVE = 20;
/** Whoever drags the scroll bar through a long session wants what is where they stop. */
const REST_MS = 80;
/** What a tab keeps of the session that is open, until it is closed. */
const KEPT_ROWS = 200;
const KEPT_CHARS = 1024 * 1024;
const KEPT = "callboard.session";
/** The text of an answer is drawn no more often: thirty times a second is smooth to read. */
const DRAW_MS = 33;

/** A session that is being read: it takes events already, and is shown when its page is there. */
let reading: Session | null = null;
/** Sessions that were open just now: who comes back to one goes on behind the last event that it saw. */
const recent = new Map<string, Session>();
const MAX_RECENT = 4;
let frame = 0;
let drawnAt = 0;
/** What was drawn last, and which of its revisions. */
let drawn: Session | null = null;
let revision = -1;

/** Draw once a frame, however many events came. A page that is hidden gets no frames, and needs none. */
export function changed(): void {
  if (frame !== 0) return;
  const draw = (now: number) => {
    const session = app.open.peek();
    const isText = session !== null && session === drawn && session.revision === revision;
    if (isText && now - drawnAt < DRAW_MS - 4) {
      frame = requestAnimationFrame(draw);
      return;
    }
    frame = 0;
    drawnAt = now;
    batch(() => {
      app.version.value += 1;
      if (!isText) app.revision.value += 1;
    });
    drawn = session;
    revision = session?.revision ?? -1;
  };
  frame = requestAnimationFrame(draw);
}

export function begin(): void {
  app.link.listen((name, params) => {
    if (name === "topic/update") {
      const { update } = params as Notifications["topic/update"];
      // There is nothing left of it, and so no event of its own: the daemon says so to who asks.
      if (update.event.type === "session_purged") {
        recent.delete(update.session_id); // it may come back from a file, as another one
        if (update.session_id === app.open.peek()?.id) void show(true);
      }
    }
    for (const session of reading === null ? [app.open.peek()] : [app.open.peek(), reading]) {
      if (session === null || (params as { session_id?: string }).session_id !== session.id) continue;
      if (name === "session/update") {
        const update = params as Notifications["session/update"];
        session.update(update);
        const { event } = update;
        if (event.type === "call_finished" || event.type === "changes_undone") app.filesChanged.value += 1;
        if (event.type === "input_accepted" && session === app.open.peek()) arrived(session.id, event.text);
      } else if (name === "session/snapshot") session.snapshot(params as Notifications["session/snapshot"]);
      else if (name === "session/lost") app.say(errorOf((params as Notifications["session/lost"]).error));
      changed();
    }
  });
  effect(() => {
    void app.route.value;
    queueMicrotask(() => void show());
  });
  effect(() => {
    const session = app.open.value;
    if (app.approvals.value.length > 0 && session !== null) noteAsked(session);
    else changed();
  });
  window.addEventListener("pagehide", keep);
}

function noteAsked(session: Session): void {
  for (const each of app.approvals.peek()) if (each.session_id === session.id) session.ask(each.call_id, each.approval_id);
  changed();
}

/** Show the session of the address; after a break, go on behind the last event that came. */
export async function show(isAgain = false): Promise<void> {
  const at = app.route.peek();
  const id = at.screen === "chat" ? at.id : null;
  const old = app.open.peek();
  const isOpen = app.link.state.peek().kind === "open";
  if (reading !== null && reading.id !== id) reading = null;
  app.missing.value = "";
  if (old !== null && old.id !== id) {
    app.open.value = null;
    app.isStopping.value = false;
    recent.set(old.id, old);
    for (const each of recent.keys()) if (recent.size > MAX_RECENT) recent.delete(each);
    if (isOpen) app.link.request("session/unsubscribe", { session_id: old.id }).catch(() => undefined);
  }
  if (id === null || !isOpen || (old?.id === id && !isAgain) || (reading !== null && !isAgain)) return;
  try {
    const known = old?.id === id ? old : (recent.get(id) ?? taken(id));
    recent.delete(id);
    if (known === null || !(await goOn(known))) await read(id);
  } catch (error) {
    if (app.isGone(error)) return;
    batch(() => {
      app.open.value = null;
      app.missing.value = textOf(error);
    });
  }
}

/** Follow a session from where it was known; return false if the record is another one now. */
async function goOn(session: Session): Promise<boolean> {
  const { epoch } = session;
  if (app.link.welcome.peek()?.epoch === epoch) {
    if (app.open.peek() !== session) shown(session);
    try {
      await app.link.request("session/subscribe", { session_id: session.id, after_seq: session.seq, epoch });
      await ask(session);
      return true;
    } catch (error) {
      if (!app.isConflict(error)) throw error;
    }
  }
  app.toast.value = words.value.startedOver;
  return false;
}

async function read(id: string): Promise<void> {
  const session = new Session(id);
  const { seq, waiting } = await app.link.request("session/subscribe", { session_id: id });
  for (const each of waiting ?? []) session.waiting.add(each);
  session.seq = Math.max(session.seq, seq);
  session.epoch = app.link.welcome.peek()?.epoch ?? "";
  reading = session;
  try {
    const others = ask(session);
    const page = await app.link.request("session/messages", { session_id: id, latest_first: true, limit: FIRST_PAGE });
    if (reading !== session) return;
    session.takePage(page.messages);
    if (!page.has_more) session.takeGap({ from: 1, to: (session.rows[0]?.position ?? 1) - 1 }, [], true, false);
    shown(session);
    await others;
  } finally {
    if (reading === session) reading = null;
  }
}

/** What no page of messages says. */
async function ask(session: Session): Promise<void> {
  const session_id = session.id;
  const { link } = app;
  // Each as it comes: what one of them takes is no reason to show what the others know later.
  await Promise.all([
    link.request("question/list", { session_id }).then(({ questions }) => session.asksAre(questions)).then(changed),
    link.request("session/get", { session_id }).then((row) => session.takeRow(row)).then(changed),
    link
      .request("tool/history", { session_id, name: "plan", status: "success", limit: 1 })
      .then(({ calls }) => session.planWas(calls[0]?.arguments ?? "{}"))
      .then(changed),
  ]);
}

function shown(session: Session): void {
  noteAsked(session);
  reading = null;
  batch(() => {
    app.open.value = session;
    app.version.value += 1;
    app.revision.value += 1;
  });
}

// ── pages ────────────────────────────────────────────────────────────────────────────────────────

let isReadingGap = false;
let rest: ReturnType<typeof setTimeout> | undefined;

/** Where of a gap to read: at its end, at its beginning, or at a place within. */
export type Place = "end" | "start" | number;

/** Read a page of what is missing, once nobody scrolls on. */
export function readGap(gap: Gap, place: Place): void {
  clearTimeout(rest);
  if (isReadingGap) return;
  if (typeof place === "number") rest = setTimeout(() => void fill(gap, place), REST_MS);
  else void fill(gap, place);
}

/** Read a page of what is missing at once; while another one is read, nothing. */
export async function fill(gap: Gap, place: Place): Promise<void> {
  const session = app.open.peek();
  if (session === null || isReadingGap) return;
  isReadingGap = true;
  try {
    const from = typeof place === "number" ? Math.max(gap.from, place - ABOVE) : gap.from;
    const isLatestFirst = place === "end";
    const page = await app.link.request("session/messages", {
      session_id: session.id,
      after: from - 1,
      before: gap.to + 1,
      latest_first: isLatestFirst,
      limit: PAGE,
    });
    session.takeGap({ from, to: gap.to }, page.messages, isLatestFirst, page.has_more ?? false);
    if (app.open.peek() === session) changed();
  } catch (error) {
    if (!app.isGone(error)) app.say(error);
  } finally {
    isReadingGap = false;
  }
}

// ── what a tab keeps ─────────────────────────────────────────────────────────────────────────────

/** Keep the end of the open session, so that a reload shows it at once. It ends with the tab, and with the login. */
function keep(): void {
  const session = app.open.peek();
  try {
    sessionStorage.removeItem(KEPT);
    if (session === null || !app.mayKeep.peek()) return;
    const text = JSON.stringify(session.kept(KEPT_ROWS));
    if (text.length <= KEPT_CHARS) sessionStorage.setItem(KEPT, text);
  } catch {
    // A browser that keeps nothing, or has no room: the record is read instead.
  }
}

function taken(id: string): Session | null {
  try {
    const text = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
    const kept = text === null ? null : (JSON.parse(text) as Kept);
    if (kept === null || kept.id !== id || kept.rows.length === 0 || !app.mayKeep.peek()) return null;
    return Session.from(kept);
  } catch {
    return null;
  }
}

export function forget(): void {
  recent.clear();
  try {
    sessionStorage.removeItem(KEPT);
  } catch {
    // Then nothing was kept.
  }
}
