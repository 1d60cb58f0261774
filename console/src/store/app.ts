// What all screens share: the link, the list of sessions, what waits for a person, and the session that is open.
import { batch, computed, signal } from "@preact/signals";
import type { Question, Session } from "../fold/session";
import { CallError, Link, type Method, type Methods, type Notifications, type Socket } from "../link";
import { Drafts } from "./drafts";
import * as login from "./login";
import { textOf } from "./problem";
import { route } from "./route";
import { keepsContent, words } from "./settings";

export type SessionRow = Methods["session/list"]["result"]["sessions"][number];
export type ApprovalRow = Methods["approval/list"]["result"]["approvals"][number];
export type WaitingRow = ApprovalRow | Question;

const LIST = 100;
/** Changes of a list that come together are read once. */
const SETTLE_MS = 150;

/** Before a list is followed again that the daemon has lost: its database may be away. */
const LOST_MS = 1500;

export { route };

export const link = new Link({
  open: () => new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`, login.protocols()) as unknown as Socket,
  isReady: async () => (await fetch("/readyz", { cache: "no-store" })).ok,
});

export const isLoggedOut = signal(login.key.value === null);
export const wasEnded = signal(false);
export const sessions = signal<SessionRow[]>([]);
export const areThereMore = signal(false);
/** Whether the list was read; `null` until then, and otherwise why it can't be. Nothing is said of what was not read. */
export const sessionsProblem = signal<string | null>(null);
export const query = signal("");

/** Which sessions the list has; what is empty is all. */
export interface Sift {
  agent: string;
  kind: "people" | "all" | "branch" | "worker";
  /** What began them; `own` is what clients of callboard began. */
  via: string;
  workspace: string;
}
export const NO_SIFT: Sift = { agent: "", kind: "people", via: "all", workspace: "" };
export const sift = signal<Sift>(NO_SIFT);
/** What of a request says which sessions are meant. */
export const filterOf = ({ agent, kind, via, workspace }: Sift) => ({
  include_children: kind !== "people",
  ...(agent === "" ? {} : { agent }),
  ...(kind === "people" || kind === "all" ? {} : { kind }),
  ...(via === "all" ? {} : { via: via === "own" ? "" : via }),
  ...(workspace === "" ? {} : { workspace }),
});
export const approvals = signal<ApprovalRow[]>([]);
/** What models and servers of tools want to know of people, in all sessions. */
export const questions = signal<Question[]>([]);
/** All that waits for a person; what is over first stands first. */
export const waiting = computed<WaitingRow[]>(() =>
  [...approvals.value, ...questions.value].sort((one, other) => (one.expires_at_ms ?? 0) - (other.expires_at_ms ?? 0)),
);
/** The same of what waits for a person. */
export const waitingProblem = signal<string | null>(null);
export const isQuestion = (row: WaitingRow): row is Question => "question_id" in row;
/** What a branch asks is asked in the session above it, too. */
export const isAskedIn = (row: WaitingRow, id: string | undefined): boolean => row.session_id === id || (isQuestion(row) && row.asked_in === id);
export const open = signal<Session | null>(null);
/** Why the session of the address can't be shown; empty if it can, or is being read. */
export const missing = signal("");
/** Grows with each change of the open session, which is changed in place. */
export const version = signal(0);
/** The same, but for the text of an answer and of output that grow: what does not show these need not look each time. */
export const revision = signal(0);
/** Whether a tab may keep what is said, to show it at once after a reload: nothing of a token that is limited, which may not export either. */
export const mayKeep = computed(() => keepsContent.value && may("session/export"));
export const toast = signal<string>("");
/** What can be done about the text that is shown, as long as it is that one. */
export const toastAction = signal<{ text: string; name: string; run(): void } | null>(null);
/** Whether the list is of deleted sessions. */
export const isTrash = signal(false);
export const isStopping = signal(false);
/** Grows when an answer that is remembered may be another one. */
export const grantsChanged = signal(0);
/** Grows when a call of the open session may have changed files, or that was undone. */
export const filesChanged = signal(0);
/** What was written and not sent, by the id of the session; of a new session, by nothing. */
export const drafts = new Drafts();
/** The version of the daemon that this page came from. */
export const firstVersion = signal("");
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
  toast.value = textOf(error);
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

/** Read them again when the daemon says that they have changed. */
export function followLists(): void {
  link.listen((name, params) => {
    if (name === "topic/lost") {
      // What the list missed meanwhile is read with it; the daemon has said why in its log.
      const { topic } = params as Notifications["topic/lost"];
      const changed = topic === "sessions" ? sessionsChanged : approvalsChanged;
      setTimeout(() => link.state.peek().kind === "open" && link.request("topic/subscribe", { topic }).then(changed, say), LOST_MS);
      answersChanged();
    }
    if (name === "session/update") {
      const { event } = params as Notifications["session/update"];
      if (event.type === "call_finished") overWith((row) => row.call_id === event.call_id);
    }
    if (name !== "topic/update") return;
    const { topic, update } = params as Notifications["topic/update"];
    if (topic === "sessions") {
      const { type } = update.event;
      if (type === "session_deleted" || type === "session_restored" || type === "session_purged") gone.add(update.session_id);
      if (type === "turn_ended") answersChanged(); // some hold until then
      if (type === "turn_ended" || type === "session_deleted") overWith((row) => row.session_id === update.session_id);
      sessionsChanged();
    } else if (topic === "approvals") {
      const { event, session_id } = update;
      if (event.type === "grant_given" || event.type === "grant_revoked") return answersChanged();
      if (event.type === "approval_answered") noteAnswer(event, session_id);
      if (event.type === "question_answered") noteQuestion(event.question_id, event.answered_by ?? "");
      approvalsChanged();
    }
  });
}

/** A question is over with its call, also when nobody answers it: no event says so. */
function overWith(isMeant: (row: Question) => boolean): void {
  if (questions.peek().some(isMeant)) approvalsChanged();
}

interface Answer {
  approval_id: string;
  decision: string;
  answered_by: string;
}
/** Questions that this page has answered, with the answer that counted. */
const answering = new Map<string, Answer | null>();

/** Answer a question; somebody else may have been first, which is said as theirs. */
export async function resolve(params: Methods["approval/resolve"]["params"]): Promise<void> {
  const id = params.approval_id;
  answering.set(id, null);
  try {
    await link.request("approval/resolve", { ...params, idempotency_key: crypto.randomUUID() });
  } catch (error) {
    const theirs = answering.get(id);
    answering.delete(id);
    if (theirs == null || !isConflict(error)) say(error);
    else sayTheirs(theirs);
  }
  await readApprovals();
}

function sayTheirs({ decision, answered_by }: Answer): void {
  if (decision === "allow" || decision === "deny") toast.value = words.peek().ask.answered(answered_by, decision === "allow");
}

/** A question that is in sight goes when somebody else answers it: say who, and how. */
function noteAnswer(answer: Answer, sessionId: string): void {
  const id = answer.approval_id;
  if (answering.has(id)) answering.set(id, answer);
  else if (approvals.peek().some((each) => each.approval_id === id && isInSight(each, sessionId))) sayTheirs(answer);
}

function isInSight(row: WaitingRow, sessionId = row.session_id): boolean {
  const at = route.peek();
  return at.screen === "approvals" || (at.screen === "chat" && at.id !== null && (at.id === sessionId || isAskedIn(row, at.id)));
}

/** Questions of models and servers that this page answers. */
const answered = new Set<string>();

/** Answer what a model or a server wants to know. */
export async function answer(params: Methods["question/answer"]["params"]): Promise<void> {
  answered.add(params.question_id);
  try {
    await link.request("question/answer", { ...params, idempotency_key: crypto.randomUUID() });
  } catch (error) {
    answered.delete(params.question_id);
    throw error;
  }
  await readApprovals();
}

function noteQuestion(id: string, by: string): void {
  const isOurs = answered.delete(id);
  if (by !== "" && !isOurs && questions.peek().some((each) => each.question_id === id && isInSight(each))) toast.value = words.peek().question.answered(by);
}

/** Under this, with the id of what is asked, a form keeps an answer that is begun. */
export const ANSWER = "answer:";

/** An answer that is begun goes with what it is to: so there are no more of them than things that wait. */
function dropAnswers(): void {
  drafts.keepOnly(`form:${ANSWER}`, new Set(waiting.peek().map((row) => (isQuestion(row) ? row.question_id : row.approval_id))));
}

/** Answers may come in another order than they were asked for: what is older than what was taken is not due any more. */
function inOrder(): () => () => boolean {
  let asked = 0;
  let taken = 0;
  return () => {
    const own = ++asked;
    return () => {
      taken = Math.max(taken, own);
      return own === taken;
    };
  };
}

const askedForList = inOrder();
const askedForApprovals = inOrder();
const askedForQuestions = inOrder();

const sessionsChanged = settled(refreshSessions);
const searchChanged = settled(readSessions);
const approvalsChanged = settled(readApprovals);
const answersChanged = settled(async () => void (grantsChanged.value += 1));

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
  const isDue = before === null ? askedForList() : () => true;
  try {
    const asked = query.peek();
    const wasTrash = isTrash.peek();
    const sifted = sift.peek();
    const page = await link.request("session/list", {
      limit: LIST,
      query: asked,
      ...filterOf(sifted),
      deleted: wasTrash ? "only" : "no",
      ...(before === null ? {} : { before }),
    });
    if (asked !== query.peek() || wasTrash !== isTrash.peek() || sifted !== sift.peek()) return;
    if (!isDue()) return;
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
      sessionsProblem.value = "";
    });
    gone = new Set();
  } catch (error) {
    if (isGone(error)) return;
    say(error);
    if (sessionsProblem.peek() !== "") sessionsProblem.value = textOf(error);
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
    sessionsProblem.value = null;
  });
  void readSessions();
}

/** List the sessions of an agent, a kind or a folder alone. */
export function siftBy(change: Partial<Sift>): void {
  batch(() => {
    sift.value = { ...sift.value, ...change };
    sessions.value = [];
    sessionsProblem.value = null;
  });
  void readSessions();
}

export function search(text: string): void {
  query.value = text;
  searchChanged();
}

/** Ten thousand that wait: a list that never ends is not read for ever. */
const APPROVAL_PAGES = 100;

/** Read all that waits for a person, page by page: the oldest, which the last page has, stands first. */
export async function readApprovals(): Promise<void> {
  const [isDue, areDue] = [askedForApprovals(), askedForQuestions()];
  const readRows = async () => {
    const rows: ApprovalRow[] = [];
    for (let at = 0, before = {}; at < APPROVAL_PAGES; at++, before = { before: rows.at(-1)!.approval_id }) {
      const page = await link.request("approval/list", { state: "waiting", limit: LIST, ...before });
      if (!isDue()) return;
      rows.push(...page.approvals);
      if (!page.has_more || page.approvals.length === 0) break;
    }
    approvals.value = rows.reverse();
  };
  const readQuestions = async () => {
    const found: Question[] = [];
    for (let at = 0, after = {}; at < APPROVAL_PAGES; at++) {
      const page = await link.request("question/list", { limit: LIST, ...after });
      if (!areDue()) return;
      found.push(...page.questions);
      if (!page.next_after) break;
      after = { after: page.next_after };
    }
    questions.value = found;
  };
  try {
    await Promise.all([readRows(), readQuestions()]);
    waitingProblem.value = "";
    if (isDue() && areDue()) dropAnswers();
  } catch (error) {
    if (isGone(error)) return;
    say(error);
    if (waitingProblem.peek() !== "") waitingProblem.value = textOf(error);
  }
}

// ── the open session ─────────────────────────────────────────────────────────────────────────────

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
