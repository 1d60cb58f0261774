// The sources of the console import downwards: no file needs, by way of others, itself.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../../src", import.meta.url));
const IMPORT = /^(?:import|export)\b[^;"']*?\bfrom\s+"(\.[^"]+)"|^import\s+"(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/gm;

/** The circles of imports, each with its files; types count, for they too say which of two files stands above the other. */
function circles(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const state = new Map<string, "open" | "done">();
  const path: string[] = [];
  const found: string[][] = [];
  const visit = (file: string) => {
    state.set(file, "open");
    path.push(file);
    for (const each of imports.get(file) ?? []) {
      if (state.get(each) === "open") found.push(path.slice(path.indexOf(each)));
      else if (!state.has(each)) visit(each);
    }
    path.pop();
    state.set(file, "done");
  };
  for (const file of imports.keys()) if (!state.has(file)) visit(file);
  return found;
}

function importsOfSources(): Map<string, string[]> {
  const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((each) => /\.tsx?$/.test(each));
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const named = [...readFileSync(join(SRC, file), "utf8").matchAll(IMPORT)].map((each) => each[1] ?? each[2] ?? each[3]!);
      const places = named.map((each) => relative(SRC, join(SRC, dirname(file), each)));
      return [file, places.flatMap((each) => [`${each}.ts`, `${each}.tsx`].filter((one) => known.has(one)))];
    }),
  );
}

describe("imports", () => {
  it("go round in no circle", () => {
    const all = importsOfSources();
    expect(all.size).toBeGreaterThan(100);
    expect(all.get("main.tsx")).toContain("screens/frame.tsx");
    expect(all.get("screens/routes.ts")).toContain("screens/beyond.ts");
    expect(circles(all).map((each) => each.join(" → "))).toEqual([]);
  });

  it("are found where they do", () => {
    expect(circles(new Map([["a", ["b", "d"]], ["b", ["c"]], ["c", ["a"]], ["d", []]]))).toEqual([["a", "b", "c"]]);
  });
});
