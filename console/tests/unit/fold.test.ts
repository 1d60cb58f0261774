// The fold comes to what the record says: scripts/console-cases wrote both.
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { rowOf, Session, type Kept, type MessageRow, type Update } from "../../src/fold/session";
import { itemsOf, lastTurn, lister } from "../../src/fold/view";
import { en } from "../../src/words/en";
import { zh } from "../../src/words/zh";

interface Cases {
  sessions: { updates: Update[]; rows: MessageRow[]; is_deleted: boolean }[];
  live: { updates: Update["event"][]; text: string; thinking: string; is_there: boolean; outputs: Record<string, string> }[];
}

const file = new URL("./cases.json", import.meta.url);
const cases: Cases = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Cases) : { sessions: [], live: [] };

/** The types of all events that a record may have, as the daemon describes them. */
interface Schema {
  $defs: Record<string, { properties: { type: { enum: [string] }; event: { anyOf: { $ref: string }[] } } }>;
}
const { $defs } = JSON.parse(readFileSync(new URL("../../protocol.json", import.meta.url), "utf8")) as Schema;
const stored = $defs["Stored"]!.properties.event.anyOf.map(({ $ref }) => $defs[$ref.split("/").at(-1)!]!.properties.type.enum[0]);

function folded(updates: Update[]): Session {
  const session = new Session("s");
  for (const each of updates) session.update(each);
  return session;
}

const plain = (session: Session) => session.rows.map((row) => ({ ...row, durationMs: null, cachedTokens: null, provider: "", stamp: 1 }));
const rowsOf = (rows: MessageRow[]) => rows.map((row) => ({ ...rowOf(row), durationMs: null, cachedTokens: null, provider: "" }));

describe("the fold of events", () => {
  it("has cases to prove it", () => {
    expect(cases.sessions.length).toBeGreaterThanOrEqual(300);
    expect(cases.live.length).toBeGreaterThanOrEqual(240);
    const types = new Set<string>(cases.sessions.flatMap((each) => each.updates.map((update) => update.event.type)));
    expect(stored.length).toBeGreaterThanOrEqual(44);
    expect(stored.filter((each) => !types.has(each))).toEqual([]);
    const live = new Set(cases.live.flatMap((each) => each.updates.map((event) => event.type)));
    expect([...live].sort()).toEqual(["call_finished", "call_progress", "child_call", "message_discarded", "stream_batch"]);
    const all = cases.sessions.flatMap((each) => each.updates.map((update) => update.event));
    expect(all.some((each) => each.type === "approval_answered" && each.decision === "deny")).toBe(true);
    expect(all.some((each) => each.type === "approval_answered" && each.arguments != null)).toBe(true);
    expect(all.some((each) => each.type === "input_accepted" && (each.attachments ?? []).length > 1)).toBe(true);
    expect(all.some((each) => each.type === "call_finished" && (each.attachments ?? []).length > 0)).toBe(true);
    expect(all.some((each) => each.type === "session_created" && each.parent_id != null)).toBe(true);
    expect(all.some((each) => each.type === "message_completed" && each.incomplete === true)).toBe(true);
    expect(new Set(cases.sessions.map((each) => each.is_deleted))).toEqual(new Set([true, false]));
  });

  it.each(cases.sessions.map((each, at) => [at, each] as const))("comes to the messages of the record, session %i", (_, each) => {
    const session = folded(each.updates);
    expect(plain(session)).toEqual(rowsOf(each.rows));
    expect(session.unknown).toBe(0);
    expect(session.turnId).toBe("");
    expect(session.deletedAt !== null).toBe(each.is_deleted);
  });

  it("puts what events said before the first page came behind that page", () => {
    const session = new Session("s");
    const answer = { type: "message_completed", turn_id: "t", message_id: "m2", parts: [{ type: "text", text: "Yes." }], provider: "p", model: "m" };
    session.update({ session_id: "s", seq: 3, event: answer } as Update);
    const asked = { message_id: "m1", session_id: "s", position: 1, type: "user", content: "Is it?", created_at_ms: 0 };
    session.takePage([asked as MessageRow]);
    expect(session.rows.map(({ id, position }) => [id, position])).toEqual([["m1", 1], ["m2", 2]]);
  });

  it.each(cases.sessions.map((each, at) => [at, each] as const))("is the same behind a page that overlaps, session %i", (at, each) => {
    const middle = Math.floor((each.updates.length * (at % 5)) / 5);
    const session = new Session("s");
    session.takePage(each.rows);
    for (const update of each.updates.slice(middle)) session.update(update);
    expect(plain(session)).toEqual(rowsOf(each.rows));
  });

  it.each(cases.live.map((each, at) => [at, each] as const))("comes to the live state, %i", (_, each) => {
    const session = new Session("s");
    let seq = 0;
    for (const event of each.updates) {
      const isStored = event.type === "call_finished";
      session.update(isStored ? { session_id: "s", event, seq: ++seq, at_ms: 0 } : { session_id: "s", event });
    }
    expect(session.live.isThere).toBe(each.is_there);
    expect(session.live.text).toBe(each.text);
    expect(session.live.thinking).toBe(each.thinking);
    expect(Object.fromEntries(session.outputs)).toEqual(each.outputs);
  });

  it("takes an event that comes twice once, and one that it does not know as one that it does not know", () => {
    const session = new Session("s");
    const event = { type: "input_accepted", input_id: "i", text: "hello" } as Update["event"];
    session.update({ session_id: "s", event, seq: 1, at_ms: 0 });
    session.update({ session_id: "s", event, seq: 1, at_ms: 0 });
    session.update({ session_id: "s", event: { type: "from_the_future" } as unknown as Update["event"], seq: 2, at_ms: 0 });
    expect(session.rows.map((row) => row.content)).toEqual(["hello"]);
    expect(session.unknown).toBe(1);
  });

  it("replaces what is live by a snapshot", () => {
    const session = new Session("s");
    const delta = (text: string) => ({ type: "stream_batch", stream_id: "a", offset: 0, events: [{ type: "text_delta", text }] }) as const;
    session.update({ session_id: "s", event: delta("lost ") as unknown as Update["event"] });
    session.snapshot({ session_id: "s", seq: 4, answer: delta("whole ") as never, outputs: [{ call_id: "c", text: "out" }] });
    session.update({ session_id: "s", event: delta("and on") as unknown as Update["event"] });
    expect(session.live.text).toBe("whole and on");
    expect(session.outputs.get("c")).toBe("out");
    expect(session.seq).toBe(4);
  });
});

describe("a session that waits for a node", () => {
  it("waits until something of it is on record again, and not for what is under way", () => {
    const session = new Session("s");
    session.waitingFor = "projects";
    session.update({ session_id: "s", event: { type: "stream_batch", stream_id: "x", events: [] } as unknown as Update["event"], at_ms: 0 } as Update);
    expect(session.waitingFor).toBe("projects");
    session.update({ session_id: "s", event: { type: "input_accepted", input_id: "i", text: "go" } as Update["event"], seq: 1, at_ms: 0 });
    expect(session.waitingFor).toBe("");
  });

  it("says for which, in both languages", () => {
    for (const its of [en, zh]) {
      expect(its.waitsFor("projects")).toContain("projects");
      expect(its.waitsFor("@a")).toMatch(/ a$/);
      expect(its.waitsHere(its.waitsFor("@a"))).toContain(its.waitsFor("@a"));
    }
  });
});

describe("the turn that can be run again", () => {
  it("is none in a session that has nothing but its beginning, or a note", () => {
    const session = new Session("s");
    expect(lastTurn(session, [{ kind: "head" }])).toBeNull();
    session.update({ session_id: "s", event: { type: "agent_switched", agent: "other" } as Update["event"], seq: 1, at_ms: 0 });
    expect(lastTurn(session, [{ kind: "head" }, ...itemsOf(session)])).toBeNull();
    session.update({ session_id: "s", event: { type: "input_accepted", input_id: "i", text: "go" } as Update["event"], seq: 2, at_ms: 0 });
    session.update({ session_id: "s", event: { type: "turn_started", turn_id: "t", input_ids: ["i"], provider: "p", model: "m" } as Update["event"], seq: 3, at_ms: 0 });
    session.update({ session_id: "s", event: { type: "turn_ended", turn_id: "t", outcome: "cancelled" } as Update["event"], seq: 4, at_ms: 0 });
    expect(lastTurn(session, [{ kind: "head" }, ...itemsOf(session)])).toEqual({ itemId: "i", isAnswered: false });
  });
});

describe("a session of which parts are read", () => {
  const rows = (from: number, to: number, gone: number[] = []): MessageRow[] =>
    Array.from({ length: to - from + 1 }, (_, at) => from + at)
      .filter((position) => !gone.includes(position))
      .map((position) => ({ message_id: `m${position}`, session_id: "s", position, type: "user", content: `${position}`, created_at_ms: 0 }));
  const gaps = (session: Session) => session.rows.map((_, at) => session.gapBefore(at)).filter((gap) => gap !== null);

  it("knows what is missing, at its beginning and in the middle, and reads it from either end", () => {
    const session = new Session("s");
    session.takePage(rows(91, 100));
    expect(gaps(session)).toEqual([{ from: 1, to: 90 }]);
    expect([session.gapWith(40), session.gapWith(95), session.gapWith(200)]).toEqual([{ from: 1, to: 90 }, null, null]);
    session.takeGap({ from: 31, to: 90 }, rows(31, 40), false, true);
    expect(gaps(session)).toEqual([{ from: 1, to: 30 }, { from: 41, to: 90 }]);
    expect([session.gapWith(35), session.gapWith(41)]).toEqual([null, { from: 41, to: 90 }]);
    session.takeGap({ from: 41, to: 90 }, rows(81, 90), true, true);
    session.takeGap({ from: 41, to: 80 }, rows(41, 80), true, false);
    session.takeGap({ from: 1, to: 30 }, rows(1, 30), false, false);
    expect(gaps(session)).toEqual([]);
    expect(session.rows.map((row) => row.position)).toEqual(Array.from({ length: 100 }, (_, at) => at + 1));
  });

  it("asks no more for positions that the record does not have", () => {
    for (const isLatestFirst of [true, false]) {
      const session = new Session("s");
      session.takePage(rows(21, 30));
      session.takeGap({ from: 1, to: 20 }, rows(4, 17, [9, 10]), isLatestFirst, false);
      expect(gaps(session)).toEqual([]);
    }
    const empty = new Session("s");
    empty.takePage(rows(21, 30));
    empty.takeGap({ from: 1, to: 20 }, [], true, false);
    expect(gaps(empty)).toEqual([]);
  });

  it("has no gap before what an event said", () => {
    const session = new Session("s");
    session.takePage(rows(1, 3));
    session.update({ session_id: "s", event: { type: "input_accepted", input_id: "i", text: "on" } as Update["event"], seq: 9, at_ms: 0 });
    expect(gaps(session)).toEqual([]);
  });

  it.each(cases.sessions.slice(0, 20).map((each, at) => [at, each] as const))("goes on from what a tab kept of it, session %i", (at, each) => {
    const middle = Math.floor((each.updates.length * (at % 5)) / 5);
    const kept = JSON.parse(JSON.stringify(folded(each.updates.slice(0, middle)).kept(200))) as Kept;
    const session = Session.from(kept);
    for (const update of each.updates.slice(Math.max(0, middle - 3))) session.update(update);
    expect(plain(session)).toEqual(rowsOf(each.rows));
    expect(session.turnId).toBe("");
  });
});

describe("calls of sessions below", () => {
  it("stand under the call that waits for them, once they have ended", () => {
    const session = new Session("s");
    const update = (event: object) => session.update({ session_id: "s", event: event as Update["event"] });
    const call = { type: "child_call", call_id: "a", session_id: "below", child_call_id: "c", name: "shell", subject: "$ make" };
    update({ ...call, state: "started" });
    expect(session.outputs.get("a")).toBeUndefined();
    update({ ...call, state: "finished", status: "success" });
    update({ ...call, child_call_id: "d", depth: 2, state: "finished", status: "denied" });
    expect(session.outputs.get("a")).toBe("✓ shell  $ make\n  ✗ shell  $ make");
  });
});

describe("the list of messages", () => {
  it("is the same one until something of it changes, and what changes has another stamp", () => {
    const session = new Session("s");
    const listed = lister();
    const update = (event: object, seq?: number) => session.update({ session_id: "s", event: event as Update["event"], ...(seq === undefined ? {} : { seq, at_ms: 0 }) });
    const stamps = () => Object.fromEntries(listed(session).map((item) => [item.id, item.stamp]));
    update({ type: "input_accepted", input_id: "i", text: "go" }, 1);
    update({ type: "turn_started", turn_id: "t", input_ids: ["i"], provider: "p", model: "m" }, 2);
    for (const [at, id] of ["a", "b"].entries())
      update({ type: "call_proposed", turn_id: "t", message_id: "m", call_id: id, index: at, name: "look", arguments: "{}" }, 3 + at);
    const before = listed(session);
    const first = stamps();
    update({ type: "call_progress", call_id: "a", text: "working" });
    expect(listed(session)).toBe(before);
    session.ask("b", "q");
    const second = stamps();
    update({ type: "call_finished", turn_id: "t", call_id: "a", name: "look", status: "success", result: "{}" }, 5);
    const third = stamps();
    expect(second["call:a"]).toBeGreaterThan(first["call:a"]!);
    expect(third["call:a"]).toBeGreaterThan(second["call:a"]!);
    expect(third["i"]).toBe(first["i"]);
    const batch = { type: "stream_batch", stream_id: "x", offset: 0, events: [{ type: "text_delta", text: "a" }] };
    update(batch);
    const withLive = listed(session);
    expect(withLive.at(-1)?.kind).toBe("live");
    update(batch);
    expect(listed(session)).toBe(withLive);
    update({ type: "turn_set_aside", turn_id: "t" }, 6);
    expect(stamps()["call:a"]).toBeGreaterThan(third["call:a"]!);
  });

  it("has a call and its result as one card, and calls of one answer together", () => {
    const session = new Session("s");
    const stored = (event: object, seq: number) => session.update({ session_id: "s", event: event as Update["event"], seq, at_ms: 0 });
    stored({ type: "input_accepted", input_id: "i", text: "go" }, 1);
    stored({ type: "turn_started", turn_id: "t", input_ids: ["i"], provider: "p", model: "m" }, 2);
    stored({ type: "message_completed", turn_id: "t", message_id: "m", parts: [], provider: "p", model: "m" }, 3);
    for (const [at, id] of ["a", "b"].entries())
      stored({ type: "call_proposed", turn_id: "t", message_id: "m", call_id: id, index: at, name: "look", arguments: "{}" }, 4 + at);
    stored({ type: "approval_asked", approval_id: "q", turn_id: "t", call_id: "b", name: "look", tier: "workspace", reason: "", arguments: "{}", digest: "" }, 6);
    stored({ type: "call_finished", turn_id: "t", call_id: "a", name: "look", status: "success", result: "{}" }, 7);
    const items = itemsOf(session);
    expect(items.map((item) => item.kind)).toEqual(["message", "calls"]);
    const group = items[1];
    if (group?.kind !== "calls") throw new Error("no calls");
    expect(group.calls.map((call) => [call.row.callId, call.result?.status, call.approvalId])).toEqual([
      ["a", "success", undefined],
      ["b", undefined, "q"],
    ]);
    expect(session.waiting.size).toBe(0);
  });
});
