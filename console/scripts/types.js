// Writes src/protocol.ts from what `callboard protocol --json-schema` prints, in a file that is named.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const printed = readFileSync(process.argv[2], "utf8");
const schema = JSON.parse(printed);
// tests/test_packaging.py compares it: who changes the protocol is told so without Node. Docstrings don't count.
const digest = createHash("sha256").update(printed.replace(/^ *"description": .*\n/gm, "")).digest("hex");
const object = (entries) => ({
  type: "object",
  additionalProperties: false,
  properties: Object.fromEntries(entries),
  required: entries.map(([name]) => name),
});
const plain = (value) => {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  const copy = {};
  for (const [key, inner] of Object.entries(value)) {
    // Docstrings stay in Python; bounds of numbers and lengths are the server's to check.
    if (["description", "title", "minimum", "maximum", "maxLength", "minLength", "maxItems", "minItems", "pattern"].includes(key) && !(typeof inner === "object" && inner !== null)) continue;
    copy[key] = plain(inner);
  }
  if (copy.type === "object" && copy.properties !== undefined) copy.additionalProperties = false;
  return copy;
};
const root = plain({
  $defs: schema.$defs,
  ...object([
    ["methods", object(Object.entries(schema.methods).map(([name, method]) => [name, object([["params", method.params], ["result", method.result]])]))],
    ["notifications", object(Object.entries(schema.notifications).map(([name, each]) => [name, each.params]))],
    ["error", schema.error],
  ]),
});
const text = await compile(root, "Protocol", {
  additionalProperties: false,
  bannerComment: "/* Written by scripts/types.js from `callboard protocol --json-schema`: do not edit. */",
  unreachableDefinitions: true,
  format: false,
});
writeFileSync(new URL("../src/protocol.ts", import.meta.url), `${text}\nexport const PROTOCOL = ${schema.protocol};\n// Of the schema: ${digest}\n`);
