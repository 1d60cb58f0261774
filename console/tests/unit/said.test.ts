// What the daemon says is Chinese on a Chinese page: scripts/console-cases had it say all of this.
import { existsSync, readFileSync } from "node:fs";
import { beforeEach, describe, expect, it } from "vitest";
import { language } from "../../src/store/settings";
import { said } from "../../src/words/said";

const file = new URL("./cases.json", import.meta.url);
const all = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { said: string[] }).said : [];
/** What is not of a language: hosts, files, tools, options, variables. */
const NAMES = /\[network\] auto|--[a-z-]+|https?:\S+|[a-e]\.example|a\.md|'reader'|(?<=deletes )folder|(?<=删除 )folder|\b(POST|openai|shell|web_fetch|OPENAI_API_KEY)\b/g;

describe("what the daemon says", () => {
  beforeEach(() => void (language.value = "zh"));

  it("is enough to prove it", () => {
    expect(all.length).toBeGreaterThan(50);
    for (const each of ["because the program passed it", "strict asks for every workspace call", "balanced asks: deletes a.md"]) expect(all).toContain(each);
  });

  it.each(all)("is known: %s", (sentence) => {
    expect(said(sentence)).toMatch(/\p{Script=Han}/u);
    expect(said(sentence).replace(NAMES, "")).not.toMatch(/[a-z@*~]/i);
    // Nothing that it names is lost.
    for (const [name] of sentence.matchAll(NAMES)) expect(said(sentence)).toContain(name);
    language.value = "en";
    expect(said(sentence)).toBe(sentence);
  });

  it("keeps the order of what it names", () => {
    expect(said("strict asks: sends POST to a.example; the session has read untrusted content and private data, and b.example is new to it")).toBe(
      "策略为“每次改动”，需要询问：发送 POST 到 a.example；会话已读过不可信内容和私密数据，而且b.example 是新主机",
    );
  });

  it("is shown as it came where it is not known, in whole or in part", () => {
    const others = ["", "Ops asks: no deletes", "deletes the old plan", "sends mail to Ada", "elevated calls ask in every preset, but one", "x".repeat(5000)];
    for (const each of others) expect(said(each)).toBe(each);
    expect(said("strict asks: it looks odd")).toBe("策略为“每次改动”，需要询问：it looks odd");
    // A name that reads like a sentence is a name.
    expect(said("strict asks: deletes because the program passed it")).toBe("策略为“每次改动”，需要询问：删除 because the program passed it");
    expect(said("strict asks: deletes $& * ~ @")).toBe("策略为“每次改动”，需要询问：删除 $& * ~ @");
  });
});
