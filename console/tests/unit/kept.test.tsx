// @vitest-environment happy-dom
// What a person has begun to write is never lost unasked, what a screen needs is there whatever the list at the left is searched for,
// and who may only look is told so.
import { render } from "preact";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answer, connected, FakeSocket, refuse, sentAs, settle } from "./fake_daemon";
import { Session, type Update } from "../../src/fold/session";
import { AskDialog } from "../../src/parts/dialog";
import { Ask } from "../../src/screens/ask";
import { Chat } from "../../src/screens/chat";
import { Composer } from "../../src/screens/composer";
import { Drawer } from "../../src/screens/drawer";
import Memory from "../../src/screens/memory/screen";
import { Asked } from "../../src/screens/question";
import { PolicyCheck } from "../../src/screens/tools/check";
import * as app from "../../src/store/app";
import { Drafts } from "../../src/store/drafts";
import * as inputs from "../../src/store/inputs";
import * as keys from "../../src/store/keys";
import * as login from "../../src/store/login";
import * as visit from "../../src/store/visit";

const root = () => document.getElementById("root")!;
const button = (name: string) => [...document.querySelectorAll("button")].find((each) => each.textContent?.trim() === name)!;
keys.begin();

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "requestAnimationFrame", "cancelAnimationFrame", "performance"] });
  document.body.innerHTML = '<div id="root"></div>';
  sessionStorage.clear();
  app.drafts.clear();
});
afterEach(async () => {
  render(null, root());
  app.link.stop();
  app.open.value = null;
  app.approvals.value = [];
  app.questions.value = [];
  inputs.waiting.value = [];
  app.route.value = { screen: "chat", id: null };
  await settle();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** What a person does in a field. */
async function write(selector: string, text: string): Promise<void> {
  const field = root().querySelector<HTMLInputElement>(selector)!;
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await settle();
}
const written = (selector: string) => root().querySelector<HTMLInputElement>(selector)?.value;

describe("an answer that is begun", () => {
  const base = { session_id: "s", turn_id: "t", call_id: "c", question: "Which door?", expires_at_ms: 1 };
  const free = { ...base, question_id: "q" } as (typeof app.questions.value)[number];
  const form = { ...base, question_id: "f", form: { fields: [{ name: "door", kind: "text" }, { name: "count", kind: "integer", default: 3 }] } } as unknown as typeof free;
  const call = { approval_id: "a", tier: "workspace", session_id: "s", call_id: "c", tool: "write", reason: "", arguments: "{}", expires_at_ms: 1 } as unknown as (typeof app.approvals.value)[number];
  const drawn = {
    text: () => <Asked question={free} />,
    form: () => <Asked question={form} />,
    reason: () => <Ask row={call} />,
  };
  const show = async (what: keyof typeof drawn) => {
    render(drawn[what](), root());
    await settle();
  };

  it.each(["text", "form", "reason"] as const)("is there after another screen, and after a reload (%s)", async (what) => {
    await connected("question/answer", "approval/resolve");
    await show(what);
    await write("input[type=text]", "the left one");
    render(null, root());
    await show(what);
    expect(written("input[type=text]")).toBe("the left one");
    // A reload knows what the tab keeps alone.
    const id = { text: "q", form: "f", reason: "a" }[what];
    expect(new Drafts().get(`form:answer:${id}`)).toContain("the left one");
    if (what === "form") expect(root().querySelectorAll("input")[1]!.value).toBe("3");
  });

  it("goes when that does not wait any more, whoever answered, and no other one goes with it", async () => {
    await connected("question/answer", "approval/resolve");
    app.drafts.set("s", "a message");
    for (const what of ["text", "form", "reason"] as const) {
      render(null, root());
      await show(what);
      await write("input[type=text]", "mine");
    }
    const kept = () => ["q", "f", "a"].filter((id) => (new Drafts().get(`form:answer:${id}`) ?? "") !== "");
    expect(kept()).toEqual(["q", "f", "a"]);
    void app.readApprovals();
    await answer("approval/list", { approvals: [] });
    expect(kept()).toEqual(["q", "f", "a"]); // the other list is not read yet
    await answer("question/list", { questions: [form] });
    expect(kept()).toEqual(["f"]);
    expect(app.drafts.get("s")).toBe("a message");
    // What can't be read says nothing of what is over.
    void app.readApprovals();
    await answer("approval/list", { approvals: [] });
    await refuse("question/list", "storage", "the disk is full");
    expect(kept()).toEqual(["f"]);
    app.toast.value = "";
  });
});

describe("a logout", () => {
  HTMLDialogElement.prototype.showModal ??= () => undefined;
  HTMLDialogElement.prototype.close ??= () => undefined;
  it("asks first where something is written and not sent, and else does not", async () => {
    const out = vi.spyOn(login, "logOut").mockResolvedValue(undefined);
    render(<AskDialog />, root());
    const leave = async () => {
      await connected("session/prompt");
      void visit.leave();
      await settle();
      return [root().querySelector("dialog h2")?.textContent ?? null, out.mock.calls.length];
    };
    const asks = "Log out, and lose what is not sent?";
    expect(await leave()).toEqual([null, 1]);
    app.drafts.set("choices:s", '{"model": "m"}');
    expect(await leave()).toEqual([null, 2]);
    app.drafts.set("s", "half a thought");
    expect(await leave()).toEqual([asks, 2]);
    button("Cancel").click();
    root().querySelector("dialog")?.dispatchEvent(new Event("close"));
    await settle();
    expect([out.mock.calls.length, app.drafts.get("s")]).toEqual([2, "half a thought"]);
    app.drafts.clear();
    inputs.waiting.value = [{ key: "k", sessionId: "s", text: "Hello.", problem: "offline" }] as unknown as typeof inputs.waiting.value;
    expect(await leave()).toEqual([asks, 2]);
    root().querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
    await settle();
    expect([out.mock.calls.length, inputs.waiting.value]).toEqual([3, []]);
    app.isLoggedOut.value = false;
  });
});

describe("while the list at the left is searched, and has nothing", () => {
  beforeEach(() => {
    app.sessions.value = [];
  });

  it("something is remembered in a session of the agent all the same", async () => {
    await connected("memory/list", "memory/store", "agent/list", "session/list");
    render(<Memory />, root());
    await settle();
    button("Remember something").click();
    await settle();
    expect(sentAs("session/list").at(-1)!.params).toEqual({ agent: "general", limit: 1 });
    await answer("session/list", { sessions: [{ session_id: "far", agent: "general", title: "A far one" }] });
    await write("form textarea", "The gate is green.");
    expect(button("Remember").disabled).toBe(false);
    root().querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
    await settle();
    expect(sentAs("memory/store").at(-1)!.params["session_id"]).toBe("far");
  });

  it("a call can be tried in each session", async () => {
    await connected("session/list", "policy/check", "tool/list");
    render(<PolicyCheck />, root());
    await settle();
    await answer("session/list", { sessions: [{ session_id: "far", agent: "general", title: "A far one" }] });
    expect(root().querySelector("select")?.value).toBe("far");
  });
});

it("a search in the memory of all agents is one of each, with the best of each first", async () => {
  await connected("memory/list", "memory/search", "agent/list");
  render(<Memory />, root());
  await settle();
  await answer("list/wait", { revisions: { agents: 1 } });
  await answer("agent/list", { agents: [{ name: "general" }, { name: "gardener" }] });
  await write("input[type=search]", "gate");
  await settle(300);
  const asked = sentAs("memory/search").slice(-2);
  expect(asked.map((each) => each.params["agent"])).toEqual(["general", "gardener"]);
  const memory = (agent: string, text: string) => ({ memory_id: text, agent, text, tags: [], session_id: "s", stored_at_ms: 0 });
  FakeSocket.last.answer(asked[0]!, { memories: [memory("general", "g1"), memory("general", "g2")] });
  FakeSocket.last.answer(asked[1]!, { memories: [memory("gardener", "b1")] });
  await settle();
  expect([...root().querySelectorAll("ul.rows p.plain")].map((each) => each.textContent)).toEqual(["g1", "b1", "g2"]);
});

describe("Escape twice", () => {
  const press = async (at: EventTarget) => {
    at.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true }));
    await settle(0);
  };
  const cancelled = () => sentAs("session/cancel").length;

  it("stops the turn wherever the focus is, but in a dialog and in a field that has the key for itself", async () => {
    await connected("session/prompt", "session/cancel");
    app.isLoggedOut.value = false;
    const session = new Session("s");
    session.update({ session_id: "s", seq: 1, at_ms: 0, event: { type: "turn_started", turn_id: "t", input_ids: [], provider: "p", model: "m" } } as unknown as Update);
    app.open.value = session;
    app.route.value = { screen: "chat", id: "s" };
    root().innerHTML = '<input id="other"><form class="composer"><textarea></textarea></form>';
    const other = document.getElementById("other")!;
    for (let count = 0; count < 2; count++) await press(other);
    document.body.insertAdjacentHTML("beforeend", "<dialog open></dialog>");
    for (let count = 0; count < 2; count++) await press(document.body);
    document.querySelector("dialog")!.remove();
    expect(cancelled()).toBe(0);
    await press(document.body);
    expect(cancelled()).toBe(0);
    await press(document.body);
    expect(cancelled()).toBe(1);
    await answer("session/cancel", {});
    await press(document.body); // a third press begins again
    expect(cancelled()).toBe(1);
    await press(root().querySelector("textarea")!);
    expect(cancelled()).toBe(2);
    await answer("session/cancel", {});
    root().innerHTML = "";
  });
});

it("who may only look is not asked to write, in a new session and in one that is open", async () => {
  await connected("session/list");
  render(<Chat />, root());
  await settle();
  expect(root().textContent).toBe("What has happened here?This login may look and change nothing. Open a session to read along.");
  render(<Composer session={new Session("s")} />, root());
  await settle();
  expect(root().textContent).toBe("This login may look and change nothing.");
  render(<Drawer isOpen close={() => undefined} />, root());
  app.sessions.value = [];
  app.sessionsProblem.value = "";
  await settle();
  expect(root().querySelector(".empty")?.textContent).toBe("No sessions yet.");
  app.link.stop();
  await connected("session/prompt");
  render(<Chat />, root());
  await settle();
  expect(root().textContent).toContain("Ask a question");
});

