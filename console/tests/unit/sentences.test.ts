import { describe, expect, it } from "vitest";
import { Sentences, spoken } from "../../src/parts/sentences";

describe("what is read aloud of an answer that is being written", () => {
  it("is each sentence once, when it has ended", () => {
    const sentences = new Sentences();
    expect(sentences.take("It is sim")).toBe("");
    expect(sentences.take("It is simple. And it")).toBe("It is simple.");
    expect(sentences.take("It is simple. And it took 3.")).toBe("");
    expect(sentences.take("It is simple. And it took 3.4 s. Now")).toBe("And it took 3.4 s.");
    expect(sentences.take("It is simple. And it took 3.4 s. Now", true)).toBe("Now");
    expect(sentences.take("It is simple. And it took 3.4 s. Now", true)).toBe("");
  });

  it("is Chinese sentences and paragraphs too", () => {
    const sentences = new Sentences();
    expect(sentences.take("好的。我先查看")).toBe("好的。");
    expect(sentences.take("好的。我先查看\n\n# 标题")).toBe("我先查看");
  });

  it("is no code, and no marks of Markdown", () => {
    const sentences = new Sentences();
    expect(sentences.take("Look:\n\n```py\nprint(1). \n\n")).toBe("");
    expect(sentences.take("Look:\n\n```py\nprint(1). \n\n```\nThat is **all**. ")).toBe("Look: That is all.");
    expect(spoken("## A [link](https://example.org)\n- `one`\n> two")).toBe("A link one two");
    expect(spoken("a ```` b")).toBe("a b");
  });

  it("begins again with another text, and says the end of a very long one", () => {
    const sentences = new Sentences();
    expect(sentences.take("A long text. ")).toBe("A long text.");
    expect(sentences.take("Short. ")).toBe("Short.");
    expect(new Sentences().take("word ".repeat(500), true)).toMatch(/^…/);
  });
});
