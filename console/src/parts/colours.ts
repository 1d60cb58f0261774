// Code cut into pieces that have a colour, in a part of its own that is loaded when the first block closes. No text is changed, and
// none becomes markup: a piece is a text with the name of what it is.
import { GRAMMARS, type Grammar, type Rule, type Scope } from "./grammars";

export type Piece = readonly [scope: Scope, text: string];

/** What begins within something that has begun; text that nests deeper is coloured as what it stands in. */
const MAX_DEPTH = 64;

interface Compiled {
  all: RegExp;
  rules: readonly Rule[];
  words: ReadonlyMap<string, Scope>;
  isAnyCase: boolean;
}

const compiled = new Map<Grammar, Map<RegExp | undefined, Compiled>>();

/** All rules of a grammar as one pattern, of which the first that fits counts: its end, then they in their order, then words. */
function patternOf(grammar: Grammar, until: RegExp | undefined): Compiled {
  const known = compiled.get(grammar)?.get(until);
  if (known !== undefined) return known;
  const parts = grammar.rules.map((each, at) => `(?<r${at}>${each.is.source})`);
  if (until !== undefined) parts.unshift(`(?<end>${until.source})`);
  const isAnyCase = grammar.isAnyCase === true;
  const words = new Map<string, Scope>();
  for (const [scope, its] of Object.entries(grammar.words ?? {})) for (const word of its.split(" ")) if (!words.has(word)) words.set(word, scope as Scope);
  if (words.size > 0) parts.push("(?<word>[A-Za-z_$][\\w$]*)");
  const made = { all: new RegExp(parts.join("|"), isAnyCase ? "gim" : "gm"), rules: grammar.rules, words, isAnyCase };
  const its = compiled.get(grammar) ?? new Map<RegExp | undefined, Compiled>();
  compiled.set(grammar, its.set(until, made));
  return made;
}

/** The pieces of a code; `null` for a language that is not known. */
export function coloured(code: string, language: string): Piece[] | null {
  const grammar = GRAMMARS.get(language);
  if (grammar === undefined) return null;
  const pieces: [Scope, string][] = [];
  const add = (scope: Scope, text: string) => {
    const last = pieces.at(-1);
    if (last?.[0] === scope) last[1] += text;
    else if (text !== "") pieces.push([scope, text]);
  };
  const around: { its: Compiled; scope: Scope }[] = [{ its: patternOf(grammar, undefined), scope: "plain" }];
  let at = 0;
  for (;;) {
    const { its, scope } = around.at(-1)!;
    its.all.lastIndex = at;
    const found = its.all.exec(code);
    if (found === null) break;
    const { groups = {}, index } = found;
    const text = found[0];
    add(scope, code.slice(at, index));
    // What is empty would be found for ever.
    at = index + Math.max(1, text.length);
    if (groups["end"] !== undefined) {
      add(scope, text);
      around.pop();
    } else if (groups["word"] !== undefined) {
      add(its.words.get(its.isAnyCase ? text.toLowerCase() : text) ?? scope, text);
    } else {
      const rule = its.rules.find((_, one) => groups[`r${one}`] !== undefined);
      const own = rule?.scope ?? scope;
      add(own, text === "" ? code.slice(index, at) : text);
      if (rule?.inside !== undefined && around.length < MAX_DEPTH) around.push({ its: patternOf(rule.inside, rule.until), scope: own });
    }
  }
  add(around.at(-1)!.scope, code.slice(at));
  return pieces;
}
