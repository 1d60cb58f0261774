// Writes dist/LICENSES.txt: the packages whose code is in the build, with their licences.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const BUNDLED = ["preact", "@preact/signals", "@preact/signals-core", "marked", "dompurify"];
const parts = BUNDLED.map((name) => {
  const folder = new URL(`../node_modules/${name}/`, import.meta.url);
  const { version, license } = JSON.parse(readFileSync(new URL("package.json", folder), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = file === undefined ? "" : readFileSync(new URL(file, folder), "utf8").trim();
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync(new URL("../dist/LICENSES.txt", import.meta.url), `The console is built with these packages.\n\n${parts.join("\n----\n\n")}`);
