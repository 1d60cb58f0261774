// What is computed for the page, at its edges.
import { afterEach, describe, expect, it, vi } from "vitest";
import { lastTurn, itemsOf } from "../../src/fold/view";
import { LiveAnswer } from "../../src/fold/live";
import { Session, type Update } from "../../src/fold/session";
import { clock, dollars, duration, moment, near, percent, short, whole } from "../../src/parts/amounts";
import { isClosed } from "../../src/parts/blocks";
import { csvOf } from "../../src/parts/csv";
import { refusal, FieldError } from "../../src/parts/refusal";
import { seconds } from "../../src/parts/text";
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
