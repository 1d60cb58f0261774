// Servers of MCP and schedules as forms have them, and usage as bars: what is sent, and what is shown.
import { describe, expect, it } from "vitest";
import type { McpSettings, PinnedTool, ScheduleRow } from "../../src/protocol";
import { changedDraft, difference, draftOf, draftsOf, fateOf, wordsOf } from "../../src/screens/mcp/drafts";
import * as schedules from "../../src/screens/schedules/draft";
import { sourcesOf, type Tool } from "../../src/screens/tools/sources";
import { ceiling, daysOf, MAX_BARS, type Sum } from "../../src/screens/usage/days";

const tool = (more: Partial<PinnedTool> = {}): PinnedTool => ({ name: "web__say", original: "say", description: "Says it.", parameters: { type: "object" }, ...more }) as PinnedTool;

describe("a server of MCP", () => {
  it("is a program with its arguments, or an address", () => {
    const written = { name: " files ", kind: "command" as const, command: "npx\n -y \n\n@x/files", url: "https://a", network: "a.example:443, b.example:80", tier: "system" as const };
    expect(draftOf(written)).toEqual({ name: "files", tier: "system", command: ["npx", "-y", "@x/files"], network: ["a.example:443", "b.example:80"] });
    expect(draftOf({ ...written, kind: "url" })).toEqual({ name: "files", tier: "system", url: "https://a" });
  });

  it("comes from the mcpServers of other programs", () => {
    const servers = { "My Files": { command: "npx", args: ["-y", 3, "x"], env: { A: "b", C: 1 } }, web: { type: "sse", url: "https://a", headers: { H: "v" } }, wrong: { x: 1 }, no: 4 };
    const found = [
      { name: "my_files", tier: "elevated", command: ["npx", "-y", "x"], env: { A: "b" } },
      { name: "web", tier: "elevated", url: "https://a", type: "sse", headers: { H: "v" } },
    ];
    for (const text of [{ mcpServers: servers }, { servers }, { mcp: { servers } }, servers]) expect(draftsOf(JSON.stringify(text), "elevated")).toEqual(found);
    for (const text of ["", "[]", "4", "{}", '{"mcpServers": {}}']) expect(draftsOf(text, "elevated")).toBeNull();
  });

  it("is sent back without what was accepted", () => {
    const settings = { name: "web", url: "https://a", tools: [tool()], offers: {} } as unknown as McpSettings;
    expect(changedDraft(settings, { enabled: false })).toEqual({ name: "web", url: "https://a", enabled: false });
  });

  it("has tools that are new, changed, as accepted or gone", () => {
    expect(fateOf(tool(), undefined)).toBe("new");
    expect(fateOf(undefined, tool())).toBe("gone");
    expect(fateOf(tool(), tool({ accepted_by: "ada" } as Partial<PinnedTool>))).toBe("same");
    expect(fateOf(tool({ description: "Sends it." }), tool())).toBe("changed");
    for (const more of [{ title: "Say" }, { output: { type: "string" } }, { annotations: { readOnlyHint: true } }]) {
      expect(difference(wordsOf(tool()), wordsOf(tool(more))).some((each) => each.kind === "added")).toBe(true);
    }
    expect(fateOf(tool({ annotations: { readOnlyHint: true } } as Partial<PinnedTool>), tool())).toBe("changed");
  });

  it("shows what became of its words", () => {
    expect(difference("Says what it is given.", "Says all that it is given, twice.")).toEqual([
      { kind: "same", text: "Says " },
      { kind: "removed", text: "what" },
      { kind: "added", text: "all" },
      { kind: "same", text: " " },
      { kind: "added", text: "that " },
      { kind: "same", text: "it is " },
      { kind: "removed", text: "given." },
      { kind: "added", text: "given, twice." },
    ]);
    expect(difference("", "a")).toEqual([{ kind: "added", text: "a" }]);
    const [long, other] = ["a ".repeat(2000), "b ".repeat(2000)];
    expect(difference(long, other)).toEqual([{ kind: "removed", text: long }, { kind: "added", text: other }]);
  });
});

describe("a schedule", () => {
  const row = { name: "morning", prompt: "What is new?", every: "2h", agent: "general", budget: { tokens: 5 }, paused: true, updated_at_ms: 7, unattended: "defer" } as ScheduleRow;

  it("keeps what the form does not show", () => {
    const written = schedules.writtenOf(row, "Europe/Berlin");
    expect([written.kind, written.when, written.zone]).toEqual(["every", "2h", "Europe/Berlin"]);
    expect(schedules.draftOf({ ...written, prompt: "And now?" }, row)).toEqual({
      name: "morning", prompt: "And now?", every: "2h", zone: "Europe/Berlin", agent: "general", session: "new", missed: "run_once", overlap: "skip",
      unattended: "defer", budget: { tokens: 5 }, paused: true, updated_at_ms: 7,
    });
  });

  it("says when in one way alone", () => {
    const written = { ...schedules.writtenOf(null, "UTC"), name: "a", prompt: "b", kind: "at" as const, when: " 2027-01-31T09:00 ", workspace: "/w " };
    const draft = schedules.draftOf(written, null);
    expect(draft).toMatchObject({ at: "2027-01-31T09:00", workspace: "/w" });
    expect(["cron", "every", "budget", "paused"].filter((each) => each in draft)).toEqual([]);
  });
});

describe("usage", () => {
  const sum = (name: string, input: number, cached: number, output: number, cost: number | null = null) => ({ name, input_tokens: input, cached_tokens: cached, output_tokens: output, cost, calls: 1 }) as Sum;

  it("has a bar for each day, also for those without any", () => {
    const days = daysOf([sum("2026-01-30", 10, 4, 3), sum("2026-02-01", 5, 0, 1)], "tokens", "2026-01-29", "2026-02-02");
    expect(days.map((day) => [day.name, ...day.values])).toEqual([
      ["2026-01-29", 0, 0, 0], ["2026-01-30", 6, 4, 3], ["2026-01-31", 0, 0, 0], ["2026-02-01", 5, 0, 1], ["2026-02-02", 0, 0, 0],
    ]);
    expect(daysOf([sum("2026-01-30", 10, 4, 3, 0.5)], "cost", "", "2026-01-30")).toEqual([{ name: "2026-01-30", values: [0.5] }]);
    expect(daysOf([], "tokens", "", "2026-01-30")).toHaveLength(1);
  });

  it("has no more bars than can be seen, and loses nothing of them", () => {
    const days = daysOf([sum("2025-01-01", 10, 0, 0), sum("2025-12-31", 5, 0, 0)], "tokens", "", "2026-01-01");
    expect(days.length).toBeLessThanOrEqual(MAX_BARS);
    expect(days.reduce((all, day) => all + day.values[0]!, 0)).toBe(15);
  });

  it("has a scale that ends at a round number", () => {
    const at = (value: number) => ceiling([{ name: "", values: [value] }]);
    expect([at(0), at(7), at(52_000), at(100), at(0.013)]).toEqual([1, 8, 60_000, 100, 0.016]);
  });
});

describe("tools", () => {
  it("stand under where they come from, and are found by their words", () => {
    const all = [{ name: "say", description: "A." }, { name: "web__say", description: "B." }, { name: "own__x", description: "C.", source: "plug 1.0" }, { name: "read", description: "Reads." }] as Tool[];
    const servers = new Set(["web"]);
    expect(sourcesOf(all, servers, "").map((each) => [each.kind, each.name, each.tools.length])).toEqual([["builtin", "", 2], ["plugin", "plug 1.0", 1], ["mcp", "web", 1]]);
    expect(sourcesOf(all, servers, " reads").map((each) => each.tools.map((one) => one.name))).toEqual([["read"]]);
    expect(sourcesOf(all, servers, "nothing")).toEqual([]);
  });
});
