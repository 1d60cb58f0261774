// What all screens share: the link, the list of sessions, what waits for a person, and the session that is open.
import { batch, computed, effect, signal } from "@preact/signals";
import type { Session } from "../fold/session";
import { CallError, Link, type Method, type Methods, type Notifications, type Socket } from "../link";
import * as attached from "./attached";
import * as compose from "./compose";
import { Drafts } from "./drafts";
import * as login from "./login";
import { route, routeOf } from "./route";
import * as reading from "./reading";
import { keepsContent, words } from "./settings";

export type SessionRow = Methods["session/list"]["result"]["sessions"][number];
export type ApprovalRow = Methods["approval/list"]["result"]["approvals"][number];

/** An input on its way: it is shown as sent only when it is on record. */
export interface Waiting {
  key: string;
  sessionId: string | null;
  text: string;
  problem: string;
  mode: compose.Mode;
  choices: compose.Choices;
  files: readonly compose.GivenFile[];
  /** An event of the session has said it; its answer is on the way. */
  isOnRecord?: boolean;
}

const LIST = 100;
/** Changes of a list that come together are read once. */
const SETTLE_MS = 150;

export { route };

export const link = new Link({
  open: () => new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`, login.protocols()) as unknown as Socket,
  isReady: async () => (await fetch("/readyz", { cache: "no-store" })).ok,
});

export const isLoggedOut = signal(login.key.value === null);
export const wasEnded = signal(false);
export const sessions = signal<SessionRow[]>([]);
export const areThereMore = signal(false);
export const query = signal("");

/** Which sessions the list has; what is empty is all. */
export interface Sift {
  agent: string;
  kind: "people" | "all" | "branch" | "worker";
  workspace: string;
}
export const NO_SIFT: Sift = { agent: "", kind: "people", workspace: "" };
export const sift = signal<Sift>(NO_SIFT);
export const approvals = signal<ApprovalRow[]>([]);
export const open = signal<Session | null>(null);
/** Why the session of the address can't be shown; empty if it can, or is being read. */
export const missing = signal("");
/** Grows with each change of the open session, which is changed in place. */
export const version = signal(0);
/** The same, but for the text of an answer and of output that grow: what does not show these need not look each time. */
export const revision = signal(0);
/** Whether a tab may keep what is said, to show it at once after a reload: nothing of a token that is limited, which may not export either. */
export const mayKeep = computed(() => keepsContent.value && may("session/export"));
export const waiting = signal<Waiting[]>([]);
export const toast = signal<string>("");
/** What can be done about the text that is shown, as long as it is that one. */
export const toastAction = signal<{ text: string; name: string; run(): void } | null>(null);
/** Whether the list is of deleted sessions. */
export const isTrash = signal(false);
export const isStopping = signal(false);
/** Grows when a call of the open session may have changed files, or that was undone. */
export const filesChanged = signal(0);
/** What was written and not sent, by the id of the session; of a new session, by nothing. */
export const drafts = new Drafts();
/** The version of the daemon that this page came from. */
const firstVersion = signal("");
export const isOtherVersion = computed(
  () => firstVersion.value !== "" && link.welcome.value !== null && link.welcome.value.server.version !== firstVersion.value,
);
/** The title of the open session; where no event said one, that of the list. */
export const title = computed(() => {
  void revision.value;
  const session = open.value;
  return session?.title || (sessions.value.find((each) => each.session_id === session?.id)?.title ?? "");
});
/** Whether no turn of the open session runs. */
export const isIdle = computed(() => {
  void revision.value;
  return open.value?.turnId === "";
});
export const may = (method: Method): boolean => link.welcome.value?.methods.includes(method) ?? false;

/** Say something with what can be done about it. */
export function offer(text: string, name: string, run: () => void): void {
  batch(() => {
    toast.value = text;
    toastAction.value = { text, name, run };
  });
}

export function say(error: unknown): void {
  toast.value = error instanceof Error ? error.message : String(error);
}

// ── the link ─────────────────────────────────────────────────────────────────────────────────────

export function begin(): void {
  link.listen((name, params) => {
    if (name !== "topic/update") return;
    const { topic, update } = params as Notifications["topic/update"];
    if (topic === "sessions") {
      const { type } = update.event;
      if (type === "session_deleted" || type === "session_restored" || type === "session_purged") gone.add(update.session_id);
      sessionsChanged();
    } else if (topic === "approvals") approvalsChanged();
  });
  reading.begin();
  let wasOpen = false;
  effect(() => {
    const state = link.state.value;
    if (state.kind === "open") {
      if (firstVersion.peek() === "") firstVersion.value = link.welcome.peek()?.server.version ?? "";
      wasOpen = true;
      if (!login.isTabOnly.peek()) login.token.value = null; // the browser has its cookie: nothing needs the token any more
      queueMicrotask(() => void connected());
    } else if (state.kind === "refused" && state.reason === "") {
      // With a token at hand, it is the cookie that the browser did not keep.
      if (!wasOpen && login.token.peek() !== null && !login.isTabOnly.peek()) {
        login.isTabOnly.value = true;
        queueMicrotask(() => link.start());
      } else {
        queueMicrotask(ended);
      }
    }
  });
  window.addEventListener("hashchange", () => {
    route.value = routeOf(location.hash);
  });
  window.addEventListener("beforeunload", (event) => {
    if (waiting.value.length > 0) event.preventDefault();
  });
  if (login.key.value !== null) link.start();
}

function ended(): void {
  link.stop();
  login.forget();
  drafts.clear();
  compose.forget();
  attached.forget();
  reading.forget();
  batch(() => {
    wasEnded.value = true;
    // With another login, which may be of somebody else, it goes out by a press alone.
    waiting.value = waiting.value.map((each) => ({ ...each, problem: words.peek().login.ended }));
    isLoggedOut.value = true;
    open.value = null;
    sift.value = NO_SIFT;
    sessions.value = [];
    approvals.value = [];
  });
}

export function loggedIn(): void {
  batch(() => {
    isLoggedOut.value = false;
    wasEnded.value = false;
  });
  link.start();
}

export async function leave(): Promise<void> {
  link.stop();
  await login.logOut();
  ended();
  batch(() => {
    waiting.value = [];
    wasEnded.value = false;
  });
}

async function connected(): Promise<void> {
  await Promise.all([readSessions(), readApprovals(), reading.show(true)]);
  await sendWaiting();
}

// ── lists ────────────────────────────────────────────────────────────────────────────────────────

function settled(read: () => Promise<void>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      if (link.state.peek().kind === "open") void read();
    }, SETTLE_MS);
  };
}

const sessionsChanged = settled(refreshSessions);
const searchChanged = settled(readSessions);
const approvalsChanged = settled(readApprovals);

/** Where the next page of the list begins. */
let next: number | null = null;
/** Sessions that left the list since it was read last. */
let gone = new Set<string>();

/** Read the list from its beginning. */
export async function readSessions(): Promise<void> {
  await readPage(null);
}

export function listMore(): void {
  if (next !== null) void readPage(next);
}

/** What changed is on the first page now: the list is in the order of what happened last. */
async function refreshSessions(): Promise<void> {
  await readPage(null, true);
}

async function readPage(before: number | null, isRefresh = false): Promise<void> {
  try {
    const asked = query.peek();
    const wasTrash = isTrash.peek();
    const sifted = sift.peek();
    const { agent, kind, workspace } = sifted;
    const page = await link.request("session/list", {
      limit: LIST,
      query: asked,
      include_children: kind !== "people",
      ...(agent === "" ? {} : { agent }),
      ...(kind === "people" || kind === "all" ? {} : { kind }),
      ...(workspace === "" ? {} : { workspace }),
      deleted: wasTrash ? "only" : "no",
      ...(before === null ? {} : { before }),
    });
    if (asked !== query.peek() || wasTrash !== isTrash.peek() || sifted !== sift.peek()) return;
    const old = new Map(sessions.peek().map((row) => [row.session_id, row]));
    // Who did not change stays the same object, and is not drawn again.
    const rows = page.sessions.map((row) => {
      const known = old.get(row.session_id);
      return known !== undefined && isSameRow(known, row) ? known : row;
    });
    const fresh = new Set(rows.map((row) => row.session_id));
    const others = sessions.peek().filter((row) => !fresh.has(row.session_id) && !gone.has(row.session_id));
    const isWhole = page.next_before == null;
    batch(() => {
      if (before !== null) sessions.value = [...others, ...rows];
      else sessions.value = isRefresh && !isWhole ? [...rows, ...others] : rows;
      if (!isRefresh || isWhole || next === null) next = page.next_before ?? null;
      areThereMore.value = next !== null;
    });
    gone = new Set();
  } catch (error) {
    if (!isGone(error)) say(error);
  }
}

function isSameRow(one: SessionRow, other: SessionRow): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Show the deleted sessions, or the others again. */
export function look(atTrash: boolean): void {
  batch(() => {
    isTrash.value = atTrash;
    sessions.value = [];
  });
  void readSessions();
}

/** List the sessions of an agent, a kind or a folder alone. */
export function siftBy(change: Partial<Sift>): void {
  batch(() => {
    sift.value = { ...sift.value, ...change };
    sessions.value = [];
  });
  void readSessions();
}

export function search(text: string): void {
  query.value = text;
  searchChanged();
}

export async function readApprovals(): Promise<void> {
  try {
    approvals.value = (await link.request("approval/list", { state: "waiting", limit: LIST })).approvals.reverse();
    reading.changed();
  } catch (error) {
    if (!isGone(error)) say(error);
  }
}

// ── inputs ───────────────────────────────────────────────────────────────────────────────────────

export function prompt(text: string, mode: compose.Mode = "queue"): void {
  const sessionId = route.value.screen === "chat" ? route.value.id : null;
  const input = { key: crypto.randomUUID(), sessionId, text, problem: "", mode, choices: compose.choices.peek(), files: compose.takeFiles() };
  waiting.value = [...waiting.value, input];
  void sendWaiting();
}

let isSending = false;
/** Send what waits, in its order. Each has a key of its own: sent twice, it is done once. */
export async function sendWaiting(): Promise<void> {
  if (isSending) return;
  isSending = true;
  try {
    for (;;) {
      const next = waiting.value.find((each) => each.problem === "");
      if (next === undefined || link.state.peek().kind !== "open") return;
      try {
        await send(next);
        waiting.value = waiting.value.filter((each) => each.key !== next.key);
      } catch (error) {
        if (isGone(error)) return; // it goes out when the link is back, with the same key
        setProblem(next.key, error instanceof Error ? error.message : String(error));
      }
    }
  } finally {
    isSending = false;
  }
}

async function send(input: Waiting): Promise<void> {
  let id = input.sessionId;
  if (id === null) {
    const { agent } = input.choices;
    const made = await link.request("session/new", { ...(agent === "" ? {} : { agent }), idempotency_key: `${input.key}-s` });
    id = made.session_id;
    const sessionId = id;
    waiting.value = waiting.value.map((each) => (each.sessionId === null ? { ...each, sessionId } : each));
    compose.moveTo(id);
    if (route.value.screen === "chat" && route.value.id === null) location.hash = `#/chat/${encodeURIComponent(id)}`;
  }
  const options = compose.optionsOf(input.choices);
  const attachments = await Promise.all(input.files.map(compose.encoded));
  await link.request("session/prompt", {
    session_id: id,
    content: input.text,
    mode: input.mode,
    ...(options === null ? {} : { options }),
    ...(attachments.length === 0 ? {} : { attachments }),
    idempotency_key: input.key,
  });
}

/** An event has said what is being sent: it is shown as a message now, and no more as one on its way. */
export function arrived(sessionId: string, text: string): void {
  const at = isSending ? waiting.peek().findIndex((each) => each.problem === "" && each.sessionId === sessionId) : -1;
  if (waiting.peek()[at]?.text !== text) return;
  waiting.value = waiting.peek().map((each, index) => (index === at ? { ...each, isOnRecord: true } : each));
}

function setProblem(key: string, problem: string): void {
  waiting.value = waiting.value.map((each) => (each.key === key ? { ...each, problem } : each));
}

export function sendAgain(key: string): void {
  setProblem(key, "");
  void sendWaiting();
}

export function drop(key: string): void {
  waiting.value = waiting.value.filter((each) => each.key !== key);
}

/** Take an input back that is on record and waits for its turn. */
export async function takeBack(inputId: string): Promise<void> {
  const session = open.value;
  if (session === null) return;
  await link.request("session/cancel", { session_id: session.id, input_id: inputId, reason: "taken back in the console" }).catch(say);
}

export async function cancel(): Promise<void> {
  const session = open.value;
  if (session === null || isStopping.value) return;
  isStopping.value = true;
  try {
    await link.request("session/cancel", { session_id: session.id, reason: "stopped in the console" });
  } catch (error) {
    if (!isGone(error)) say(error);
  } finally {
    isStopping.value = false;
  }
}

/** End one call that runs; its turn goes on. */
export async function stopCall(call_id: string): Promise<void> {
  const session_id = open.value?.id;
  if (session_id !== undefined) await link.request("call/cancel", { session_id, call_id, idempotency_key: crypto.randomUUID() }).catch(say);
}

export function isGone(error: unknown): boolean {
  return error instanceof CallError && error.type === "connection";
}

export function isConflict(error: unknown): error is CallError {
  return error instanceof CallError && error.type === "conflict";
}
