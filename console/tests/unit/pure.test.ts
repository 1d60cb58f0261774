// What is computed for the page, at its edges.
import { afterEach, describe, expect, it, vi } from "vitest";
import { lastTurn, itemsOf } from "../../src/fold/view";
import { LiveAnswer } from "../../src/fold/live";
import { Session, type Update } from "../../src/fold/session";
import { clock, dollars, duration, moment, near, percent, short, whole } from "../../src/parts/amounts";
import { Link } from "../../src/link";
import { isClosed } from "../../src/parts/blocks";
import { csvOf } from "../../src/parts/csv";
import { refusal, FieldError } from "../../src/parts/refusal";
import { seconds } from "../../src/parts/text";
import { writtenOf } from "../../src/screens/schedules/draft";
import { sourcesOf } from "../../src/screens/tools/sources";
import { ceiling, daysOf } from "../../src/screens/usage/days";
import { Drafts } from "../../src/store/drafts";
import { language } from "../../src/store/settings";

afterEach(() => {
  language.value = "en";
  vi.unstubAllGlobals();
});

describe("amounts", () => {
  const times = () => [840, 1234, 12_345, 185_000, 7_800_000, 180_000_000].map(duration);
  it("are said in the language of the page", () => {
    language.value = "en";
    expect(times()).toEqual(["840 ms", "1.2 s", "12 s", "3 min 5 s", "2 h 10 min", "2 d 2 h"]);
    expect([whole(1234567), whole(null), short(1_234_567)]).toEqual(["1,234,567", "–", "1.2m"]);
    expect(near(0, 30_000)).toBe("30 seconds ago");
    expect(near(7_200_000, 0)).toBe("in 2 hours");
    expect([moment(0), clock(0)].every((each) => each !== "")).toBe(true);
    language.value = "zh";
    expect(times()).toEqual(["840 毫秒", "1.2 秒", "12 秒", "3 分 5 秒", "2 小时 10 分", "2 天 2 小时"]);
    expect(near(-86_400_000 * 3, 0)).toBe("3天前");
    expect([moment(0), clock(0)].every((each) => each !== "")).toBe(true);
  });

  it("of money have as many digits as say something, and what is unknown is a dash", () => {
    expect([0, 12.345, 0.05, 0.00012, null].map(dollars)).toEqual(["$0.00", "$12.35", "$0.050", "$0.00012", "–"]);
    expect([percent(1, 3), percent(null, 3), percent(1, 0), percent(1, null)]).toEqual(["33%", "–", "–", "–"]);
    expect([seconds(1234), seconds(12_345)]).toEqual(["1.2", "12"]);
  });
});

describe("a block of code", () => {
  it("is closed by its own fence alone", () => {
    expect(["```\na\n```", "~~~~\na\n~~~~~", "    indented", "```", "```\na\n~~~", "```\na\n``"].map(isClosed)).toEqual([true, true, true, false, false, false]);
  });
});

describe("a refusal", () => {
  it("names the field that the form shows, the deepest of them", () => {
    expect(refusal(new FieldError("tools[0].name", "no"), ["tools"])).toEqual({ field: "tools", text: "no" });
    expect(refusal(new FieldError("a.b", "no"), ["a.b", "a"])).toEqual({ field: "a.b", text: "no" });
    expect(refusal(new FieldError("x", "no"), ["a"])).toEqual({ field: null, text: "no" });
    expect(refusal(new Error("broken"), ["a"])).toEqual({ field: null, text: "broken" });
    expect(refusal("odd", ["a"])).toEqual({ field: null, text: "odd" });
  });
});

describe("a table", () => {
  it("is taken along as text that is no formula", () => {
    const columns = [{ name: "a", value: (row: string | null) => row }, { name: "n", value: () => 3 }];
    expect(csvOf(columns, ["=1+1", 'say "x"', "plain", null])).toBe('a,n\r\n\'=1+1,3\r\n"say ""x""",3\r\nplain,3\r\n,3\r\n');
  });
});

describe("a draft", () => {
  const stored = () => {
    const kept = new Map<string, string>();
    const own: Record<string, unknown> = {};
    const methods = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void (kept.set(key, value), (own[key] = value)), removeItem: (key: string) => void (kept.delete(key), delete own[key]) };
    vi.stubGlobal("sessionStorage", new Proxy(own, { get: (_, key) => methods[key as keyof typeof methods] ?? own[key as string] }));
    return kept;
  };

  it("is kept by the tab until it is sent, given up or the login ends", () => {
    const kept = stored();
    kept.set("other", "stays");
    new Drafts().set("s1", "text");
    expect(new Drafts().get("s1")).toBe("text");
    expect(new Drafts().get("s2")).toBeUndefined();
    new Drafts().set("s1", "");
    expect(kept.has("callboard.draft.s1")).toBe(false);
    new Drafts().set("s1", "more");
    new Drafts().clear();
    expect([...kept.keys()]).toEqual(["other"]);
  });

  it("is there until a reload where the browser keeps nothing", () => {
    vi.stubGlobal("sessionStorage", undefined);
    const drafts = new Drafts();
    drafts.set("s1", "text");
    expect(drafts.get("s1")).toBe("text");
    drafts.clear();
    expect(drafts.get("s1")).toBeUndefined();
  });
});

describe("an answer that is being written", () => {
  it("has what was refused as its text, and pieces of no call nowhere", () => {
    const live = new LiveAnswer();
    const events = [{ type: "refusal_delta", text: "No." }, { type: "tool_call_delta", index: 3, arguments: "{" }, { type: "tool_call_start", index: 0, call_id: "c", name: "look" }, { type: "usage_update" }];
    live.take({ type: "stream_batch", stream_id: "s1", offset: 0, events } as never);
    expect([live.text, live.calls.size, live.isThere]).toEqual(["No.", 1, true]);
    live.take({ type: "stream_batch", stream_id: "s2", offset: 0, events: [] } as never);
    expect([live.text, live.calls.size]).toEqual(["", 0]);
  });
});

describe("the list of a session", () => {
  let seq = 0;
  const session = (...events: object[]) => {
    const its = new Session("s");
    for (const event of events) its.update({ session_id: "s", seq: ++seq, at_ms: 0, event } as Update);
    return its;
  };
  const accepted = (id: string) => ({ type: "input_accepted", input_id: id, text: id });
  const started = (...input_ids: string[]) => ({ type: "turn_started", turn_id: "t", input_ids, provider: "p", model: "m" });
  const proposed = (id: string) => ({ type: "call_proposed", turn_id: "t", call_id: id, name: "look", arguments: "{}" });
  const finished = (id: string) => ({ type: "call_finished", turn_id: "t", call_id: id, name: "look", status: "success", result: "{}" });

  it("has what waits behind what runs, questions behind all that was said, and calls of one answer together", () => {
    const its = session(accepted("a"), started("a"), proposed("c1"), proposed("c2"), finished("c1"), accepted("b"), { type: "question_asked", question_id: "q", question: "Which?", turn_id: "t", call_id: "c2" });
    const items = itemsOf(its);
    expect(items.map((item) => item.kind)).toEqual(["message", "calls", "question", "message"]);
    expect(items[1]).toMatchObject({ calls: [{ row: { callId: "c1" } }, { row: { callId: "c2" }, result: undefined }] });
    expect(lastTurn(its, items)).toBeNull();
  });

  it("says which turn can be run again", () => {
    const ended = { type: "turn_ended", turn_id: "t", outcome: "answered" };
    const answer = (more: object) => ({ type: "message_completed", turn_id: "t", message_id: "m", provider: "p", model: "m", parts: [{ type: "text", text: "Yes." }], ...more });
    const again = (...events: object[]) => {
      const its = session(...events);
      return lastTurn(its, itemsOf(its));
    };
    expect(again(accepted("a"), started("a"), answer({}), ended)).toEqual({ itemId: "m", isAnswered: true });
    expect(again(accepted("a"), started("a"), answer({ incomplete: true }), ended)).toEqual({ itemId: "m", isAnswered: false });
    expect(again(accepted("a"), started("a"), proposed("c1"), finished("c1"), ended)).toEqual({ itemId: "call:c1", isAnswered: false });
    expect(again(accepted("a"), started("a"), { ...ended, outcome: "failed", error_type: "auth" })).toEqual({ itemId: "error:t", isAnswered: false });
    expect(again(accepted("a"), started("a"), { type: "agent_switched", agent: "x" }, ended)).toEqual({ itemId: "a", isAnswered: false });
    expect(again({ type: "agent_switched", agent: "x" })).toBeNull();
    expect(again()).toBeNull();
    expect(lastTurn(session(), [{ kind: "head" }])).toBeNull();
  });
});

describe("a session, event by event", () => {
  let seq = 0;
  const take = (its: Session, ...events: object[]) => {
    for (const event of events) its.update({ session_id: "s", seq: ++seq, at_ms: 0, event } as Update);
    return its;
  };
  const row = (id: string, position: number, more: object = {}) => ({ message_id: id, session_id: "s", position, type: "assistant", content: "Yes.", created_at_ms: 0, ...more });

  it.each([
    ['{"items":[{"text":"look"},{"text":"write","status":"done"}]}', ["look pending", "write done"]],
    ['{"items":[{"text":7},{"title":"of another tool"}]}', []],
    ['{"items":"none"}', []],
    ['{"items":[null]}', []],
    ["null", []],
    ["no JSON", []],
    ["{}", []],
  ])("has the plan of before it was opened: %s", (json, plan) => {
    const its = new Session("s");
    its.planWas(json);
    expect(its.plan.map((each) => `${each.text} ${each.status}`)).toEqual(plan);
  });

  it("has files, a plan, notes and what is set aside, and what no page knew before", () => {
    const its = take(
      new Session("s"),
      { type: "input_accepted", input_id: "i", text: "Go.", source: "deferred", attachments: [{ media_type: "image/png", data: "" }, { name: "a.txt", media_type: "text/plain", data: "TWlsaw==" }] },
      { type: "turn_started", turn_id: "t", input_ids: ["i"] },
      { type: "plan_set", items: [{ text: "look" }, { text: "write", status: "done" }] },
      { type: "model_switched", provider: "p", model: "m", reason: "it is busy" },
      { type: "answer_rejected", problem: "no JSON" },
      { type: "turn_suspended", turn_id: "t" },
      { type: "turn_resumed", turn_id: "t" },
      { type: "input_accepted", input_id: "j", text: "More." },
      { type: "input_accepted", input_id: "k", text: "Less." },
      { type: "input_delivered", input_id: "j" },
      { type: "input_cancelled", input_id: "k" },
      { type: "call_started", turn_id: "t", call_id: "unknown" },
      { type: "approval_asked", call_id: "unknown", approval_id: "a" },
      { type: "approval_answered", call_id: "unknown", approval_id: "b", decision: "allow" },
      { type: "messages_deleted", message_ids: ["j", "none"] },
      { type: "something_new" },
    );
    expect(its.get("i")?.files).toEqual([{ name: "", type: "image/png", size: 0 }, { name: "a.txt", type: "text/plain", size: 4 }]);
    expect(its.plan).toEqual([{ text: "look", status: "pending" }, { text: "write", status: "done" }]);
    its.planWas('{"items":[{"text":"of an earlier call"}]}');
    expect(its.plan).toHaveLength(2);
    expect(its.rows.map((each) => [each.kind, each.content])).toEqual([["system", "Go."], ["system", "Model: p/m, because: it is busy"], ["system", "The answer was not taken: no JSON"], ["user", ""], ["user", "Less."]]);
    expect([its.turnId, its.waiting.size, its.unknown]).toEqual(["t", 0, 1]);
    take(its, { type: "turn_ended", turn_id: "t", outcome: "failed" });
    expect(its.rows.at(-1)).toMatchObject({ kind: "error", content: "failed" });
  });

  it("has what calls below it did as lines of the call that waits for them", () => {
    const its = take(
      new Session("s"),
      { type: "call_proposed", turn_id: "t", call_id: "c", name: "delegate", arguments: "{}" },
      { type: "child_call", call_id: "c", name: "read_file", state: "started" },
      { type: "child_call", call_id: "c", name: "read_file", subject: "a.md", state: "finished", status: "success" },
      { type: "child_call", call_id: "c", name: "look", state: "finished", status: "error", depth: 2 },
    );
    expect(its.outputs.get("c")).toBe("✓ read_file  a.md\n  ✗ look");
  });

  it("takes what is under way from a snapshot, and gives way to the record", () => {
    const its = new Session("s");
    const answer = { type: "stream_batch", stream_id: "x", offset: 0, events: [{ type: "text_delta", text: "Yes" }] };
    its.snapshot({ session_id: "s", seq: 3, answer, outputs: [{ call_id: "c", text: "line" }] } as never);
    expect([its.live.text, its.outputs.get("c"), its.seq]).toEqual(["Yes", "line", 3]);
    its.takePage([row("m", 1, { type: "user" }), row("n", 2)] as never);
    expect(its.live.isThere).toBe(false);
    its.takePage([row("n", 2, { content: "Yes, so.", type: "something" })] as never);
    expect(its.get("n")).toMatchObject({ content: "Yes, so.", kind: "system", stamp: 2 });
    its.snapshot({ session_id: "s", seq: 1 } as never);
    expect([its.live.isThere, its.outputs.size, its.seq]).toEqual([false, 0, 3]);
  });

  it("says again what waits only when that is something else", () => {
    const its = take(new Session("s"), { type: "call_proposed", turn_id: "t", call_id: "c", name: "ask_user", arguments: "{}" });
    const question = (id: string) => ({ question_id: id, session_id: "s", question: "Which?" }) as never;
    const before = its.revision;
    its.asksAre([]);
    expect(its.revision).toBe(before);
    its.asksAre([question("q")]);
    const then = its.revision;
    its.asksAre([question("q")]);
    expect(its.revision).toBe(then);
    its.asksAre([question("r")]);
    expect([...its.questions.keys()]).toEqual(["r"]);
    its.ask("c", "a");
    const asked = its.revision;
    its.ask("c", "a");
    expect([its.revision, its.asked.get("c")]).toEqual([asked, "a"]);
    const list = itemsOf(take(its, { type: "call_finished", turn_id: "t", call_id: "d", name: "look", status: "success", result: "{}" }));
    expect(list.map((each) => each.kind)).toEqual(["calls", "calls", "question"]);
  });
});

describe("the link, when what it waits for comes late", () => {
  it("does what the state is then, and nothing for a connection that is no more", async () => {
    const sockets: Record<string, any>[] = [];
    let isReady: (ready: boolean) => void = () => undefined;
    const timers: (() => void)[] = [];
    const link = new Link({
      open: () => {
        const socket = { sent: [] as { id: number }[], onopen: null, onmessage: null, onclose: null, send: (text: string) => void socket.sent.push(JSON.parse(text)), close: () => undefined };
        sockets.push(socket);
        return socket as never;
      },
      isReady: () => new Promise((resolve) => (isReady = resolve)),
      clock: { now: () => 0, after: (_, run) => (timers.push(run), () => undefined) },
    });
    const settle = () => new Promise((resolve) => setTimeout(resolve, 0));
    link.start();
    const [first] = sockets;
    link.start(); // another one
    first!.onopen?.();
    first!.onmessage?.({ data: "{}" });
    first!.onclose?.({ code: 1006, reason: "" });
    expect(link.state.value.kind).toBe("connecting");
    const second = sockets[1]!;
    second.onclose({ code: 1006, reason: "" });
    link.stop();
    isReady(true);
    await settle();
    expect(link.state.value.kind).toBe("idle");
    // A greeting that is refused for another reason is tried again.
    link.start();
    const third = sockets[2]!;
    third.onopen();
    third.onmessage({ data: JSON.stringify({ id: 999, result: {} }) });
    third.onmessage({ data: JSON.stringify({ result: {} }) });
    third.onmessage({ data: JSON.stringify({ method: "runtime/stopping", params: {} }) });
    third.onmessage({ data: JSON.stringify({ id: third.sent.at(-1).id, error: { code: -1, message: "not now" } }) });
    await settle();
    expect(link.state.value.kind).toBe("waiting");
    timers.at(-1)!();
    expect(sockets.length).toBe(4);
    const fourth = sockets[3]!;
    fourth.onopen();
    link.stop();
    await settle();
    expect(link.state.value.kind).toBe("idle");
  });
});

describe("what screens list", () => {
  it("has tools by their source, also of plug-ins and of servers that are no more", () => {
    const tool = (name: string, source?: string) => ({ name, description: "Does it.", ...(source === undefined ? {} : { source }) }) as never;
    const found = sourcesOf([tool("b__one", "b"), tool("z", "plug"), tool("a", ""), tool("y", "alpha"), tool("a__x"), tool("c")], new Set(["a"]), " ");
    expect(found.map((each) => [each.kind, each.name, each.tools.length])).toEqual([["builtin", "", 2], ["plugin", "alpha", 1], ["plugin", "b", 1], ["plugin", "plug", 1], ["mcp", "a", 1]]);
    expect(sourcesOf([tool("one"), tool("two")], new Set(), "TWO")[0]?.tools.length).toBe(1);
  });

  it("has days without a sum, and sums without a number", () => {
    const sums = [{ name: "2026-01-01", cost: null }, { name: "2026-01-03", input_tokens: 5, cached_tokens: 2, output_tokens: 1 }] as never;
    expect(daysOf(sums, "tokens", "", "2026-01-03").map((day) => day.values)).toEqual([[0, 0, 0], [0, 0, 0], [3, 2, 1]]);
    expect(daysOf(sums, "cost", "2025-12-31", "2026-01-04").map((day) => day.values)).toEqual([[0], [0], [0], [0], [0]]);
    expect([ceiling([]), ceiling([{ name: "", values: [7] }]), ceiling([{ name: "", values: [9.9999995] }])]).toEqual([1, 8, 10]);
  });

  it("has schedules as they are written, with what an empty form begins with", () => {
    expect(writtenOf(null, "UTC")).toMatchObject({ kind: "cron", when: "0 9 * * 1-5", zone: "UTC", agent: "general", session: "new" });
    expect(writtenOf({ name: "n", prompt: "p", every: "2h" } as never, "UTC")).toMatchObject({ kind: "every", when: "2h" });
    expect(writtenOf({ name: "n", prompt: "p", at: "09:00", zone: "Asia/Tokyo", agent: "a", workspace: "/w", session: "s", missed: "skip", overlap: "queue", unattended: "deny" } as never, "UTC")).toMatchObject({ kind: "at", zone: "Asia/Tokyo", workspace: "/w" });
    expect(writtenOf({ name: "n", prompt: "p" } as never, "UTC")).toMatchObject({ kind: "cron", when: "" });
  });
});
