// @vitest-environment happy-dom
// What an open session shows and what is done there: output that comes, attempts that failed, copies, jumps, and what is kept of it.
import { render } from "preact";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answer, connected, notify, refuse, sentAs, settle } from "./fake_daemon";
import { Session, type MessageRow, type Update } from "../../src/fold/session";
import { itemsOf } from "../../src/fold/view";
import { Excerpt } from "../../src/parts/excerpt";
import { Markdown } from "../../src/parts/markdown";
import { Chat } from "../../src/screens/chat";
import { Toast } from "../../src/screens/frame";
import { Jump, wanted } from "../../src/screens/jump";
import { Preview } from "../../src/screens/preview";
import Print from "../../src/screens/print/screen";
import Tools from "../../src/screens/tools/screen";
import * as app from "../../src/store/app";
import * as compose from "../../src/store/compose";
import * as inputs from "../../src/store/inputs";
import * as keys from "../../src/store/keys";
import * as reading from "../../src/store/reading";
import { keepsContent } from "../../src/store/settings";

const root = () => document.getElementById("root")!;
const button = (name: string) => [...root().querySelectorAll("button")].find((each) => each.textContent?.trim() === name || each.getAttribute("aria-label") === name);
const KEPT = "callboard.session";
keys.begin();
reading.begin();

let session: Session;
let seq: number;
const update = (event: object, isStored = true) => {
  session.update({ session_id: "s", event, ...(isStored ? { seq: ++seq, at_ms: 0 } : {}) } as Update);
  reading.changed();
};
const row = (position: number, more: object = {}) => ({ message_id: `m${position}`, session_id: "s", position, type: "user", content: `Text ${position}.`, created_at_ms: 0, ...more }) as MessageRow;

/** A session of which an input, and what a test adds, is on record. */
function begun(): void {
  update({ type: "input_accepted", input_id: "i", text: "Go." });
  update({ type: "turn_started", turn_id: "t", input_ids: ["i"], provider: "p", model: "m" });
}
async function shown(...methods: string[]): Promise<void> {
  await connected(...methods);
  // What the address wants is read; this one is there.
  app.open.value = session;
  app.route.value = { screen: "chat", id: "s" };
  render(<Chat />, root());
  await settle();
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "requestAnimationFrame", "cancelAnimationFrame", "performance"] });
  vi.spyOn(document, "hidden", "get").mockReturnValue(false);
  vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ height: 50 } as DOMRect);
  document.body.innerHTML = '<div id="root"></div>';
  sessionStorage.clear();
  session = new Session("s");
  seq = 0;
});
afterEach(async () => {
  render(null, root());
  app.open.value = null;
  await settle(); // A frame that is asked for and never comes would keep all others from being drawn.
  app.route.value = { screen: "chat", id: null };
  app.toast.value = "";
  wanted.value = null;
  keepsContent.value = true;
  app.link.stop();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("an open session", () => {
  it("shows the output of a call while it runs: the end of it in its card, and all of it in one that is open", async () => {
    begun();
    update({ type: "message_completed", turn_id: "t", message_id: "m", parts: [], provider: "p", model: "m" });
    update({ type: "call_proposed", turn_id: "t", message_id: "m", call_id: "c", index: 0, name: "build", arguments: "{}" });
    update({ type: "call_started", turn_id: "t", call_id: "c" });
    await shown();
    expect(root().querySelector(".progress")).toBeNull();
    update({ type: "call_progress", call_id: "c", text: "one\ntwo" }, false);
    await settle();
    expect(root().querySelector(".progress")?.textContent).toBe("one\ntwo");
    const card = root().querySelector<HTMLDetailsElement>("[data-call=c]")!;
    card.open = true;
    card.dispatchEvent(new Event("toggle"));
    update({ type: "call_progress", call_id: "c", text: "three\nfour" }, false);
    await settle();
    expect(root().querySelector(".progress")?.textContent).toBe("two\nthree\nfour");
    expect([...card.querySelectorAll("pre.long")].at(-1)?.textContent).toBe("one\ntwo\nthree\nfour");
    update({ type: "call_finished", turn_id: "t", call_id: "c", name: "build", status: "success", result: "built" });
    await settle();
    expect(root().querySelector(".progress")).toBeNull();
    expect([...card.querySelectorAll("pre.long")].at(-1)?.textContent).toBe("built");
  });

  it("says which attempt failed and why, until an answer comes", async () => {
    begun();
    await shown();
    const said = () => root().querySelector("p.notice[role=status]")?.textContent;
    expect(said()).toBeUndefined();
    update({ type: "attempt_failed", turn_id: "t", provider: "p", model: "m", attempt: 2, error_type: "overloaded", message: "the model is busy", wait_seconds: 4 });
    await settle();
    expect(said()).toBe("Attempt 2 failed; it is tried again. the model is busy");
    update({ type: "message_completed", turn_id: "t", message_id: "m", parts: [{ type: "text", text: "Yes." }], provider: "p", model: "m" });
    await settle();
    expect(said()).toBeUndefined();
  });

  it("is gone on from an answer in a copy, where nothing is written yet, and from an input with its text", async () => {
    begun();
    update({ type: "message_completed", turn_id: "t", message_id: "m", parts: [{ type: "text", text: "Yes." }], provider: "p", model: "m" });
    update({ type: "turn_ended", turn_id: "t", outcome: "answered" });
    await shown("session/fork");
    const menu = root().querySelector<HTMLElement>(".message.assistant [role=menu]")!;
    menu.hidePopover ??= () => undefined;
    menu.dispatchEvent(Object.assign(new Event("toggle"), { newState: "open" }));
    await settle();
    button("Go on from here in a copy")!.click();
    expect(sentAs("session/fork").map((each) => [each.params["session_id"], each.params["message_id"]])).toEqual([["s", "m"]]);
    await answer("session/fork", { session_id: "copy" });
    expect([location.hash, app.drafts.get("copy")]).toEqual(["#/chat/copy", undefined]);
    button("Edit in a copy of the session")!.click();
    await answer("session/fork", { session_id: "other" });
    expect([location.hash, app.drafts.get("other")]).toEqual(["#/chat/other", "Go."]);
  });

  it("is kept by its tab for a reload, but where that is switched off", async () => {
    begun();
    await shown("session/export");
    for (const isKept of [true, false, true]) {
      keepsContent.value = isKept;
      dispatchEvent(new Event("pagehide"));
      expect(sessionStorage.getItem(KEPT)?.includes("Go.") ?? false).toBe(isKept);
    }
  });
});

describe("a session that is opened while things happen", () => {
  const its = (more: object) => ({ session_id: "s", title: "", agent: "general", is_active: false, head_seq: 5, deleted_at_ms: null, ...more });
  const get = (more: object) => answer("session/get", its(more));
  const hear = (event: object, seq: number) => notify("session/update", { session_id: "s", seq, at_ms: 7, event });
  const start = { type: "turn_started", turn_id: "t", input_ids: [], provider: "p", model: "m" };
  const end = { type: "turn_ended", turn_id: "t", outcome: "answered" };
  const isStopThere = () => root().querySelector("button.stop") !== null;

  /** Open it by its address, where its messages are read and nothing else was answered yet. */
  async function opened(): Promise<void> {
    await connected("session/prompt", "session/restore", "session/cancel");
    app.route.value = { screen: "chat", id: "s" };
    await settle();
    await answer("session/subscribe", { seq: 5 });
    await answer("session/messages", { messages: [row(1)], has_more: false });
    render(<Chat />, root());
    await settle();
    expect(app.open.value?.id).toBe("s");
    expect(isStopThere()).toBe(false);
  }

  it("can be stopped as soon as it is known that a turn runs, whatever else is still read", async () => {
    await opened();
    await get({ is_active: true });
    expect(isStopThere()).toBe(true);
    // What is known later does not bring back a turn that has ended meanwhile.
    await hear(end, 6);
    expect(isStopThere()).toBe(false);
    await answer("tool/history", { calls: [] });
    await answer("question/list", { questions: [] });
    expect(isStopThere()).toBe(false);
  });

  it("takes an answer that is older than an event as that, and one that is newer", async () => {
    await opened();
    await hear(start, 6);
    await hear(end, 7);
    await get({ is_active: true, head_seq: 6 });
    expect(isStopThere()).toBe(false);
    app.open.value!.takeRow(its({ is_active: true, head_seq: 8 }) as Parameters<Session["takeRow"]>[0]);
    reading.changed();
    await settle();
    expect(isStopThere()).toBe(true);
  });

  it("has the way back in place of where one writes, once it is deleted, until it is restored", async () => {
    await opened();
    const writes = () => root().querySelector("textarea") !== null;
    await get({});
    expect([writes(), button("Restore")]).toEqual([true, undefined]);
    await hear({ type: "session_deleted" }, 6);
    expect(writes()).toBe(false);
    expect(root().textContent).toContain("The session was deleted.");
    button("Restore")!.click();
    await settle();
    expect(sentAs("session/restore").map((each) => each.params)).toEqual([{ session_ids: ["s"] }]);
    await hear({ type: "session_restored" }, 7);
    expect([writes(), button("Restore")]).toEqual([true, undefined]);
  });

  it("that was deleted before says so, too, and one that is removed for good can't be opened", async () => {
    await opened();
    await get({ deleted_at_ms: 3 });
    expect(button("Restore")).toBeDefined();
    await notify("topic/update", { topic: "sessions", seq: 1, update: { session_id: "s", seq: 6, at_ms: 7, event: { type: "session_purged" } } });
    await refuse("session/subscribe", "not_found", "there is no session s");
    expect(root().textContent).toContain("This session can't be opened");
  });
});

describe("Markdown of an answer", () => {
  const drawn = async (text: string) => {
    render(<Markdown text={text} />, root());
    await settle();
  };

  it("has code that can be scrolled, copied and reached by keys in lists and quotations, too", async () => {
    await drawn("1. First:\n\n   ```python\n   print(1)\n   ```\n\n> ```\n> a < b\n> ```\n\nEnd.");
    const codes = () => [...root().querySelectorAll(".prose figure.code")];
    expect(codes().map((each) => [each.querySelector("figcaption span")?.textContent, each.querySelector("pre")?.tabIndex, each.querySelector("pre")?.textContent, each.querySelector("button")?.textContent])).toEqual([
      ["python", 0, "print(1)", "Copy"],
      ["", 0, "a < b", "Copy"],
    ]);
    const [first] = codes();
    expect(first?.closest("li")).not.toBeNull();
    expect(codes()[1]?.closest("blockquote")).not.toBeNull();
    await drawn("1. First:\n\n   ```python\n   print(1)\n   ```\n2. Second, which came later");
    expect(codes()).toEqual([first]); // with its colours and where it was scrolled to
  });

  it("says what is done of a list of tasks", async () => {
    await drawn("- [x] built\n- [ ] tested\n- other");
    expect([...root().querySelectorAll("li")].map((each) => [each.textContent?.trim(), each.className])).toEqual([
      ["☑ built", "task"],
      ["☐ tested", "task"],
      ["other", ""],
    ]);
    expect(root().querySelector("input")).toBeNull();
  });

  it("loads no picture, and says what it would be with its address as a link", async () => {
    await drawn('![a cat](https://example.org/cat.png) [![sign](https://example.org/sign.svg)](https://example.org/ci) ![plot](out/plot.png) <img alt="raw" src="https://example.org/raw.png" onerror="x"> ![](data:image/png;base64,AAAA)');
    expect(root().querySelector("img")).toBeNull();
    expect([...root().querySelectorAll("a")].map((each) => [each.textContent, each.getAttribute("href")])).toEqual([
      ["🖼 a cat", "https://example.org/cat.png"],
      ["🖼 sign", "https://example.org/ci"],
      ["🖼 raw", "https://example.org/raw.png"],
    ]);
    expect(root().textContent).toContain("🖼 plot (out/plot.png)");
    expect(root().innerHTML).not.toMatch(/onerror|base64/);
  });
});

describe("what somebody has opened", () => {
  it("is open when it was scrolled away and comes back: a call, what was thought, and all of a long text", async () => {
    begun();
    const long = Array.from({ length: 3000 }, (_, at) => `line ${at}`).join("\n");
    update({ type: "message_completed", turn_id: "t", message_id: "m", parts: [{ type: "thinking", text: "Hm." }, { type: "text", text: "Yes." }], provider: "p", model: "m" });
    update({ type: "call_proposed", turn_id: "t", message_id: "m", call_id: "c9", index: 0, name: "build", arguments: "{}" });
    update({ type: "call_finished", turn_id: "t", call_id: "c9", name: "build", status: "success", result: long });
    await shown();
    const details = () => [...root().querySelectorAll<HTMLDetailsElement>("details.thinking, details[data-call=c9]")];
    const open = async (isOpen: boolean) => {
      for (const each of details()) {
        each.open = isOpen;
        each.dispatchEvent(new Event("toggle"));
      }
      await settle();
    };
    const isWhole = () => root().textContent?.includes("line 2999") === true;
    await open(true);
    expect(isWhole()).toBe(false);
    [...root().querySelectorAll<HTMLElement>("details[data-call=c9] button")].find((each) => each.textContent?.includes("3,000"))!.click();
    await settle();
    expect(isWhole()).toBe(true);
    const again = async () => {
      render(null, root());
      await settle();
      render(<Chat />, root());
      await settle();
      return details().map((each) => each.open);
    };
    expect(await again()).toEqual([true, true]);
    expect(isWhole()).toBe(true);
    await open(false);
    expect(await again()).toEqual([false, false]);
  });

  it("of a delegated session leads to it, also where that failed", async () => {
    begun();
    for (const [id, result] of [["d1", '{"session_id":"session_x","outcome":"answered"}'], ["d2", '{"error_type":"tool","session_id": "session_y"}'], ["d3", "{}"]]) {
      update({ type: "call_proposed", turn_id: "t", message_id: "m", call_id: id, index: 0, name: "delegate", arguments: "{}" });
      update({ type: "call_finished", turn_id: "t", call_id: id, name: "delegate", status: "success", result });
    }
    await shown();
    for (const each of root().querySelectorAll<HTMLDetailsElement>("details[data-call]")) {
      each.open = true;
      each.dispatchEvent(new Event("toggle"));
    }
    await settle();
    expect([...root().querySelectorAll(".call a")].map((each) => each.getAttribute("href"))).toEqual(["#/chat/session_x", "#/chat/session_y"]);
  });
});

describe("a model without a key", () => {
  const events = (error_type: string) => ({ events: [{ session_id: "s", seq: 1, at_ms: 0, event: { type: "turn_started", turn_id: "t", input_ids: [], provider: "acme", model: "m" } }, { session_id: "s", seq: 2, at_ms: 0, event: { type: "turn_ended", turn_id: "t", outcome: "failed", error_type } }], is_over: true, has_more: false });
  it.each([["auth", ["#/providers/acme"]], ["network", []]])("whose turn failed leads to where it is given, and only then: %s", async (type, links) => {
    begun();
    update({ type: "turn_ended", turn_id: "t", outcome: "failed", error_type: type, message: "acme needs a key" });
    await shown("turn/get", "provider/list");
    await answer("turn/get", events(type));
    expect([...root().querySelectorAll(".message.error a")].map((each) => each.getAttribute("href"))).toEqual(links);
  });

  it("that refuses an input leads there from it, and what is sent is in sight", async () => {
    await shown("session/prompt", "provider/list");
    const toEnd = vi.spyOn(keys.list.current!, "toEnd");
    compose.choose({ model: "acme/m" });
    inputs.prompt("Go.");
    await settle();
    expect(toEnd).toHaveBeenCalledOnce();
    await refuse("session/prompt", "auth", "acme needs a key");
    expect(root().querySelector(".outgoing a")?.getAttribute("href")).toBe("#/providers/acme");
    inputs.waiting.value = [];
    compose.choose({ model: "" });
  });
});

describe("a jump to a message", () => {
  const jump = () => render(<Jump items={itemsOf(session)} session={session} />, root());
  async function led(id: string): Promise<void> {
    session.takePage([row(9_991), row(9_992)]);
    app.open.value = session;
    await connected("session/messages");
    app.route.value = { screen: "chat", id: "s", messageId: id, position: 0 };
    jump();
    await settle();
  }

  it("of which only its id is known asks where it stands, and reads what is around it alone", async () => {
    await led("m57");
    jump();
    await settle();
    expect(sentAs("session/messages").map((each) => each.params)).toEqual([{ session_id: "s", from_message: "m57", limit: 1 }]);
    await answer("session/messages", { messages: [row(57)], has_more: true });
    const [, around, ...more] = sentAs("session/messages").map((each) => each.params);
    expect([around, more]).toEqual([{ session_id: "s", after: 36, before: 9_991, latest_first: false, limit: 100 }, []]);
    await answer("session/messages", { messages: Array.from({ length: 100 }, (_, at) => row(37 + at)), has_more: true });
    jump();
    await settle();
    expect([wanted.value, session.get("m57")?.position, sentAs("session/messages").length]).toEqual([null, 57, 2]);
  });

  it("that the session does not have says so, and reads nothing", async () => {
    await led("gone");
    await refuse("session/messages", "not_found", "s has no message gone");
    jump();
    await settle();
    expect([wanted.value, app.toast.value, sentAs("session/messages").length]).toEqual([null, "Not found: s has no message gone", 1]);
  });

  it("asks again when the connection broke meanwhile", async () => {
    await led("m57");
    app.link.stop();
    await settle();
    expect([wanted.value?.id, app.toast.value]).toEqual(["m57", ""]);
    await connected("session/messages");
    jump();
    await settle();
    expect(sentAs("session/messages")).toHaveLength(1);
  });
});

describe("a long text", () => {
  it("shows its beginning, all of it for who wants that, and its beginning again", async () => {
    const text = Array.from({ length: 2500 }, (_, at) => `line ${at + 1}`).join("\n");
    render(<Excerpt text={text}>{(part) => <pre>{part}</pre>}</Excerpt>, root());
    const lines = () => root().querySelector("pre")!.textContent!.split("\n").length;
    expect([lines(), button("All of it (2,500 lines, 23,892 characters)") !== undefined]).toEqual([2000, true]);
    root().querySelector("button")!.click();
    await settle();
    expect([lines(), root().querySelector("button")!.textContent]).toEqual([2500, "Show less"]);
    root().querySelector("button")!.click();
    await settle();
    expect(lines()).toBe(2000);
    render(<Excerpt text="short">{(part) => <pre>{part}</pre>}</Excerpt>, root());
    expect(root().querySelector("button")).toBeNull();
  });

  it("of which little changes has the rest folded, until somebody unfolds it", async () => {
    const same = Array.from({ length: 20 }, (_, at) => ` same ${at + 1}`);
    render(<Preview text={["--- a/x", "+++ b/x", "@@ -1,21 +1,21 @@", ...same, "-old", "+new"].join("\n")} json="{}" />, root());
    const texts = () => [...root().querySelectorAll("td pre")].map((each) => each.textContent);
    const folded = texts().length;
    const fold = () => [...root().querySelectorAll("button")].find((each) => each.textContent?.includes("unchanged lines"));
    expect([texts().includes(" same 1"), texts().includes("-old"), texts().includes("+new")]).toEqual([false, true, true]);
    expect(fold()?.textContent).toBe(`⋯ ${22 - folded} unchanged lines`);
    fold()!.click();
    await settle();
    expect([texts().length, texts()[0], fold()]).toEqual([22, " same 1", undefined]);
  });
});

describe("what can be undone", () => {
  const said = () => root().querySelector(".toast")!.textContent;

  it("is offered for ten seconds, each deletion for ten of its own", async () => {
    render(<Toast />, root());
    const undone: string[] = [];
    app.offer("Deleted.", "Undo", () => undone.push("first"));
    await settle(9_900);
    expect(said()).toContain("Undo");
    // The same words again, about something else.
    app.offer("Deleted.", "Undo", () => undone.push("second"));
    await settle(9_900);
    expect(said()).toContain("Undo");
    button("Undo")!.click();
    await settle();
    expect([undone, said()]).toEqual([["second"], ""]);
    app.offer("Deleted.", "Undo", () => undone.push("third"));
    await settle(10_100);
    expect([undone, said()]).toEqual([["second"], ""]);
  });
});

describe("keys", () => {
  const press = (key: string, at: EventTarget = document.body) => at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

  it("lead to each screen after g, by themselves do something else, and nothing where somebody writes", async () => {
    app.isLoggedOut.value = false;
    app.route.value = { screen: "chat", id: "last" };
    root().innerHTML = "<input>";
    const led = (...pressed: string[]) => {
      location.hash = "#/none";
      for (const each of pressed) press(each);
      return location.hash;
    };
    expect([led("g", "s"), led("g", "a"), led("g", "u"), led("g", "c")]).toEqual(["#/sessions", "#/approvals", "#/usage", "#/chat/last"]);
    expect([led("s"), led("n"), led("/")]).toEqual(["#/none", "#/chat/new", "#/sessions"]);
    location.hash = "#/none";
    for (const each of ["g", "s"]) press(each, root().querySelector("input")!);
    expect(location.hash).toBe("#/none");
    app.isLoggedOut.value = true;
    expect(led("g", "s")).toBe("#/none");
  });
});

describe("a screen beyond the chat", () => {
  it("says of each tool that is not offered why", async () => {
    await connected("tool/list");
    render(<Tools parts={[]} />, root());
    await settle();
    const tool = (name: string) => ({ name, description: `It does ${name}.`, parameters: {}, tier: "system", source: "" });
    await answer("list/wait", { revisions: { tools: 1 } });
    await answer("tool/list", { tools: [tool("shell"), tool("look")], not_offered: { shell: "there is no sandbox here" } });
    const of = (name: string) => [...root().querySelectorAll("li")].find((each) => each.querySelector(".name")?.textContent === name)!.textContent;
    expect(of("shell")).toContain("not offered");
    expect(of("shell")).toContain("Why it is not offeredthere is no sandbox here");
    expect(of("look")).not.toContain("not offered");
  });

  it("has a whole session as Markdown in the clipboard, once all of it is read", async () => {
    const written: string[] = [];
    vi.spyOn(navigator.clipboard, "writeText").mockImplementation(async (text) => void written.push(text));
    await connected("session/get", "session/messages");
    render(<Print parts={["s"]} />, root());
    await settle();
    await answer("session/get", { session_id: "s", title: "The plan" });
    await answer("session/messages", { messages: [row(1), row(2, { type: "assistant", content: "Yes, **that**." })], has_more: true });
    const copy = () => root().querySelector<HTMLButtonElement>(".print-head button")!;
    expect(copy().disabled).toBe(true);
    await answer("session/messages", { messages: [row(3), row(4, { is_deleted: true })], has_more: false });
    expect(sentAs("session/messages").map((each) => each.params["after"])).toEqual([0, 2]);
    copy().click();
    await settle();
    expect(written).toEqual(["# The plan\n\n## You\n\nText 1.\n\n## Assistant\n\nYes, **that**.\n\n## You\n\nText 3.\n"]);
    expect(app.toast.value).toBe("Copied");
  });
});
