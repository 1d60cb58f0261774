// Colours of code, in a part of its own that is loaded when the first block closes.
import hljs from "highlight.js/lib/core";
import diff from "highlight.js/lib/languages/diff";
import json from "highlight.js/lib/languages/json";
import { bash, css, go, ini, python, rust, sql, typescript, xml, yaml } from "./grammars";

const LANGUAGES = { bash, css, diff, go, ini, json, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);
hljs.registerAliases(["sh", "shell", "console"], { languageName: "bash" });
// JavaScript is TypeScript without types.
hljs.registerAliases(["javascript", "js", "jsx", "mjs", "cjs", "ts", "tsx"], { languageName: "typescript" });
hljs.registerAliases(["py"], { languageName: "python" });
hljs.registerAliases(["html", "svg"], { languageName: "xml" });
hljs.registerAliases(["toml"], { languageName: "ini" });

/** Return coloured code as HTML that is still to be cleaned; `null` for a language that is not known. */
export function highlighted(code: string, language: string): string | null {
  if (hljs.getLanguage(language) === undefined) return null;
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}
