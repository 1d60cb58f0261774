import { describe, expect, it } from "vitest";
import { CallError } from "../../src/link";
import { csvOf } from "../../src/parts/csv";
import { FieldError, refusal } from "../../src/parts/refusal";
import { hrefOf, routeOf } from "../../src/store/route";

describe("addresses", () => {
  it.each([
    ["", { screen: "chat", id: null }],
    ["#/", { screen: "chat", id: null }],
    ["#ticket=abc", { screen: "chat", id: null }],
    ["#/chat/new", { screen: "chat", id: null }],
    ["#/chat/s%2F1", { screen: "chat", id: "s/1" }],
    ["#/chat/s1/m2", { screen: "chat", id: "s1", messageId: "m2", position: 0 }],
    ["#/chat/s1/call%3A2/31", { screen: "chat", id: "s1", messageId: "call:2", position: 31 }],
    ["#/chat/s1/m2/far", { screen: "chat", id: "s1", messageId: "m2", position: 0 }],
    ["#/approvals", { screen: "approvals" }],
    ["#/sessions", { screen: "sessions" }],
    ["#/turn/s1/t1", { screen: "page", name: "turn", parts: ["s1", "t1"] }],
    ["#/agents/", { screen: "page", name: "agents", parts: [] }],
    ["#/nowhere/%E0%A4", { screen: "page", name: "nowhere", parts: ["%E0%A4"] }],
  ])("%s is where it says", (hash, route) => {
    expect(routeOf(hash)).toEqual(route);
  });

  it("come back as what they were made of", () => {
    const parts = ["a/b", "100 %", "中文", "#?&"];
    expect(routeOf(hrefOf("agents", ...parts))).toEqual({ screen: "page", name: "agents", parts });
  });
});

describe("CSV", () => {
  const columns = [
    { name: "who", value: (row: [string, number | null]) => row[0] },
    { name: "n", value: (row: [string, number | null]) => row[1] },
  ];
  it("quotes what has to be, and keeps numbers", () => {
    expect(csvOf(columns, [["plain", 1], ['a "b", c', -2.5], ["two\nlines", null]])).toBe('who,n\r\nplain,1\r\n"a ""b"", c",-2.5\r\n"two\nlines",\r\n');
  });

  it("lets no text be a formula of a spreadsheet", () => {
    for (const text of ["=1+1", "+1", "-1", "@x", "\t=", "＝1", "  =1"]) expect(csvOf(columns, [[text, 0]])).toContain(`'${text}`);
  });
});

describe("what was refused", () => {
  it("stands at the field that the server names, or at the one that has it", () => {
    const fields = ["name", "tools", "per_turn.max_cost"];
    expect(refusal(new CallError("no", "validation", "name"), fields)).toEqual({ field: "name", text: "Not valid: no" });
    expect(refusal(new CallError("no", "validation", "agent.tools[2]"), fields)).toEqual({ field: "tools", text: "Not valid: no" });
    expect(refusal(new CallError("no", "validation", "per_turn.max_cost"), fields)).toEqual({ field: "per_turn.max_cost", text: "Not valid: no" });
    expect(refusal(new FieldError("name", "empty"), fields)).toEqual({ field: "name", text: "empty" });
  });

  it("is said of the whole when no field of the form is meant", () => {
    expect(refusal(new CallError("no", "validation", "other"), ["name"])).toEqual({ field: null, text: "Not valid: no" });
    expect(refusal(new CallError("no", "conflict"), ["name"])).toEqual({ field: null, text: "Conflict: no" });
    expect(refusal("broken", [])).toEqual({ field: null, text: "broken" });
  });
});
