// The timeline of a turn: rows over time from its events, and which stretch is in view.
import { describe, expect, it } from "vitest";
import { covered, lasted, ticks, turnOf, type TurnRecord, type TurnRow } from "../../src/fold/turn";
import { fitting, linesOf } from "../../src/screens/turn/picture";
import { LEAST_MS, moved, zoomed } from "../../src/screens/turn/view";

type Said = Record<string, unknown> & { type: string };

/** A record of events at milliseconds; what goes on does so until `now`. */
function record(events: readonly (readonly [number, Said])[], more: Partial<TurnRecord> = {}): TurnRecord {
  const last = events.at(-1)?.[0] ?? 0;
  return {
    session_id: "s",
    turn_id: "t",
    events: events.map(([at_ms, event], at) => ({ session_id: "s", seq: at + 1, at_ms, event: { turn_id: "t", ...event } })) as unknown as TurnRecord["events"],
    is_over: events.at(-1)?.[1].type === "turn_ended",
    has_more: false,
    delegated: [],
    running: [],
    now_ms: last,
    ...more,
  };
}

const input = (at: number) => [at, { type: "input_accepted", input_id: "i", text: "Go." }] as const;
const started = (at: number) => [at, { type: "turn_started", input_ids: ["i"], provider: "p", model: "m" }] as const;
const ended = (at: number, outcome = "answered") => [at, { type: "turn_ended", outcome }] as const;
const answer = (at: number, id: string, more: object = {}) =>
  [at, { type: "message_completed", message_id: id, provider: "p", model: "m", parts: [{ type: "text", text: "Yes." }], stop_reason: "end_turn", duration_ms: 100, first_ms: 40, ...more }] as const;
const proposed = (at: number, id: string, group = "m1", name = "read_file") =>
  [at, { type: "call_proposed", message_id: group, call_id: id, index: 0, name, arguments: '{"path":"a"}' }] as const;
const begun = (at: number, id: string) => [at, { type: "call_started", call_id: id }] as const;
const finished = (at: number, id: string, duration_ms: number, status = "success") =>
  [at, { type: "call_finished", call_id: id, name: "read_file", status, result: "", duration_ms }] as const;
const asked = (at: number, id: string) => [at, { type: "approval_asked", approval_id: `a-${id}`, call_id: id, name: "read_file", tier: "workspace", reason: "It asks.", arguments: "{}", digest: "" }] as const;
const said = (at: number, id: string, decision: string) => [at, { type: "approval_answered", approval_id: `a-${id}`, call_id: id, decision, answered_by: "ada" }] as const;

const parts = (row: TurnRow | undefined) => row?.parts.map((part) => [part.kind, part.from, part.to]);
const named = (rows: readonly TurnRow[], id: string) => rows.find((row) => row.id === `s/${id}`);

describe("the rows of a turn", () => {
  it("are its input, its model calls and its calls, each when it was", () => {
    const turn = turnOf(record([input(0), started(50), answer(160, "m1"), proposed(160, "c"), finished(260, "c", 80), answer(400, "m2"), ended(405)]));
    expect(turn.rows.map((row) => [row.kind, parts(row)])).toEqual([
      ["input", [["wait", 0, 50]]],
      ["model", [["run", 60, 160]]],
      ["call", [["wait", 160, 180], ["run", 180, 260]]],
      ["model", [["run", 300, 400]]],
    ]);
    expect([turn.from, turn.to, turn.outcome, turn.isOver]).toEqual([0, 405, "answered", true]);
    expect([turn.model, turn.tools, turn.person, turn.waited]).toEqual([200, 80, 0, 20]);
    expect(named(turn.rows, "model:m1")?.first).toBe(100);
  });

  it("tell waiting for a person and for a lock from running", () => {
    const turn = turnOf(record([started(0), answer(10, "m1"), proposed(10, "c"), asked(20, "c"), said(120, "c", "allow"), begun(150, "c"), finished(200, "c", 50), ended(210)]));
    const call = named(turn.rows, "call:c");
    expect(parts(call)).toEqual([["wait", 10, 20], ["person", 20, 120], ["wait", 120, 150], ["run", 150, 200]]);
    expect(lasted(call!, ["person"], 0)).toBe(100);
    const approval = named(turn.rows, "approval:a-c");
    expect([approval?.state, approval?.about, parts(approval)]).toEqual(["allow", "ada", [["person", 20, 120]]]);
    // The question stands below its call.
    expect(turn.rows.map((row) => row.kind)).toEqual(["model", "call", "approval"]);
    expect([turn.person, turn.waited]).toEqual([100, 40]);
  });

  it("show that a call that was denied never ran", () => {
    const turn = turnOf(record([started(0), answer(10, "m1"), proposed(10, "c"), asked(10, "c"), said(60, "c", "deny"), finished(60, "c", 0, "denied"), ended(70)]));
    expect(parts(named(turn.rows, "call:c"))).toEqual([["person", 10, 60]]);
    expect(named(turn.rows, "call:c")?.state).toBe("denied");
  });

  it("show attempts that failed, and ask again when the wait is over", () => {
    const failed = [100, { type: "attempt_failed", provider: "p", model: "m", attempt: 1, error_type: "provider", message: "Busy.", wait_seconds: 0.5 }] as const;
    const turn = turnOf(record([started(0), failed, answer(800, "m1", { duration_ms: 0, first_ms: 0 }), ended(800)]));
    expect(turn.rows.map((row) => [row.state, parts(row), row.first])).toEqual([
      ["failed", [["failed", 0, 100]], null],
      ["end_turn", [["run", 600, 800]], null],
    ]);
    expect(turn.model).toBe(300);
  });

  it("say what calls of one answer took together and would have alone", () => {
    const calls = [proposed(10, "a"), proposed(10, "b"), proposed(10, "c")];
    const turn = turnOf(record([started(0), answer(10, "m1"), ...calls, finished(110, "a", 100), finished(210, "b", 200), finished(110, "c", 100), ended(220)]));
    expect(turn.groups).toEqual([{ id: "m1", count: 3, first: 1, last: 3, together: 200, alone: 400 }]);
    expect(linesOf(turn).map((line) => line.kind)).toEqual(["row", "group", "row", "row", "row"]);
    const one = turnOf(record([started(0), answer(10, "m1"), proposed(10, "a"), finished(110, "a", 100), ended(220)]));
    expect(one.groups).toEqual([]);
  });

  it("go on until now while the turn runs", () => {
    const events = [started(0), answer(10, "m1"), proposed(10, "a"), proposed(10, "b")];
    const running = [{ session_id: "s", turn_id: "t", call_id: "b", tool: "read_file", seconds: 0.3 }];
    const turn = turnOf(record(events, { now_ms: 500, running }));
    expect(parts(named(turn.rows, "call:a"))).toEqual([["wait", 10, null]]);
    expect(parts(named(turn.rows, "call:b"))).toEqual([["wait", 10, 200], ["run", 200, null]]);
    expect([turn.to, turn.tools, turn.isOver]).toEqual([500, 300, false]);
    const asking = turnOf(record([started(0)], { now_ms: 70 }));
    expect(asking.rows.map((row) => [row.id, parts(row)])).toEqual([["s/model:now", [["run", 0, null]]]]);
  });

  it("have what was delegated below its call", () => {
    const child = { ...record([started(30), answer(90, "x"), ended(95)]), session_id: "child" };
    const delegated = [{ session_id: "child", call_id: "c", agent: "general", title: "", is_active: false }];
    const own = record([started(0), answer(10, "m1"), proposed(10, "c", "m1", "delegate"), proposed(10, "d"), finished(20, "d", 10), finished(100, "c", 90), ended(110)], { delegated });
    expect(turnOf(own).rows.map((row) => row.depth)).toEqual([0, 0, 0]);
    const turn = turnOf(own, new Map([["child", child]]));
    expect(turn.rows.map((row) => [row.depth, row.kind, row.sessionId])).toEqual([[0, "model", "s"], [0, "call", "s"], [1, "model", "child"], [0, "call", "s"]]);
    // A bracket goes round it, and its time is not counted twice.
    expect(turn.groups[0]).toMatchObject({ first: 1, last: 3 });
    expect(turn.model).toBe(10 + 90);
  });

  it("show a suspension, a question, a summary and a late result", () => {
    const turn = turnOf(
      record([
        started(0),
        [40, { type: "history_compacted", rounds: 2, summary: "Before.", provider: "p", model: "m" }],
        answer(60, "m1", { duration_ms: 20 }),
        proposed(60, "q", "m1", "ask_user"),
        [70, { type: "question_asked", question_id: "q1", call_id: "q", question: "Tea?" }],
        [90, { type: "turn_suspended", call_ids: ["q"] }],
        [190, { type: "turn_resumed" }],
        [200, { type: "question_answered", question_id: "q1", call_id: "q", answer: "Yes.", answered_by: "ada" }],
        finished(205, "q", 5),
        finished(300, "old", 20),
        [320, { type: "attempt_charged", provider: "p", model: "m" }],
        ended(330, "cancelled"),
      ]),
    );
    expect(turn.rows.map((row) => row.kind)).toEqual(["summary", "model", "call", "question", "pause", "call", "model"]);
    expect(parts(named(turn.rows, "pause:6"))).toEqual([["wait", 90, 190]]);
    expect(parts(named(turn.rows, "call:q"))).toEqual([["wait", 60, 70], ["person", 70, 200], ["run", 200, 205]]);
    expect(turn.rows.at(-1)?.state).toBe("broken");
    expect(turn.outcome).toBe("cancelled");
  });
});

describe("what is in view", () => {
  it("has names that fit, at least in their beginning", () => {
    expect(fitting("read_file", 100)).toBe("read_file");
    expect(fitting("a_tool_of_a_long_name", 60)).toBe("a_tool_o…");
    expect(fitting("查看工作区里的文件", 60)).toBe("查看工作…");
    expect(fitting("abc", 1)).toBe("a…");
  });

  it("is covered once, however many were beside each other", () => {
    const part = (from: number, to: number | null) => ({ kind: "run" as const, from, to });
    expect(covered([part(0, 10), part(5, 20), part(30, null)], 40)).toBe(30);
    expect(covered([], 40)).toBe(0);
  });

  it("has a scale of round numbers", () => {
    expect(ticks(0, 2400, 5)).toEqual([0, 500, 1000, 1500, 2000]);
    expect(ticks(130, 180, 4)).toEqual([140, 160, 180]);
    expect(ticks(0, 0, 4)).toEqual([0]);
  });

  it("is zoomed about a place, and never beyond all or below a least", () => {
    const all = { from: 0, to: 1000 };
    expect(zoomed(all, all, 0.5, 0.25)).toEqual({ from: 125, to: 625 });
    expect(zoomed({ from: 0, to: 500 }, all, 4, 0)).toBeNull();
    expect(zoomed({ from: 100, to: 130 }, all, 0.01, 0)).toEqual({ from: 100, to: 100 + LEAST_MS });
    expect(moved({ from: 125, to: 625 }, all, 1)).toEqual({ from: 500, to: 1000 });
    expect(moved({ from: 125, to: 625 }, all, -1)).toEqual({ from: 0, to: 500 });
    expect(moved(all, all, 1)).toBeNull();
  });
});

describe("a turn of which the record is sparse", () => {
  it("says what waited, was broken off, summed up, put off and asked, and nothing of what it does not know", () => {
    const events = [
      input(0),
      [0, { type: "input_delivered", input_id: "unknown" }],
      started(10),
      [20, { type: "attempt_charged", provider: "p", model: "m" }],
      [30, { type: "history_compacted", provider: "p", model: "m", summary: "So far.", why_left_out: "" }],
      [35, { type: "history_compacted", provider: "p", model: "m", summary: "", why_left_out: "It was too long." }],
      [40, { type: "model_switched", provider: "q", model: "n", reason: "busy" }],
      answer(60, "m1", { duration_ms: 0, first_ms: 0, stop_reason: "", parts: [] }),
      [60, { type: "model_switched", provider: "q", model: "o", reason: "busy" }],
      proposed(60, "c"),
      [61, { type: "question_asked", question_id: "q1", call_id: "c", question: "Which?" }],
      [62, { type: "question_asked", question_id: "q2", call_id: "none", question: "Who?" }],
      [70, { type: "question_answered", question_id: "q1", answered_by: "ada", answer: "This." }],
      [71, { type: "question_answered", question_id: "q2", answered_by: "", answer: "" }],
      [72, { type: "question_answered", question_id: "unknown", answered_by: "ada", answer: "" }],
      [80, { type: "approval_answered", approval_id: "unknown", call_id: "c", decision: "allow", answered_by: "ada" }],
      begun(85, "late"),
      asked(86, "later"),
      [87, { type: "approval_answered", approval_id: "a-later", call_id: "later", decision: "deny", answered_by: "", reason: "No." }],
      [88, { type: "call_deferred", call_id: "c", result: "" }],
      [89, { type: "call_deferred", call_id: "none", result: "" }],
      [90, { type: "call_finished", call_id: "last", name: "look", status: "success", result: "", display: "Looked.", duration_ms: 5 }],
      [91, { type: "turn_resumed" }],
      [92, { type: "turn_suspended" }],
      [99, { type: "turn_resumed" }],
      answer(120, "m2", { incomplete: true }),
      [121, { type: "something_new" }],
      [130, { type: "turn_ended", outcome: "failed", message: "It is ill." }],
    ] as const;
    const turn = turnOf(record(events as never));
    expect(named(turn.rows, "summary:5")?.about).toBe("So far.");
    expect(named(turn.rows, "summary:6")?.about).toBe("It was too long.");
    expect(named(turn.rows, "model:m1")).toMatchObject({ state: "done", first: null, about: "" });
    expect(parts(named(turn.rows, "model:m2"))).toEqual([["failed", 20, 120]]);
    expect(named(turn.rows, "question:q1")).toMatchObject({ state: "answered", about: "ada" });
    expect(named(turn.rows, "question:q2")).toMatchObject({ state: "ended", about: "Who?" });
    expect(named(turn.rows, "approval:a-later")).toMatchObject({ state: "deny", about: "No." });
    expect(named(turn.rows, "call:c")?.state).toBe("deferred");
    expect(named(turn.rows, "call:last")).toMatchObject({ state: "success", about: "Looked." });
    expect(parts(named(turn.rows, "pause:24"))).toEqual([["wait", 92, 99]]);
  });

  it("is nothing where there is nothing, and goes on where nobody said that it is over", () => {
    const none = turnOf(record([], { now_ms: 7, is_over: false }));
    expect([none.rows.length, none.from, none.to]).toEqual([0, 7, 8]); // a picture has a width
    expect(turnOf(record([], { now_ms: 7, is_over: true })).to).toBe(8);
    const waiting = turnOf(record([started(0), [10, { type: "attempt_failed", provider: "p", model: "m", message: "busy", wait_seconds: 60, attempt: 1 }]] as never, { now_ms: 500 }));
    expect(named(waiting.rows, "model:now")).toBeUndefined();
  });
});
