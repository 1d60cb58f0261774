// A turn as rows over time: what ran beside what, and what waited for whom. Pure: no clock, no DOM.
//
// A call waits from its proposal to its start: for a person while it is asked about, else for a lock or a slot. A call that only reads
// has no event of its start; then its duration says when it was.
import type { Methods } from "../link";

export type TurnRecord = Methods["turn/get"]["result"];
export type Stored = TurnRecord["events"][number];
type Event = Stored["event"];
type Of<T extends Event["type"]> = Extract<Event, { type: T }>;

export type PartKind = "run" | "wait" | "person" | "failed";

/** A stretch of a row's bar; `to` is `null` while it goes on. */
export interface Part {
  kind: PartKind;
  from: number;
  to: number | null;
}

export type RowKind = "input" | "model" | "call" | "approval" | "question" | "summary" | "pause";

export interface TurnRow {
  id: string;
  kind: RowKind;
  name: string;
  parts: Part[];
  /** How it ended or where it stands: a status of a call, a decision, the outcome of a model call. */
  state: string;
  /** What a person reads of it: arguments, a reason, who answered. */
  about: string;
  /** When the first of a model's answer came. */
  first: number | null;
  inputTokens: number | null;
  outputTokens: number | null;
  cachedTokens: number | null;
  /** The message in the chat; empty for none. */
  messageId: string;
  /** The answer whose calls run together. */
  group: string;
  /** The session to which the call delegated; empty for none. */
  childId: string;
  depth: number;
  /** Which session's record it is of. */
  sessionId: string;
}

/** Calls of one answer: how long they took beside each other, and would have one after the other. */
export interface Group {
  id: string;
  count: number;
  first: number;
  last: number;
  together: number;
  alone: number;
}

export interface Turn {
  rows: TurnRow[];
  groups: Group[];
  from: number;
  to: number;
  outcome: string;
  message: string;
  isOver: boolean;
  agentModel: string;
  /** Milliseconds in which at least one did so. */
  model: number;
  tools: number;
  person: number;
  waited: number;
}

/** The rows of a turn's own events. */
class Reader {
  readonly rows: TurnRow[] = [];
  outcome = "";
  message = "";
  agentModel = "";
  #model = "";
  /** Since when a model is asked; `null` while none is. */
  #asked: number | null = null;
  #calls = new Map<string, TurnRow>();
  #open = new Set<string>();
  #approvals = new Map<string, TurnRow>();
  #questions = new Map<string, TurnRow>();
  #inputs = new Map<string, TurnRow>();
  #pause: TurnRow | null = null;

  constructor(
    readonly record: TurnRecord,
    readonly depth: number,
  ) {}

  take({ event, at_ms: at, seq }: Stored): void {
    switch (event.type) {
      case "input_accepted": {
        const row = this.#row(`input:${event.input_id}`, "input", "", [{ kind: "wait", from: at, to: null }]);
        row.about = event.text;
        row.messageId = event.input_id;
        row.state = event.mode ?? "queue";
        this.#inputs.set(event.input_id, row);
        return;
      }
      case "input_delivered":
        this.#end(this.#inputs.get(event.input_id), at, "steer");
        return;
      case "turn_started":
        for (const id of event.input_ids) this.#end(this.#inputs.get(id), at, "");
        this.#model = this.agentModel = `${event.provider}/${event.model}`;
        this.#asked = at;
        return;
      case "model_switched":
        this.#model = `${event.provider}/${event.model}`;
        this.#asked ??= at;
        return;
      case "message_completed":
        return this.#completed(event, at);
      case "attempt_failed": {
        const row = this.#row(`attempt:${seq}`, "model", `${event.provider}/${event.model}`, [{ kind: "failed", from: this.#asked ?? at, to: at }]);
        row.state = "failed";
        row.about = event.message;
        count(row, event.usage);
        this.#asked = at + event.wait_seconds * 1000;
        return;
      }
      case "attempt_charged": {
        const row = this.#row(`attempt:${seq}`, "model", `${event.provider}/${event.model}`, [{ kind: "failed", from: this.#asked ?? at, to: at }]);
        row.state = "broken";
        count(row, event.usage);
        return;
      }
      case "history_compacted": {
        const row = this.#row(`summary:${seq}`, "summary", `${event.provider}/${event.model}`, [{ kind: "run", from: this.#asked ?? at, to: at }]);
        row.about = event.why_left_out || event.summary;
        count(row, event.usage);
        this.#asked = at;
        return;
      }
      case "call_proposed": {
        const row = this.#row(`call:${event.call_id}`, "call", event.name, [{ kind: "wait", from: at, to: null }]);
        row.about = event.arguments;
        row.group = event.message_id;
        row.messageId = `call:${event.call_id}`;
        row.state = "pending";
        row.childId = this.record.delegated.find((each) => each.call_id === event.call_id)?.session_id ?? "";
        this.#calls.set(event.call_id, row);
        this.#open.add(event.call_id);
        this.#asked = null;
        return;
      }
      case "approval_asked":
        return this.#approvalAsked(event, at);
      case "approval_answered": {
        const row = this.#approvals.get(event.approval_id);
        if (row === undefined) return;
        this.#end(row, at, event.decision);
        row.about = [event.answered_by, event.reason ?? ""].filter((each) => each !== "").join(": ");
        const call = this.#calls.get(event.call_id);
        if (call?.state === "waiting") this.#next(call, "wait", at, "pending");
        return;
      }
      case "question_asked": {
        const row = this.#row(`question:${event.question_id}`, "question", "", [{ kind: "person", from: at, to: null }]);
        row.about = event.question;
        row.messageId = `call:${event.call_id}`;
        this.#questions.set(event.question_id, row);
        const call = this.#calls.get(event.call_id);
        if (call !== undefined) this.#next(call, "person", at, call.state);
        return;
      }
      case "question_answered": {
        const row = this.#questions.get(event.question_id);
        if (row === undefined) return;
        this.#end(row, at, event.answered_by ? "answered" : "ended");
        row.about = event.answered_by || row.about;
        const call = this.#calls.get(event.call_id);
        if (call !== undefined && this.#open.has(event.call_id)) this.#next(call, "run", at, call.state);
        return;
      }
      case "call_started": {
        const call = this.#calls.get(event.call_id) ?? this.#late(event.call_id, at);
        this.#next(call, "run", at, "running");
        return;
      }
      case "call_deferred":
        this.#closeCall(event.call_id, at, "deferred");
        return;
      case "call_finished":
        return this.#finished(event, at);
      case "turn_suspended":
        this.#asked = null;
        this.#pause = this.#row(`pause:${seq}`, "pause", "", [{ kind: "wait", from: at, to: null }]);
        return;
      case "turn_resumed":
        if (this.#pause !== null) this.#end(this.#pause, at, "resumed");
        this.#pause = null;
        if (this.#open.size === 0) this.#asked = at;
        return;
      case "turn_ended":
        this.outcome = event.outcome;
        this.message = event.message ?? "";
        this.#asked = null;
        for (const row of this.rows) close(row, at);
        return;
      default:
        return;
    }
  }

  /** What goes on at this moment: a model that is asked, calls that run though no event said so. */
  now(): void {
    const { record } = this;
    if (record.is_over) return;
    const runs = new Map(record.running.map((each) => [each.call_id, each]));
    for (const [id, row] of this.#calls) {
      const last = row.parts.at(-1);
      const run = runs.get(id);
      if (run === undefined || last === undefined || last.to !== null || last.kind !== "wait") continue;
      this.#next(row, "run", Math.max(last.from, record.now_ms - run.seconds * 1000), "running");
    }
    if (this.#asked === null || this.#asked > record.now_ms) return;
    this.#row("model:now", "model", this.#model, [{ kind: "run", from: this.#asked, to: null }]).state = "running";
  }

  #completed(event: Of<"message_completed">, at: number): void {
    const from = event.duration_ms ? at - event.duration_ms : (this.#asked ?? at);
    const kind = event.incomplete ? "failed" : "run";
    const row = this.#row(`model:${event.message_id}`, "model", `${event.provider}/${event.model}`, [{ kind, from, to: at }]);
    row.state = event.incomplete ? "broken" : event.stop_reason || "done";
    row.first = event.first_ms ? from + event.first_ms : null;
    row.messageId = event.message_id;
    const text = event.parts.find((part) => part.type === "text");
    row.about = text?.type === "text" ? text.text : "";
    count(row, event.usage);
    // Its calls come next; without any, the turn ends or asks again.
    this.#asked = at;
  }

  #approvalAsked(event: Of<"approval_asked">, at: number): void {
    const row = this.#row(`approval:${event.approval_id}`, "approval", event.name, [{ kind: "person", from: at, to: null }]);
    row.about = event.reason;
    row.state = "waiting";
    row.messageId = `call:${event.call_id}`;
    this.#approvals.set(event.approval_id, row);
    const call = this.#calls.get(event.call_id) ?? this.#late(event.call_id, at);
    this.#next(call, "person", at, "waiting");
  }

  #finished(event: Of<"call_finished">, at: number): void {
    const row = this.#calls.get(event.call_id) ?? this.#late(event.call_id, at, event.name);
    const last = row.parts.at(-1);
    const hasRun = row.parts.some((part) => part.kind === "run");
    const isDenied = event.status === "denied";
    if (!hasRun && !isDenied && last !== undefined && last.to === null && event.duration_ms) {
      this.#next(row, "run", Math.max(last.from, at - event.duration_ms), "running");
    }
    if (event.display) row.about = event.display;
    this.#closeCall(event.call_id, at, event.status);
  }

  #closeCall(id: string, at: number, state: string): void {
    const row = this.#calls.get(id);
    if (row !== undefined) this.#end(row, at, state);
    this.#open.delete(id);
    if (this.#open.size === 0) this.#asked = at;
  }

  /** A call that was proposed in an earlier turn: it was put off until now. */
  #late(id: string, at: number, name = ""): TurnRow {
    const row = this.#row(`call:${id}`, "call", name, [{ kind: "wait", from: at, to: null }]);
    row.messageId = `call:${id}`;
    this.#calls.set(id, row);
    this.#open.add(id);
    return row;
  }

  #next(row: TurnRow, kind: PartKind, at: number, state: string): void {
    close(row, at);
    const last = row.parts.at(-1);
    if (last !== undefined && last.to === last.from) row.parts.pop();
    row.parts.push({ kind, from: at, to: null });
    row.state = state;
  }

  #end(row: TurnRow | undefined, at: number, state: string): void {
    if (row === undefined) return;
    close(row, at);
    row.state = state;
  }

  #row(id: string, kind: RowKind, name: string, parts: Part[]): TurnRow {
    const row: TurnRow = {
      id: `${this.record.session_id}/${id}`,
      kind,
      name,
      parts,
      state: "",
      about: "",
      first: null,
      inputTokens: null,
      outputTokens: null,
      cachedTokens: null,
      messageId: "",
      group: "",
      childId: "",
      depth: this.depth,
      sessionId: this.record.session_id,
    };
    this.rows.push(row);
    return row;
  }
}

function close(row: TurnRow, at: number): void {
  const last = row.parts.at(-1);
  if (last === undefined || last.to !== null) return;
  last.to = Math.max(last.from, at);
  // A stretch of no length says nothing, where there is another one.
  if (last.to === last.from && row.parts.length > 1) row.parts.pop();
}

function count(row: TurnRow, usage: Of<"message_completed">["usage"]): void {
  row.inputTokens = usage?.input_tokens ?? null;
  row.outputTokens = usage?.output_tokens ?? null;
  row.cachedTokens = usage?.cached_tokens ?? null;
}

/**
 * The rows of a turn; those of sessions to which it delegated stand below their call, where `children` has their record.
 * What is not over goes on until the `now` of the record.
 */
export function turnOf(record: TurnRecord, children: ReadonlyMap<string, TurnRecord> = new Map()): Turn {
  const { rows, reader } = read(record, children, 0);
  const own = rows.filter((row) => row.depth === 0);
  const now = record.now_ms;
  const from = Math.min(...own.map(begin), record.events[0]?.at_ms ?? now);
  const last = record.events.at(-1)?.at_ms ?? now;
  const to = record.is_over ? Math.max(last, ...rows.map((row) => finish(row, last))) : now;
  const all = (kinds: readonly RowKind[], of: readonly PartKind[]) =>
    covered(own.filter((row) => kinds.includes(row.kind)).flatMap((row) => row.parts.filter((part) => of.includes(part.kind))), now);
  return {
    rows,
    groups: groupsOf(rows, now),
    from,
    to: Math.max(to, from + 1),
    outcome: reader.outcome,
    message: reader.message,
    isOver: record.is_over,
    agentModel: reader.agentModel,
    model: all(["model", "summary"], ["run", "failed"]),
    tools: all(["call"], ["run"]),
    person: all(["approval", "question"], ["person"]),
    waited: all(["call"], ["wait"]),
  };
}

function read(record: TurnRecord, children: ReadonlyMap<string, TurnRecord>, depth: number): { rows: TurnRow[]; reader: Reader } {
  const reader = new Reader(record, depth);
  for (const stored of record.events) reader.take(stored);
  reader.now();
  const rows: TurnRow[] = [];
  // An approval stands below the call that it is about, and so does what was delegated.
  const below = new Map<string, TurnRow[]>();
  for (const row of reader.rows) {
    if (row.kind !== "approval" && row.kind !== "question") continue;
    const all = below.get(row.messageId) ?? [];
    all.push(row);
    below.set(row.messageId, all);
  }
  const calls = new Set(reader.rows.filter((row) => row.kind === "call").map((row) => row.messageId));
  for (const row of reader.rows) {
    if ((row.kind === "approval" || row.kind === "question") && calls.has(row.messageId)) continue;
    rows.push(row);
    if (row.kind !== "call") continue;
    rows.push(...(below.get(row.messageId) ?? []));
    const child = row.childId === "" ? undefined : children.get(row.childId);
    if (child !== undefined) rows.push(...read(child, children, depth + 1).rows);
  }
  return { rows, reader };
}

export function begin(row: TurnRow): number {
  return row.parts[0]?.from ?? 0;
}

/** When a row ended, or `now` while it goes on. */
export function finish(row: TurnRow, now: number): number {
  return row.parts.at(-1)?.to ?? now;
}

/** Milliseconds of the parts of a row of some kinds. */
export function lasted(row: TurnRow, kinds: readonly PartKind[], now: number): number {
  return row.parts.reduce((sum, part) => (kinds.includes(part.kind) ? sum + Math.max(0, (part.to ?? now) - part.from) : sum), 0);
}

/** How much of the time at least one of the parts covers. */
export function covered(parts: readonly Part[], now: number): number {
  const sorted = parts.map((part) => [part.from, Math.max(part.from, part.to ?? now)] as const).sort((one, other) => one[0] - other[0]);
  let sum = 0;
  let end = Number.NEGATIVE_INFINITY;
  for (const [from, to] of sorted) {
    if (to <= end) continue;
    sum += to - Math.max(from, end);
    end = to;
  }
  return sum;
}

function groupsOf(rows: readonly TurnRow[], now: number): Group[] {
  const found = new Map<string, TurnRow[]>();
  for (const row of rows) {
    if (row.group !== "") found.set(row.group, [...(found.get(row.group) ?? []), row]);
  }
  const groups: Group[] = [];
  for (const [id, calls] of found) {
    const runs = calls.flatMap((row) => row.parts.filter((part) => part.kind === "run"));
    if (calls.length < 2) continue;
    groups.push({
      id,
      count: calls.length,
      first: rows.indexOf(calls[0]!),
      last: rows.indexOf(calls.at(-1)!),
      together: covered(runs, now),
      alone: runs.reduce((sum, part) => sum + Math.max(0, (part.to ?? now) - part.from), 0),
    });
  }
  return groups;
}

/** Where marks of a scale stand: at round numbers of milliseconds, at most `most` of them. */
export function ticks(from: number, to: number, most: number): number[] {
  const rough = Math.max(1, (to - from) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? 10 * power;
  const marks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) marks.push(at);
  return marks;
}
