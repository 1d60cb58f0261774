// Each text can be read on each ground that it stands on, in all themes.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const css = readFileSync(new URL("../../src/look/tokens.css", import.meta.url), "utf8");
const colours = (block: string) => Object.fromEntries([...block.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map((each) => [each[1]!, each[2]!]));
const blocks = css.split(/\n(?= *:root|@media)/).filter((each) => each.includes("--ground"));
const [light, system, dark, contrast] = blocks.map(colours);

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function ratio(one: string, other: string): number {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (high! + 0.05) / (low! + 0.05);
}

const GROUNDS = ["ground", "surface", "raised", "code"];
const PAIRS: [string, string, number][] = [
  ...GROUNDS.flatMap((ground) => ["text", "muted"].map((text) => [text, ground, 4.5] as [string, string, number])),
  ...["link", "good", "bad", "warn"].flatMap((text) => ["ground", "surface", "code"].map((ground) => [text, ground, 4.5] as [string, string, number])),
  ...["keyword", "string", "number", "comment", "title"].map((name) => [`hl-${name}`, "code", 4.5] as [string, string, number]),
  ["on-primary", "primary", 4.5],
  ["on-primary-soft", "primary-soft", 4.5],
  ["text", "bad-soft", 4.5],
  ["bad", "bad-soft", 4.5],
  ["good", "good-soft", 4.5],
  ["warn", "warn-soft", 4.5],
  ["line", "surface", 3],
  ["line", "ground", 3],
  ["primary", "ground", 3],
  ["primary", "surface", 3],
];

describe("colours", () => {
  it("are light on paper, and dark on screens alone", () => {
    expect(css.match(/@media screen/g)).toHaveLength(2);
    expect(css.indexOf("@media screen")).toBeGreaterThan(css.indexOf("--ground"));
    expect(light!["ground"]).toBe("#fff9eb");
  });

  it("are the same for a dark system and for who chose dark", () => {
    expect(system).toEqual(dark);
  });

  it("of more contrast are stronger, whoever asks for it", () => {
    const [chosen, asked] = css.match(/\{\s*--muted: var\(--text\);[^}]*\}/g)!.map((each) => each.replace(/\s+/g, " "));
    expect(chosen).toBe(asked);
    expect(chosen).toContain("--line: var(--text)");
    // So both are judged by what they take in place of the others.
    for (const theme of [light, dark]) for (const ground of GROUNDS) expect(ratio(theme!["text"]!, theme![ground]!)).toBeGreaterThan(7);
    for (const theme of [light, dark]) expect(ratio("#8a8068", theme!["ground"]!)).toBeGreaterThan(3);
  });

  it.each([["light", light], ["dark", dark], ["contrast", contrast]] as const)("can be read: %s", (_, theme) => {
    const bad = PAIRS.filter(([text, ground, least]) => ratio(theme![text]!, theme![ground]!) < least);
    expect(bad.map(([text, ground]) => `${text} on ${ground}: ${ratio(theme![text]!, theme![ground]!).toFixed(2)}`)).toEqual([]);
  });
});
