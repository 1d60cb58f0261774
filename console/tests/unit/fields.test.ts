import { describe, expect, it } from "vitest";
import { answerOf, argumentsOf, begun, jsonOf, type Field } from "../../src/parts/fields";

const FIELDS: Field[] = [
  { name: "name", required: true, least: 2, most: 5 },
  { name: "age", kind: "integer", least: 18 },
  { name: "weight", kind: "number" },
  { name: "sure", kind: "yes_no", default: true },
  { name: "drink", kind: "choice", options: ["tea", "water"], default: "tea" },
  { name: "days", kind: "choices", options: ["mo", "tu"], most: 1 },
];

describe("the answer to a form", () => {
  it("begins with what is given, and leaves out what is not said", () => {
    const filled = begun(FIELDS);
    expect(filled).toEqual({ name: "", age: "", weight: "", sure: true, drink: "tea", days: [] });
    expect(answerOf(FIELDS, { ...filled, name: "Ada" })).toEqual({ text: '{"name":"Ada","sure":true,"drink":"tea"}' });
  });

  it.each([
    [{}, "name", "required"],
    [{ name: "A" }, "name", "least"],
    [{ name: "Adaline" }, "name", "most"],
    [{ name: "Ada", age: "17" }, "age", "least"],
    [{ name: "Ada", age: "18.5" }, "age", "number"],
    [{ name: "Ada", weight: "heavy" }, "weight", "number"],
    [{ name: "Ada", days: ["mo", "tu"] }, "days", "most"],
  ])("is refused with its field: %j", (said, name, kind) => {
    expect(answerOf(FIELDS, { ...begun(FIELDS), ...said })).toEqual({ name, kind });
  });

  it("has numbers as numbers", () => {
    const filled = { ...begun(FIELDS), name: "Ada", age: "20", weight: "1.5", sure: false, days: ["tu"] };
    expect(JSON.parse((answerOf(FIELDS, filled) as { text: string }).text)).toEqual({
      ...{ name: "Ada", age: 20, weight: 1.5, sure: false, drink: "tea", days: ["tu"] },
    });
  });
});

describe("arguments that are changed", () => {
  it("come out as they went in", () => {
    const parts = argumentsOf('{"path":"a\\"b.md","deep":{"x":[1,null]},"flag":true}');
    expect(parts?.map(({ name, isText }) => [name, isText])).toEqual([["path", true], ["deep", false], ["flag", false]]);
    expect(JSON.parse((jsonOf(parts ?? []) as { json: string }).json)).toEqual({ path: 'a"b.md', deep: { x: [1, null] }, flag: true });
    expect(argumentsOf("[1]")).toBeNull();
    expect(argumentsOf('{"id":12345678901234567890}')).toBeNull();
    expect(argumentsOf('{"id":"12345678901234567890"}')).not.toBeNull();
    expect(argumentsOf("no JSON")).toBeNull();
  });

  it("name the one that is no JSON", () => {
    expect(jsonOf([{ name: "n", isText: false, text: "{" }])).toEqual({ wrong: "n" });
    expect(jsonOf([{ name: "n", isText: false, text: " 10000000000000000001 " }])).toEqual({ json: '{"n":10000000000000000001}' });
  });
});
