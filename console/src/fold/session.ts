// A session as the page knows it: rows of messages from the record, and what events change of them.
// The rows are those of `session/messages`, with the same ids, so that a page of the record and an event
// that came meanwhile say the same thing twice and nothing is doubled. Pure: no clock, no DOM.
import type { Methods, Notifications } from "../link";
import { LiveAnswer } from "./live";

export type MessageRow = Methods["session/messages"]["result"]["messages"][number];
export type Update = Notifications["session/update"];
export type Snapshot = Notifications["session/snapshot"];
export type SessionRow = Methods["session/get"]["result"];
export type Question = Methods["question/list"]["result"]["questions"][number];
type Event = Update["event"];
type Kind = "user" | "assistant" | "call" | "result" | "error" | "system";

/** What a file is that came with a message; its bytes are read when somebody sees it. */
export interface SentFile {
  name: string;
  type: string;
  size: number;
}

export interface Row {
  id: string;
  position: number;
  kind: Kind;
  content: string;
  thinking: string;
  turnId: string;
  callId: string;
  tool: string;
  input: string;
  output: string;
  status: string;
  durationMs: number | null;
  model: string;
  provider: string;
  cachedTokens: number | null;
  stopReason: string;
  inputTokens: number | null;
  outputTokens: number | null;
  isSetAside: boolean;
  isDeleted: boolean;
  files: readonly SentFile[];
  /** Grows with each change, so that what shows the row is drawn again only then. */
  stamp: number;
}

/** Messages of the record that are not here: those between two that are. */
export interface Gap {
  from: number;
  to: number;
}

/** What a tab keeps of a session, to show it at once after a reload. */
export interface Kept {
  id: string;
  seq: number;
  epoch: string;
  rows: Row[];
  title: string | null;
  agent: string;
  turnId: string;
  plan: Session["plan"];
  waiting: string[];
}

const EMPTY: Omit<Row, "id" | "position" | "kind"> = {
  content: "",
  thinking: "",
  turnId: "",
  callId: "",
  tool: "",
  input: "",
  output: "",
  status: "",
  durationMs: null,
  model: "",
  provider: "",
  cachedTokens: null,
  stopReason: "",
  inputTokens: null,
  outputTokens: null,
  isSetAside: false,
  isDeleted: false,
  files: [],
  stamp: 1,
};

const KINDS: Record<string, Kind> = {
  user: "user",
  assistant: "assistant",
  tool_call: "call",
  tool_result: "result",
  error: "error",
  system: "system",
};

/** The events that change nothing of what a session shows; a type in neither list is one that we do not know. */
const SILENT = new Set([
  ...["session_created", "attempt_charged", "session_budget_set", "provider_set_aside", "tool_given_up", "child_asks"],
  ...["changes_undone", "memory_stored", "memory_forgotten", "grant_given", "grant_revoked", "session_tainted"],
  ...["files_marked", "private_data_read", "history_given", "session_purged"],
]);

/** The last of a call's output that is shown while it runs. */
export const MAX_OUTPUT_CHARS = 64 * 1024;

export function rowOf(message: MessageRow): Row {
  const kind = KINDS[message.type] ?? "system";
  return {
    id: message.message_id,
    position: message.position,
    kind,
    content: message.content,
    thinking: message.thinking ?? "",
    turnId: message.turn_id ?? "",
    callId: message.call_id ?? "",
    tool: message.tool_name ?? "",
    input: message.tool_input ?? "",
    output: kind === "result" ? (message.tool_output ?? "") : "",
    status: message.tool_status ?? "",
    durationMs: (kind === "assistant" ? message.duration_ms : message.tool_duration_ms) ?? null,
    model: message.model ?? "",
    provider: message.provider ?? "",
    cachedTokens: message.cached_tokens ?? null,
    stopReason: message.stop_reason ?? "",
    inputTokens: message.input_tokens ?? null,
    outputTokens: message.output_tokens ?? null,
    isSetAside: message.is_set_aside ?? false,
    isDeleted: message.is_deleted ?? false,
    files: (message.files ?? []).map((each) => ({ name: each.name, type: each.media_type, size: each.size_bytes })),
    stamp: 1,
  };
}

type Attached = Extract<Event, { type: "input_accepted" }>["attachments"];

/** What an event says of the files that it has, which are in it as base64. */
function filesOf(attached: Attached): SentFile[] {
  return (attached ?? []).map(({ name, media_type, data }) => {
    const padding = data.endsWith("==") ? 2 : data.endsWith("=") ? 1 : 0;
    return { name: name ?? "", type: media_type, size: (data.length / 4) * 3 - padding };
  });
}

type PlanItem = (Event & { type: "plan_set" })["items"][number];
const planned = ({ text, status }: PlanItem) => ({ text, status: status ?? "pending" });

export class Session {
  rows: Row[] = [];
  readonly live = new LiveAnswer();
  readonly outputs = new Map<string, string>();
  /** The calls that wait for a person, by call id: the id of the question. */
  readonly asked = new Map<string, string>();
  readonly questions = new Map<string, Question>();
  /** Inputs that are on record and not in a turn yet. */
  readonly waiting = new Set<string>();
  plan: { text: string; status: string }[] = [];
  turnId = "";
  retry: { message: string; attempt: number } | null = null;
  title: string | null = null;
  /** The root that no node of a cluster has: the session waits for one. */
  waitingFor = "";
  agent = "";
  /** The folder that it works in; empty until it is read. */
  workspace = "";
  /** When it was deleted; `null` while it is not. */
  deletedAt: number | null = null;
  /** Events of types that this page does not know. */
  unknown = 0;
  seq = 0;
  /** The store that `seq` counts in. */
  epoch = "";
  /** Grows with each change but those of the answer that is being written and of output: the list is made again only then. */
  revision = 0;
  #isPlanned = false;
  /** The last event that said whether a turn runs, and the last about a deletion: what was read before it is older. */
  #turnSeq = 0;
  #deletionSeq = 0;
  #at = new Map<string, Row>();
  /** Positions behind which the record has nothing for a while, where one would expect more. */
  readonly #ends = new Set<number>();
  /** The rows of events, whose position no page has said yet. */
  readonly #guessed = new Set<string>();

  constructor(readonly id: string) {}

  /** Take a page of the record: it may come in any order, and say what events have said. */
  takePage(messages: readonly MessageRow[]): void {
    this.revision += 1;
    for (const message of messages) {
      const row = rowOf(message);
      this.#guessed.delete(row.id);
      const known = this.#at.get(row.id);
      if (known === undefined) {
        this.#at.set(row.id, row);
        this.rows.push(row);
      } else Object.assign(known, row, { stamp: known.stamp + 1 });
    }
    const sure = this.rows.filter((row) => !this.#guessed.has(row.id)).sort((one, other) => one.position - other.position);
    // What events alone have said is newer than every page: one that had it would have said so.
    const guessed = this.rows.filter((row) => this.#guessed.has(row.id));
    let position = sure.at(-1)?.position ?? 0;
    for (const row of guessed) row.position = ++position;
    this.rows = [...sure, ...guessed];
    // A page may have an answer whose end no event has said yet.
    const last = this.rows.at(-1);
    if (this.live.text !== "" && last?.kind === "assistant" && last.content.startsWith(this.live.text)) this.live.clear();
  }

  /** Take what a page said of a gap: what it has not, the record has not. */
  takeGap({ from, to }: Gap, messages: readonly MessageRow[], isLatestFirst: boolean, hasMore: boolean): void {
    this.takePage(messages);
    const positions = messages.map((each) => each.position).sort((one, other) => one - other);
    const last = positions.at(-1) ?? from - 1;
    const first = positions[0] ?? to + 1;
    let before = isLatestFirst ? first : from - 1;
    for (const each of isLatestFirst ? positions.slice(1) : positions) {
      if (each > before + 1) this.#ends.add(before);
      before = each;
    }
    if (isLatestFirst && last < to) this.#ends.add(last);
    if (!hasMore) this.#ends.add(isLatestFirst ? from - 1 : last);
  }

  /** The messages in front of a row that are not here; `null` if there are none. */
  gapBefore(at: number): Gap | null {
    const row = this.rows[at]!;
    const before = this.rows[at - 1]?.position ?? 0;
    if (row.position <= before + 1 || this.#guessed.has(row.id) || this.#ends.has(before)) return null;
    return { from: before + 1, to: row.position - 1 };
  }

  /** The gap that has this position, if one does. */
  gapWith(position: number): Gap | null {
    const at = this.rows.findIndex((row) => row.position > position);
    const gap = at < 0 || this.rows[at - 1]?.position === position ? null : this.gapBefore(at);
    return gap !== null && gap.from <= position ? gap : null;
  }

  /** What a tab may keep of it: its end, if it is known how that follows on the record. */
  kept(most: number): Kept {
    const rows = this.rows.slice(-most);
    return {
      ...{ id: this.id, seq: this.seq, epoch: this.epoch, rows, title: this.title, agent: this.agent, turnId: this.turnId, plan: this.plan },
      waiting: [...this.waiting],
    };
  }

  static from(kept: Kept): Session {
    const session = new Session(kept.id);
    // A page of another version may have kept them without something.
    session.rows = kept.rows.map((row) => ({ ...EMPTY, ...row }));
    for (const row of session.rows) session.#at.set(row.id, row);
    session.seq = kept.seq;
    session.epoch = kept.epoch;
    session.title = kept.title;
    session.agent = kept.agent;
    session.turnId = kept.turnId;
    session.plan = kept.plan;
    for (const each of kept.waiting) session.waiting.add(each);
    return session;
  }

  /** Take what a list of sessions says of it, but what events have said later. */
  takeRow(row: SessionRow): void {
    this.revision += 1;
    this.title ??= row.title;
    this.agent ||= row.agent;
    this.workspace = row.workspace;
    if (row.head_seq >= this.seq) this.waitingFor = row.waiting_for ?? "";
    if (row.is_active && this.turnId === "" && row.head_seq >= this.#turnSeq) this.turnId = "?";
    if (row.head_seq >= this.#deletionSeq) this.deletedAt = row.deleted_at_ms;
  }

  /** Take the arguments of the last call that set a plan, unless an event has said a later one. */
  planWas(json: string): void {
    if (this.#isPlanned) return;
    try {
      const { items } = JSON.parse(json) as { items: Partial<PlanItem>[] };
      this.plan = items.flatMap(({ text, status }) => (typeof text === "string" ? [planned({ text, ...(status && { status }) })] : []));
      this.revision += 1;
    } catch {
      // Of another tool that has this name.
    }
  }

  /** Take the questions that wait for an answer now. */
  asksAre(questions: readonly Question[]): void {
    const ids = new Set(questions.map((each) => each.question_id));
    if (questions.every((each) => this.questions.has(each.question_id)) && this.questions.size === ids.size) return;
    this.revision += 1;
    this.questions.clear();
    for (const each of questions) this.questions.set(each.question_id, each);
  }

  /** Note which question a call waits for. */
  ask(callId: string, approvalId: string): void {
    if (this.asked.get(callId) === approvalId) return;
    this.asked.set(callId, approvalId);
    this.#touch(`call:${callId}`);
  }

  snapshot(snapshot: Snapshot): void {
    this.seq = Math.max(this.seq, snapshot.seq);
    this.revision += 1;
    this.live.clear();
    if (snapshot.answer != null) this.live.take(snapshot.answer);
    this.outputs.clear();
    for (const each of snapshot.outputs ?? []) this.outputs.set(each.call_id, each.text);
  }

  update({ event, seq, at_ms }: Update): void {
    if (seq != null) {
      if (seq <= this.seq) return;
      this.seq = seq;
      this.waitingFor = ""; // whoever owns it has written this
    }
    this.#take(event, seq ?? 0, at_ms ?? 0);
  }

  get(id: string): Row | undefined {
    return this.#at.get(id);
  }

  #take(event: Event, seq: number, atMs: number): void {
    if (event.type === "stream_batch") {
      if (event.stream_id !== this.live.streamId) this.revision += 1;
      this.live.take(event);
      return;
    }
    if (event.type !== "call_progress" && event.type !== "child_call") this.revision += 1;
    switch (event.type) {
      case "call_progress":
        this.#output(event.call_id, event.text);
        return;
      case "child_call": {
        // Under the call of `delegate`, as lines of its output: the record of each is the other session's.
        if (event.state !== "finished" || event.status == null) return;
        const sign = event.status === "success" ? "✓" : "✗";
        const said = event.subject ? `${event.name}  ${event.subject}` : event.name;
        this.#output(event.call_id, `${"  ".repeat((event.depth ?? 1) - 1)}${sign} ${said}`);
        return;
      }
      case "message_discarded":
        this.live.clear();
        return;
      case "input_accepted":
        this.#say(event.input_id, (event.source ?? "person") === "person" ? "user" : "system", {
          content: event.text,
          files: filesOf(event.attachments),
        });
        this.waiting.add(event.input_id);
        return;
      case "input_delivered":
      case "input_cancelled":
        this.#arrived(event.input_id);
        return;
      case "turn_started":
        this.#beginTurn(event.turn_id);
        for (const each of event.input_ids) this.#arrived(each);
        return;
      case "turn_resumed":
        this.#beginTurn(event.turn_id);
        return;
      case "turn_suspended":
        this.#endTurn();
        return;
      case "turn_ended":
        this.#endTurn();
        if (event.outcome === "failed" || event.outcome === "budget" || event.outcome === "loop_guard") {
          const content = event.message || event.error_type || event.outcome;
          this.#say(`error:${event.turn_id}`, "error", { content, turnId: event.turn_id });
        }
        return;
      case "message_completed": {
        this.live.clear();
        this.retry = null;
        const texts: string[] = [];
        const thoughts: string[] = [];
        for (const part of event.parts) {
          if (part.type === "text" || part.type === "refusal") texts.push(part.text);
          else if (part.type === "thinking") thoughts.push(part.text);
        }
        this.#say(event.message_id, "assistant", {
          content: texts.join(""),
          thinking: thoughts.join("\n\n"),
          turnId: event.turn_id,
          model: event.model,
          provider: event.provider,
          cachedTokens: event.usage?.cached_tokens ?? null,
          durationMs: event.duration_ms ?? 0,
          stopReason: event.incomplete ? "incomplete" : (event.stop_reason ?? ""),
          inputTokens: event.usage?.input_tokens ?? null,
          outputTokens: event.usage?.output_tokens ?? null,
        });
        return;
      }
      case "attempt_failed":
        this.live.clear();
        this.retry = { message: event.message, attempt: event.attempt };
        return;
      case "call_proposed":
        this.#say(`call:${event.call_id}`, "call", {
          turnId: event.turn_id,
          callId: event.call_id,
          tool: event.name,
          input: event.arguments,
          status: "pending",
        });
        return;
      case "call_started":
        this.asked.delete(event.call_id);
        this.#status(event.call_id, "running");
        return;
      case "call_deferred":
        this.#status(event.call_id, "deferred");
        return;
      case "call_finished": {
        this.outputs.delete(event.call_id);
        this.asked.delete(event.call_id);
        const call = this.#at.get(`call:${event.call_id}`);
        const input = event.arguments ?? call?.input ?? "";
        const durationMs = event.duration_ms ?? 0;
        if (call !== undefined) Object.assign(call, { status: event.status, durationMs, input, stamp: call.stamp + 1 });
        this.#say(`result:${event.call_id}`, "result", {
          turnId: event.turn_id,
          callId: event.call_id,
          tool: event.name,
          content: event.display ?? "",
          output: event.result,
          status: event.status,
          durationMs,
          files: filesOf(event.attachments),
        });
        return;
      }
      case "approval_asked":
        this.asked.set(event.call_id, event.approval_id);
        this.#judged(event.call_id, "waiting", event.arguments);
        return;
      case "approval_answered":
        if (this.asked.get(event.call_id) === event.approval_id) this.asked.delete(event.call_id);
        // The arguments of a denial were a person's wish; the call keeps its own.
        this.#judged(event.call_id, "pending", event.decision === "deny" ? null : event.arguments);
        return;
      case "question_asked":
        this.questions.set(event.question_id, { ...event, session_id: this.id } as Question);
        return;
      case "question_answered":
        this.questions.delete(event.question_id);
        return;
      case "plan_set":
        this.plan = event.items.map(planned);
        this.#isPlanned = true;
        return;
      case "message_sent":
        return; // the call that sent it shows it
      case "model_switched":
        this.#say(`model:${seq}`, "system", {
          content: `Model: ${event.provider}/${event.model}, because: ${event.reason}`,
        });
        return;
      case "answer_rejected":
        this.#say(`rejected:${seq}`, "system", { content: `The answer was not taken: ${event.problem}` });
        return;
      case "agent_switched":
        this.agent = event.agent;
        this.#say(`agent:${seq}`, "system", { content: `Agent: ${event.agent}` });
        return;
      case "history_compacted":
        this.#say(`summary:${seq}`, "system", { content: `Summary: ${event.summary}` });
        return;
      case "turn_set_aside":
        for (const row of this.rows) if (row.turnId === event.turn_id) Object.assign(row, { isSetAside: true, stamp: row.stamp + 1 });
        return;
      case "messages_deleted":
        for (const id of event.message_ids) {
          const row = this.#at.get(id);
          if (row !== undefined) {
            Object.assign(row, { isDeleted: true, content: "", thinking: "", input: "", output: "", files: [], stamp: row.stamp + 1 });
          }
        }
        return;
      case "title_set":
        this.title = event.title;
        return;
      case "session_deleted":
      case "session_restored":
        this.#deletionSeq = this.seq;
        this.deletedAt = event.type === "session_deleted" ? atMs : null;
        return;
      default:
        if (!SILENT.has(event.type)) this.unknown += 1;
    }
  }

  #beginTurn(turnId: string): void {
    this.#turnSeq = this.seq;
    this.turnId = turnId;
  }

  #endTurn(): void {
    this.#turnSeq = this.seq;
    this.turnId = "";
    this.live.clear();
    this.outputs.clear();
    this.retry = null;
    this.questions.clear();
  }

  /** Take what is said of a call that has not begun: a deferred one stays that, and one that was changed has other arguments. */
  #judged(callId: string, status: string, input: string | null | undefined): void {
    this.revision += 1;
    const call = this.#at.get(`call:${callId}`);
    if (call === undefined || !["pending", "waiting", "deferred"].includes(call.status)) return;
    Object.assign(call, { status: call.status === "deferred" ? call.status : status, input: input ?? call.input, stamp: call.stamp + 1 });
  }

  #status(callId: string, status: string): void {
    const call = this.#at.get(`call:${callId}`);
    if (call !== undefined) Object.assign(call, { status, stamp: call.stamp + 1 });
  }

  #arrived(inputId: string): void {
    this.waiting.delete(inputId);
    this.#touch(inputId);
  }

  #output(callId: string, text: string): void {
    const before = this.outputs.get(callId);
    const all = before === undefined ? text : `${before}\n${text}`;
    this.outputs.set(callId, all.slice(-MAX_OUTPUT_CHARS));
  }

  #touch(id: string): void {
    this.revision += 1;
    const row = this.#at.get(id);
    if (row !== undefined) row.stamp += 1;
  }

  #say(id: string, kind: Kind, fields: Partial<Row>): void {
    if (this.#at.has(id)) return; // a page of the record had it already
    const position = (this.rows.at(-1)?.position ?? 0) + 1;
    const row: Row = { ...EMPTY, ...fields, id, kind, position };
    this.#at.set(id, row);
    this.#guessed.add(id);
    this.rows.push(row);
  }
}
