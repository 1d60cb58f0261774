import { describe, expect, it } from "vitest";
import { answerOf, argumentsOf, begun, jsonOf, type Argument, type Field } from "../../src/parts/fields";
import { parametersOf } from "../../src/parts/parameters";

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

const argumentsNamed = (json: string, schema: unknown = null): readonly Argument[] => argumentsOf(json, parametersOf(schema)) ?? [];
const jsonAs = (all: readonly Argument[]): unknown => JSON.parse((jsonOf(all) as { json: string }).json);

describe("arguments that are changed", () => {
  it("come out as they went in", () => {
    const parts = argumentsNamed('{"path":"a\\"b.md","deep":{"x":[1,null]},"flag":true,"__proto__":1}');
    expect(parts.map(({ name, isText, shape }) => [name, isText, shape.kind])).toEqual([
      ["path", true, "text"],
      ["deep", false, "json"],
      ["flag", false, "json"],
      ["__proto__", false, "json"],
    ]);
    expect((jsonOf(parts) as { json: string }).json.replace(/\s/g, "")).toBe('{"path":"a\\"b.md","deep":{"x":[1,null]},"flag":true,"__proto__":1}');
  });

  it.each(["[1]", '{"id":12345678901234567890}', '{"n":1.0}', '{"n":-0}', '{"n":1e3}', "no JSON"])("are one text where they can't be kept: %s", (json) => {
    expect(argumentsOf(json)).toBeNull();
  });

  it.each(['{"id":"12345678901234567890"}', '{"n":1.5}', '{"n":-12}', '{"n":1e+30}'])("are kept: %s", (json) => {
    expect((jsonOf(argumentsNamed(json)) as { json: string }).json).toBe(json);
  });

  it("name the one that is no JSON", () => {
    const [n] = argumentsNamed('{"n":1}');
    expect(jsonOf([{ ...n!, text: "{" }])).toEqual({ wrong: { name: "n", kind: "json", bound: 0 } });
    expect(jsonOf([{ ...n!, text: " 10000000000000000001 " }])).toEqual({ json: '{"n":10000000000000000001}' });
  });
});

const SCHEMA = {
  type: "object",
  properties: {
    path: { type: "string", description: "Where\n it is." },
    mode: { enum: ["append", "overwrite"], default: "overwrite" },
    lines: { type: "integer", minimum: 1, maximum: 100, default: 10 },
    share: { anyOf: [{ type: "number", exclusiveMinimum: 0 }, { type: "null" }] },
    links: { type: ["boolean", "null"] },
    tags: { type: "array", items: { type: "string" } },
    level: { $ref: "#/$defs/Level" },
    size: { enum: [1, 2.5] },
    command: { anyOf: [{ type: "string" }, { type: "array" }] },
    where: { allOf: [{ $ref: "#/$defs/Where" }] },
    any: {},
  },
  required: ["path"],
  $defs: { Level: { type: "string", enum: ["low", "high"], description: "How much." }, Where: { type: "object" } },
};

describe("a form of a tool's schema", () => {
  const kinds = (json: string, schema: unknown = SCHEMA) =>
    Object.fromEntries(argumentsNamed(json, schema).map(({ name, shape, text, isAbsent }) => [name, isAbsent ? `(${shape.kind} ${text})` : shape.kind]));

  it("has a field for each argument, in its order, and says which the call leaves out", () => {
    const all = argumentsNamed('{"links":false,"extra":1,"path":"a"}', SCHEMA);
    expect(all.map(({ name }) => name).slice(0, 5)).toEqual(["path", "links", "extra", "mode", "lines"]);
    expect(all.filter(({ isAbsent }) => !isAbsent).map(({ name }) => name)).toEqual(["path", "links", "extra"]);
    expect(all[0]!.parameter).toMatchObject({ isRequired: true, description: "Where it is." });
    expect(all.find(({ name }) => name === "level")!.parameter!.description).toBe("How much.");
    expect(jsonAs(all)).toEqual({ links: false, extra: 1, path: "a" });
  });

  it("is of the kinds of its values, and begins what is added with the default", () => {
    expect(kinds('{"path":"a"}')).toEqual({
      path: "text",
      mode: "(choice overwrite)",
      lines: "(integer 10)",
      share: "(number )",
      links: "(yes_no false)",
      tags: "(list )",
      level: "(choice low)",
      size: "(choice 1)",
      command: "(text )",
      where: "(json {})",
      any: "(text )",
    });
    expect(kinds('{"path":"a","mode":"append","lines":3,"share":0.5,"links":true,"tags":["x"],"level":"high","size":2.5,"command":["ls"],"where":{},"any":[]}')).toEqual({
      ...{ path: "text", mode: "choice", lines: "integer", share: "number", links: "yes_no", tags: "list", level: "choice" },
      ...{ size: "choice", command: "json", where: "json", any: "json" },
    });
  });

  it("leaves a value that does not fit as the text that it is", () => {
    expect(kinds('{"path":5,"mode":"other","lines":1.5,"share":null,"links":"yes","level":1,"size":3,"command":"ls"}')).toMatchObject({
      ...{ path: "json", mode: "text", lines: "json", share: "json", links: "text", level: "json", size: "json", command: "text" },
    });
  });

  it("adds an argument and leaves one out", () => {
    const all = argumentsNamed('{"path":"a","lines":3}', SCHEMA);
    const without = (name: string, isAbsent: boolean) => all.map((each) => (each.name === name ? { ...each, isAbsent } : each));
    expect(jsonAs(without("lines", true))).toEqual({ path: "a" });
    expect(jsonAs(without("mode", false))).toEqual({ path: "a", lines: 3, mode: "overwrite" });
  });

  it.each([
    ["lines", "", "required", 0],
    ["lines", "ten", "number", 0],
    ["lines", "+1", "number", 0],
    ["lines", "true", "number", 0],
    ["lines", "1.5", "number", 0],
    ["lines", "0", "least", 1],
    ["lines", "101", "most", 100],
    ["share", "1,5", "number", 0],
    ["where", "[", "json", 0],
  ])("refuses %s: %j, and says why", (name, text, kind, bound) => {
    const all = argumentsNamed('{"lines":3,"share":0.5,"where":{}}', SCHEMA).map((each) => (each.name === name ? { ...each, text } : each));
    expect(jsonOf(all)).toEqual({ wrong: { name, kind, bound } });
  });

  it("sends a number as it is written", () => {
    const all = argumentsNamed('{"lines":3,"share":0.5}', SCHEMA).map((each) => ({ ...each, text: each.name === "share" ? " 1.50e-3 " : each.text }));
    expect(jsonOf(all)).toEqual({ json: '{"lines":3,"share":1.50e-3}' });
  });

  const NESTED = {
    properties: {
      months: { type: "array", items: { $ref: "#/$defs/Month" } },
      sizes: { type: ["array", "null"], items: { enum: [1, 2.5] } },
      seeds: { type: "array", items: { type: "string" } },
      counts: { type: "array", items: { type: "integer" } },
      either: { type: "array", items: { type: ["string", "integer"] } },
      bed: { $ref: "#/$defs/Bed" },
    },
    $defs: {
      Month: { enum: ["march", "april", "may"] },
      Bed: { type: "object", properties: { row: { type: "integer", minimum: 1 }, at: { $ref: "#/$defs/Bed" }, shade: { type: "boolean" }, note: { type: "string" } }, required: ["row"] },
    },
  };
  const put = (all: readonly Argument[], name: string, its: Partial<Argument>): Argument[] => all.map((each) => (each.name === name ? { ...each, ...its } : each));

  it("has lists by what may be chosen, and by lines", () => {
    const json = '{"months":["may","march"],"sizes":[2.5],"seeds":["a \\"b\\"","c"]}';
    const all = argumentsNamed(json, NESTED);
    expect(all.slice(0, 3).map(({ text, shape }) => [shape.kind, shape.options, text])).toEqual([
      ["list", ["march", "april", "may"], "may\nmarch"],
      ["list", ["1", "2.5"], "2.5"],
      ["list", [], 'a "b"\nc'],
    ]);
    expect(jsonOf(all)).toEqual({ json });
    const changed = put(put(put(all, "months", { text: "" }), "sizes", { text: "2.5\n1" }), "seeds", { text: "\nx \n\ny" });
    expect(jsonOf(changed)).toEqual({ json: '{"months":[],"sizes":[2.5,1],"seeds":["x ","y"]}' });
  });

  it.each([
    ["months", '["june"]'],
    ["months", '["may","may"]'],
    ["months", "[1]"],
    ["sizes", '["1"]'],
    ["seeds", '["two\\nlines"]'],
    ["seeds", '[""]'],
    ["seeds", "[null]"],
    ["seeds", '"peas"'],
    ["counts", "[1]"],
    ["either", '["x"]'],
    ["bed", "[]"],
  ])("leaves a list that would not come out as it is, and what is none, as it was: %s %s", (name, json) => {
    const all = argumentsNamed(`{"${name}":${json}}`, NESTED);
    expect(all[0]!.shape.kind).toBe(json.startsWith('"') ? "text" : "json");
    expect(JSON.stringify(jsonAs(all))).toBe(`{"${name}":${json}}`);
  });

  it("has the fields of an object, and of what is within that again the JSON", () => {
    const json = '{"bed":{"row":3,"at":{"row":1},"other":[1.5]}}';
    const all = argumentsNamed(json, NESTED);
    const { inner, shape } = all[0]!;
    expect(shape.kind).toBe("group");
    expect(inner.map((each) => [each.name, each.shape.kind, each.isAbsent])).toEqual([
      ...[["row", "integer", false], ["at", "json", false], ["other", "json", false]],
      ...[["shade", "yes_no", true], ["note", "text", true]],
    ]);
    expect(JSON.stringify(jsonAs(all))).toBe(json);
    const bed = (name: string, its: Partial<Argument>) => jsonOf(put(all, "bed", { inner: put(inner, name, its) }));
    expect(bed("shade", { isAbsent: false, text: "true" })).toMatchObject({ json: expect.stringContaining('"shade":true') });
    expect(bed("row", { text: "0" })).toEqual({ wrong: { name: "bed.row", kind: "least", bound: 1 } });
    expect(bed("at", { text: "{" })).toEqual({ wrong: { name: "bed.at", kind: "json", bound: 0 } });
  });

  it("begins an object that is added with what it can't be without", () => {
    const all = argumentsNamed("{}", NESTED);
    const bed = all.find(({ name }) => name === "bed")!;
    expect(bed.inner.filter(({ isAbsent }) => !isAbsent).map(({ name }) => name)).toEqual(["row"]);
    expect(jsonOf([{ ...bed, isAbsent: false }])).toEqual({ wrong: { name: "bed.row", kind: "required", bound: 0 } });
    // What the call left out of one that it has stays out.
    expect(argumentsNamed('{"bed":{}}', NESTED)[0]!.inner.every(({ isAbsent }) => isAbsent)).toBe(true);
  });

  it("is of nothing that a stranger's schema makes of it", () => {
    for (const odd of [null, 1, "x", [], { properties: 1 }, { properties: [] }, { properties: { path: null }, required: "path" }]) {
      expect(kinds('{"path":"a"}', odd)).toMatchObject({ path: "text" });
    }
    const circle = { anyOf: [{ $ref: "#/$defs/A" }, { $ref: "#/$defs/A" }] };
    const hostile = {
      properties: {
        path: { $ref: "#/$defs/A", description: "<img src=x onerror=alert(1)> ".repeat(1000) },
        toString: { type: "toString", default: null },
        far: { $ref: "https://example.org/schema" },
        hidden: { $ref: "#/$defs/constructor" },
        both: { allOf: [{ type: "string" }, { type: "integer" }] },
        mixed: { enum: ["a", 1], minimum: "x" },
        bound: { type: "integer", minimum: "1", maximum: 1e300 },
        ["n".repeat(200)]: { type: "string" },
        ...Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`p${at}`, { enum: Array.from({ length: 200 }, String) }])),
      },
      $defs: { A: circle },
    };
    const all = argumentsNamed('{"path":"a"}', hostile);
    expect(all.length).toBe(99); // those behind the hundredth, and a name that is no name, are left out
    expect(all[0]!.shape.kind).toBe("text");
    expect(all[0]!.parameter!.description.length).toBe(401);
    expect(kinds("{}", hostile)).toMatchObject({ toString: "(text )", far: "(text )", hidden: "(text )", both: "(text )", mixed: "(text )", bound: "(integer )", p1: "(text )" });
    expect(all.find(({ name }) => name === "bound")!.shape).toMatchObject({ least: null, most: null });
  });
});
