// What screens show is read once, and again whenever the daemon says that a list has changed: no tab shows for longer than a round trip
// what another one has changed.
import { batch, signal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Method, Welcome } from "../link";
import type { ListName } from "../protocol";
import * as app from "./app";
import { textOf } from "./problem";

/** A wait of the daemon's ends after ten minutes by itself. */
const WAIT_MS = 660_000;

/** The method that reads a list: who may not call it may not follow the list either. */
const READ_BY: Record<ListName, Method> = {
  agents: "agent/list",
  default_model: "model/default",
  hooks: "hook/list",
  keys: "key/list",
  models: "model/list",
  prices: "price/list",
  providers: "provider/list",
  roots: "root/list",
  schedules: "schedule/list",
  settings: "settings/get",
  skills: "skill/list",
  status: "runtime/status",
  tokens: "token/list",
  tools: "tool/list",
  usage: "usage/get",
};

const revisions = signal<Readonly<Partial<Record<ListName, number>>>>({});
/** Following these costs the daemon something: usage is followed once somebody has looked at it, the status while somebody does. */
const followed = new Set<ListName>((Object.keys(READ_BY) as ListName[]).filter((name) => name !== "usage" && name !== "status"));
/** Lists that this login may read and not follow, as of a token that is limited: what is shown of them is read when somebody comes to it. */
const refused = signal<ReadonlySet<ListName>>(new Set());
export const isRefused = (name: ListName): boolean => refused.value.has(name);
/** The greeting of the connection on which they were refused: another one may be of another login. */
let greeted: Welcome | null = null;
let isFollowing = false;
let generation = 0;

/** Follow all lists that this login may follow, with one request at a time. */
async function follow(): Promise<void> {
  if (isFollowing) return;
  isFollowing = true;
  const own = ++generation;
  const isOver = () => own !== generation || app.link.state.peek().kind !== "open";
  if (greeted !== app.link.welcome.peek()) refused.value = new Set();
  greeted = app.link.welcome.peek();
  try {
    while (!isOver()) {
      const names = [...followed].filter((name) => app.may(READ_BY[name]) && !refused.peek().has(name));
      if (names.length === 0) return;
      const known = Object.fromEntries(names.map((name) => [name, revisions.peek()[name] ?? 0]));
      try {
        const answer = await app.link.request("list/wait", { known }, WAIT_MS);
        if (own === generation) batch(() => (revisions.value = { ...revisions.peek(), ...answer.revisions }));
      } catch (error) {
        if (isOver() || app.isGone(error) || refused.peek().size > 0) throw error;
        // One is refused, and so all of them were: each says for itself. With no revision known, the answer comes at once.
        const tried = await Promise.allSettled(names.map((name) => app.link.request("list/wait", { known: { [name]: 0 } })));
        refused.value = new Set(names.filter((_, at) => tried[at]?.status === "rejected"));
        if (refused.peek().size === 0) throw error;
      }
    }
  } catch (error) {
    if (!isOver() && !app.isGone(error)) app.say(error);
  } finally {
    if (own === generation) isFollowing = false;
  }
}

function begin(lists: readonly ListName[]): void {
  if (lists.some((name) => !followed.has(name))) {
    for (const name of lists) followed.add(name);
    generation += 1; // what waits does not know these: it is left to end by itself
    isFollowing = false;
  }
  void follow();
}

export interface Resource<T> {
  /** `null` until it was read once; what was read last stays while it is read again, or can't be. */
  value: T | null;
  problem: string;
  isReading: boolean;
  /** Read it again, as after a change of one's own. */
  again(): Promise<void>;
}

/** Read something for a screen, and again when one of these lists has changed, when the connection is back, or with other `deps`. */
export function useResource<T>(read: () => Promise<T>, lists: readonly ListName[], deps: readonly unknown[] = []): Resource<T> {
  const [state, setState] = useState<{ value: T | null; problem: string; isReading: boolean }>({ value: null, problem: "", isReading: true });
  const latest = useRef(0);
  const reader = useRef(read);
  reader.current = read;
  const again = async () => {
    const own = ++latest.current;
    setState((old) => ({ ...old, isReading: true }));
    try {
      const value = await reader.current();
      if (own === latest.current) setState({ value, problem: "", isReading: false });
    } catch (error) {
      if (own !== latest.current) return;
      const problem = app.isGone(error) ? "" : textOf(error);
      setState((old) => ({ ...old, problem, isReading: app.isGone(error) }));
    }
  };
  /** The revisions that were there when it was read; `null` while it can't be. */
  const known = useRef<string | null>(null);
  useSignalEffect(() => {
    const isOpen = app.link.state.value.kind === "open";
    if (isOpen) queueMicrotask(() => begin(lists));
    const all = lists.map((name) => (refused.value.has(name) || !app.may(READ_BY[name]) ? 0 : revisions.value[name]));
    // First the revisions, then what they are of: nothing that happens in between is missed.
    const now = isOpen && !all.includes(undefined) ? all.join() : null;
    const isNew = now !== null && now !== known.current;
    known.current = now;
    if (isNew) void again();
  });
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) {
      setState({ value: null, problem: "", isReading: true });
      if (known.current !== null) void again();
    }
    first.current = false;
  }, deps);
  useEffect(
    () => () => {
      latest.current += 1;
      if (lists[0] === "status") followed.delete("status");
    },
    [],
  );
  return { ...state, again };
}
