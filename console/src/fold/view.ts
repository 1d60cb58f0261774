// What a list of messages shows: a call and its result are one card, and calls that ran side by side one group.
import type { Gap, Row, Session } from "./session";

export interface CallView {
  row: Row;
  result: Row | undefined;
  approvalId: string | undefined;
}

/** `stamp` grows with each change of what an item shows; `position` is where it stands in the record. */
export type Item = { id: string; stamp: number; position: number } & (
  | { kind: "message"; row: Row }
  | { kind: "calls"; calls: CallView[] }
  | { kind: "gap"; gap: Gap }
  | { kind: "live" }
  | { kind: "question" }
);

/** Make the list of a session; the one before it, if nothing of it changed since. */
export function lister(): (session: Session) => readonly Item[] {
  let last: { session: Session; revision: number; items: readonly Item[] } | null = null;
  return (session) => {
    if (last?.session !== session || last.revision !== session.revision) {
      last = { session, revision: session.revision, items: itemsOf(session) };
    }
    return last.items;
  };
}

export function itemsOf(session: Session): Item[] {
  const items: Item[] = [];
  /** Inputs that wait for their turn come behind the one that runs. */
  const waiting: Item[] = [];
  const results = new Map<string, Row>();
  const calls = new Set<string>();
  for (const row of session.rows) {
    if (row.kind === "result") results.set(row.callId, row);
    else if (row.kind === "call") calls.add(row.callId);
  }
  let end = 0;
  for (let at = 0; at < session.rows.length; at++) {
    const row = session.rows[at]!;
    const { position, stamp } = row;
    end = position;
    const gap = session.gapBefore(at);
    if (gap !== null) items.push({ kind: "gap", id: `gap:${gap.from}`, gap, stamp: gap.to, position: gap.from });
    if (row.isDeleted) continue;
    if (row.kind === "result") {
      if (calls.has(row.callId)) continue;
      // Its call is on an earlier page.
      items.push({ kind: "calls", id: row.id, calls: [{ row, result: row, approvalId: undefined }], stamp, position });
      continue;
    }
    if (row.kind === "call") {
      const result = results.get(row.callId);
      const approvalId = session.asked.get(row.callId);
      const view: CallView = { row, result, approvalId };
      const last = items.at(-1);
      const both = stamp + (result?.stamp ?? 0);
      if (last?.kind === "calls" && last.calls[0]?.row.turnId === row.turnId && isBeside(last, row)) {
        last.calls.push(view);
        last.stamp += both;
      } else items.push({ kind: "calls", id: row.id, calls: [view], stamp: both, position });
      continue;
    }
    if (row.kind === "assistant" && row.content === "" && row.thinking === "") continue;
    (session.waiting.has(row.id) ? waiting : items).push({ kind: "message", id: row.id, row, stamp, position });
  }
  const behind = { stamp: 0, position: end + 1 };
  if (session.live.isThere) items.push({ kind: "live", id: `live:${session.live.streamId}`, ...behind });
  for (const id of session.questions.keys()) items.push({ kind: "question", id, ...behind });
  return [...items, ...waiting];
}

/** Calls of one answer were proposed together: nothing stands between them in the record. */
function isBeside(group: { calls: CallView[] }, row: Row): boolean {
  const last = group.calls.at(-1)?.row;
  return last !== undefined && row.position === last.position + 1;
}

export interface LastTurn {
  /** The item at whose end a person may run it again. */
  itemId: string;
  isAnswered: boolean;
}

/** The turn that can be run again: the last one, when nothing runs and nothing waits for its turn. */
export function lastTurn(session: Session, items: readonly (Item | { kind: "head" })[]): LastTurn | null {
  if (session.turnId !== "" || session.waiting.size > 0 || session.live.isThere) return null;
  for (let at = items.length - 1; at >= 0; at--) {
    const item = items[at]!;
    if (item.kind === "calls") return { itemId: item.id, isAnswered: false };
    if (item.kind !== "message") return null;
    const { row } = item;
    if (row.kind === "system" || row.isSetAside) continue;
    return { itemId: item.id, isAnswered: row.kind === "assistant" && row.stopReason !== "incomplete" };
  }
  return null;
}
