// Prompts of servers: which are meant, what their arguments may be, and what of servers is withheld.
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { changeOf, completer, matching, nameOf, withheldOf, type PromptRow, type ServerRow } from "../../src/screens/mcp/prompts";

const rows: PromptRow[] = ["greet", "talk", "web:great"].map((name) => ({ server: name === "talk" ? "great" : "web", name }));
const row = (change: Partial<ServerRow>): ServerRow => ({ name: "web", source: "managed", state: "running", tier: "elevated", ...change });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("lists those that begin with what is typed before those that have it somewhere", () => {
  expect(matching(rows, "/GRE").map(nameOf)).toEqual(["great:talk", "web:greet", "web:web:great"]);
  expect(matching(rows, "/b:gre").map(nameOf)).toEqual(["web:greet", "web:web:great"]);
  expect(matching(rows, "/web:gree").map(nameOf)).toEqual(["web:greet"]);
  expect(matching(rows, "/").length).toBe(3);
  expect(matching(rows, "/none")).toEqual([]);
  const many = Array.from({ length: 200 }, (_, at) => ({ server: "web", name: `p${at}` }));
  expect(matching(many, "/").length).toBe(50);
});

it("asks after a pause, one at a time, and drops what is no longer asked for", async () => {
  const asked: [string, (values: string[]) => void][] = [];
  const told: (readonly string[])[] = [];
  const its = completer((value) => new Promise((resolve) => asked.push([value, resolve])), (values) => told.push(values));
  its.typed("B");
  its.typed("Be");
  expect(asked).toEqual([]);
  await vi.advanceTimersByTimeAsync(200);
  expect(asked.map(([value]) => value)).toEqual(["Be"]);
  its.typed("Ber");
  await vi.advanceTimersByTimeAsync(200);
  expect(asked.length).toBe(1); // the first has no answer yet
  asked[0]![1](["late"]);
  await vi.advanceTimersByTimeAsync(0);
  expect(told).toEqual([]);
  expect(asked.map(([value]) => value)).toEqual(["Be", "Ber"]);
  asked[1]![1](Array.from({ length: 300 }, (_, at) => `Ber${at}`));
  await vi.advanceTimersByTimeAsync(0);
  expect(told.map((each) => each.length)).toEqual([100]);
});

it("says nothing of a server that can't, or after its end", async () => {
  const told: (readonly string[])[] = [];
  const ask = vi.fn(async () => ["x"]).mockRejectedValueOnce(new Error("it is gone"));
  const its = completer(ask, (values) => told.push(values));
  its.typed("a");
  await vi.advanceTimersByTimeAsync(200);
  expect(told).toEqual([[]]);
  its.typed("b");
  its.end();
  await vi.advanceTimersByTimeAsync(1000);
  expect(ask).toHaveBeenCalledTimes(1);
  expect(told).toEqual([[]]);
});

it("names what is withheld by names that were accepted, and knows a change again", () => {
  expect(withheldOf(row({ new: ["web__fresh"] }))).toBe("");
  const one = row({ withheld: ["web__say"], withheld_prompts: ["greet"] });
  expect(withheldOf(one)).toBe("web__say, /web:greet");
  expect(withheldOf(row({ withheld: ["a", "b", "c", "d", "e", "f"] }))).toBe("a, b, c, d, e …");
  expect(changeOf({ ...one, state: "broken" })).toBe(changeOf(one));
  expect(changeOf(row({ withheld: ["web__say"] }))).not.toBe(changeOf(one));
});
