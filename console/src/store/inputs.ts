// What a person sends: it waits where there is no connection, goes out once, and is kept until it is on record.
import { signal } from "@preact/signals";
import { CallError } from "../link";
import * as app from "./app";
import * as compose from "./compose";
import { folderFor } from "./folders";
import { list } from "./keys";
import { textOf } from "./problem";
import { route } from "./route";
import { words } from "./settings";

/** How the daemon ends a connection that sends more at once than it takes: sent again, it would end the next one too. */
const TOO_LARGE = 1009;

/** An input on its way: it is shown as sent only when it is on record. */
export interface Waiting {
  key: string;
  sessionId: string | null;
  text: string;
  problem: string;
  mode: compose.Mode;
  choices: compose.Choices;
  files: readonly compose.GivenFile[];
  /** Others may have written it. */
  isForeign: boolean;
  /** An event of the session has said it; its answer is on the way. */
  isOnRecord?: boolean;
  /** It was refused since its model has no key. */
  isNoKey?: boolean;
}

export const waiting = signal<Waiting[]>([]);

export function prompt(text: string, mode: compose.Mode = "queue"): void {
  const sessionId = route.value.screen === "chat" ? route.value.id : null;
  const input = { key: crypto.randomUUID(), sessionId, text, problem: "", mode, choices: compose.choices.peek(), isForeign: compose.isForeign(sessionId ?? "", text), files: compose.takeFiles() };
  waiting.value = [...waiting.value, input];
  list.current?.toEnd(); // who has scrolled up sees what becomes of it
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
      if (next === undefined || app.link.state.peek().kind !== "open") return;
      try {
        await send(next);
        waiting.value = waiting.value.filter((each) => each.key !== next.key);
      } catch (error) {
        const end = app.link.state.peek();
        const isTooLarge = end.kind === "waiting" && end.code === TOO_LARGE;
        if (app.isGone(error) && !isTooLarge) return; // it goes out when the link is back, with the same key
        setProblem(next.key, isTooLarge ? words.peek().link.codes[TOO_LARGE]! : textOf(error), error instanceof CallError && error.type === "auth");
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
    const budget = compose.budgetOf(input.choices.budget);
    const folder = await folderFor(input.choices.folder);
    // Asked once more with the same key, it is the same session: its folder is too, whatever is usual by then.
    waiting.value = waiting.value.map((each) => (each.key === input.key ? { ...each, choices: { ...each.choices, folder } } : each));
    const made = await app.link.request("session/new", {
      ...(agent === "" ? {} : { agent }),
      ...(folder === "" ? {} : { workspace: folder }),
      ...(budget === null ? {} : { budget }),
      idempotency_key: `${input.key}-s`,
    });
    id = made.session_id;
    const sessionId = id;
    waiting.value = waiting.value.map((each) => (each.sessionId === null ? { ...each, sessionId } : each));
    compose.moveTo(id);
    if (route.value.screen === "chat" && route.value.id === null) location.hash = `#/chat/${encodeURIComponent(id)}`;
  }
  // What joins a turn has none of its own, and so neither options nor a budget.
  const joins = input.mode === "steer";
  const options = joins ? null : compose.optionsOf(input.choices);
  const budget = joins ? null : compose.budgetOf(input.choices.turnBudget);
  const attachments = await Promise.all(input.files.map(compose.encoded));
  await app.link.request("session/prompt", {
    session_id: id,
    content: input.text,
    mode: input.mode,
    ...(options === null ? {} : { options }),
    ...(budget === null ? {} : { budget }),
    ...(attachments.length === 0 ? {} : { attachments }),
    ...(input.isForeign ? { is_untrusted: true } : {}),
    idempotency_key: input.key,
  });
}

/** An event has said what is being sent: it is shown as a message now, and no more as one on its way. */
export function arrived(sessionId: string, text: string): void {
  const at = isSending ? waiting.peek().findIndex((each) => each.problem === "" && each.sessionId === sessionId) : -1;
  if (waiting.peek()[at]?.text !== text) return;
  waiting.value = waiting.peek().map((each, index) => (index === at ? { ...each, isOnRecord: true } : each));
}

function setProblem(key: string, problem: string, isNoKey = false): void {
  waiting.value = waiting.value.map((each) => (each.key === key ? { ...each, problem, isNoKey } : each));
}

export function sendAgain(key: string): void {
  setProblem(key, "");
  void sendWaiting();
}

export function drop(key: string): void {
  waiting.value = waiting.value.filter((each) => each.key !== key);
}
