import { describe, expect, it } from "vitest";
import { FieldError } from "../../src/parts/refusal";
import type { AgentRow, SettingRow } from "../../src/protocol";
import { draftOf, EMPTY, formOf } from "../../src/store/agents";
import { canBeSet, grouped, shapeOf, valueOf } from "../../src/store/setting";

const ROW: AgentRow = {
  name: "reader",
  description: "Reads",
  prompt: "You read.\n",
  model: "house/large",
  fallbacks: ["house/small", "other/x"],
  policy: "strict",
  auto_hosts: ["docs.python.org"],
  defer: true,
  max_output_tokens: 100,
  temperature: 0.5,
  thinking: "low",
  turn_budget: { tokens: 5000, cost_usd: 0.25 },
  session_budget: null,
  skills: ["one"],
  tools: [{ name: "read_file" }, { name: "gone" }],
  has_all_tools: false,
  updated_at_ms: 7,
};

describe("the form of an agent", () => {
  it("gives back what it was given", () => {
    const { tools, has_all_tools: _, ...rest } = ROW;
    expect(draftOf(formOf(ROW), "no")).toEqual({ ...rest, tools: tools!.map((each) => each.name) });
  });

  it("leaves out what is not said: all tools, all skills, no limits", () => {
    const draft = draftOf({ ...EMPTY, name: " new " }, "no");
    expect(draft).toMatchObject({ name: "new", model: null, tools: null, skills: null, turn_budget: null, session_budget: null, thinking: null });
    expect("updated_at_ms" in draft).toBe(false);
    expect(draftOf({ ...EMPTY, hasAllTools: false, hasAllSkills: false }, "no")).toMatchObject({ tools: [], skills: [] });
  });

  it.each([
    ["turn_budget.tokens", { turn_budget: { ...EMPTY.turn_budget, tokens: "1.5" } }],
    ["session_budget.seconds", { session_budget: { ...EMPTY.session_budget, seconds: "-1" } }],
    ["max_output_tokens", { max_output_tokens: "many" }],
    ["temperature", { temperature: "1e999" }],
  ])("names what is no number: %s", (field, change) => {
    const tried = () => draftOf({ ...EMPTY, ...change }, "no");
    expect(tried).toThrow(FieldError);
    try {
      tried();
    } catch (error) {
      expect((error as FieldError).field).toBe(field);
    }
  });
});

describe("a setting", () => {
  const whole = shapeOf({ type: "integer", minimum: 1, maximum: 10 });
  const words = shapeOf({ anyOf: [{ type: "null" }, { enum: ["words", "model"] }] });
  it("is written as its schema says", () => {
    expect(whole).toEqual({ kind: "integer", options: [], least: 1, most: 10, isOptional: false });
    expect(words).toEqual({ kind: "string", options: ["words", "model"], least: null, most: null, isOptional: true });
    expect(shapeOf({ type: "number", exclusiveMinimum: 0 }).least).toBe(0);
    expect(shapeOf({}).kind).toBe("string");
  });

  it("is sent as what it is", () => {
    expect(valueOf(whole, "7", "no")).toBe(7);
    expect(valueOf(words, "model", "no")).toBe("model");
    expect(valueOf(shapeOf({ type: "boolean" }), "true", "no")).toBe(true);
    expect(valueOf(shapeOf({ type: "number" }), "0.5", "no")).toBe(0.5);
    for (const text of ["", " ", "1.5", "x"]) expect(() => valueOf(whole, text, "no")).toThrow(FieldError);
  });

  it("can be set unless the operator's own file says it", () => {
    const row: SettingRow = { name: "limits.x", value: 1, needs_restart: false, can_be_set: true, schema: {}, place: "" };
    expect(canBeSet(row)).toBe(true);
    expect(canBeSet({ ...row, place: "managed.toml, line 3" })).toBe(true);
    expect(canBeSet({ ...row, place: "callboard.toml, line 3" })).toBe(false);
    expect(canBeSet({ ...row, can_be_set: false })).toBe(false);
    expect(canBeSet({ ...row, schema: null })).toBe(false);
  });

  it("stands in its table, and those of none first", () => {
    const rows = ["limits.a", "model", "limits.b", "rules", "git.c"].map((name) => ({ name, value: 1, needs_restart: false }));
    expect(grouped(rows).map(([table, all]) => [table, all.map((each) => each.name)])).toEqual([
      ["", ["model", "rules"]],
      ["limits", ["limits.a", "limits.b"]],
      ["git", ["git.c"]],
    ]);
  });
});
