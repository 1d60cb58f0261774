// Log in and out: the key of this page's login, and the ticket of the address.
import { signal } from "@preact/signals";
import { CallError } from "../link";
import { textOf } from "./problem";
import { store, stored } from "./settings";

/** The page's half of the login; the browser has the other one, which no script can read. */
export const key = signal<string | null>(stored("key"));
/** A token for this tab alone, where the browser keeps no cookies. */
export const token = signal<string | null>(null);
export const isTabOnly = signal(false);
/** Why the link that somebody followed did not log them in. */
export const linkProblem = signal("");
/** Whether a link has logged in, and no connection has shown yet that the browser kept its cookie. */
let isByLink = false;

/** Take a login as one that worked, or did not; return whether it was a link whose cookie the browser did not keep. */
export function proved(worked: boolean): boolean {
  const isLost = isByLink && !worked;
  isByLink = false;
  return isLost;
}

/** What kind of error a refused login is, by its status. */
const KINDS: Record<number, string> = { 400: "validation", 401: "auth", 403: "permission", 413: "validation", 429: "overloaded" };

export type LoginProblem = "failed" | "unreachable";
export interface LoginResult {
  problem: LoginProblem | null;
  text: string;
}

export function protocols(): string[] {
  if (isTabOnly.value && token.value !== null) return ["callboard", `callboard.token.${token.value}`];
  return ["callboard", `callboard.page.${key.value ?? ""}`];
}

/** Take the ticket out of the address, so that it is in no bookmark and no copy of it. */
export function ticketOfAddress(): string | null {
  const found = /^#ticket=([\w-]{1,64})$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(null, "", "/");
  return found[1] ?? null;
}

export async function logIn(wanted: { ticket?: string; token?: string; remember?: boolean }): Promise<LoginResult> {
  let answer: Response;
  try {
    answer = await post("/console/session", wanted);
  } catch {
    return { problem: "unreachable", text: "" };
  }
  if (!answer.ok) return { problem: "failed", text: textOf(new CallError((await answer.text()).trim(), KINDS[answer.status] ?? "error")) };
  const made = (await answer.json()) as { key: string };
  token.value = wanted.token ?? null;
  isByLink = wanted.ticket !== undefined;
  isTabOnly.value = false;
  key.value = made.key;
  store("key", made.key);
  return { problem: null, text: "" };
}

export async function logOut(): Promise<void> {
  const mine = key.value;
  forget();
  if (mine !== null) await post("/console/logout", { key: mine }).catch(() => undefined);
}

export function forget(): void {
  key.value = token.value = null;
  isTabOnly.value = false;
  store("key", null);
}

function post(path: string, body: unknown): Promise<Response> {
  return fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}
