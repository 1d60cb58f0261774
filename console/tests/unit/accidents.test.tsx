// @vitest-environment happy-dom
// What must not happen by accident: a call that is allowed by a press meant for something else, a secret that is kept,
// an input that goes out for somebody else, a state that is no longer true, and a daemon that is asked though nobody looks.
import { render } from "preact";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answer, connected as opened, FakeSocket, notify, refuse, type Sent, sentAs, settle } from "./fake_daemon";

const app = await import("../../src/store/app");
const compose = await import("../../src/store/compose");
const inputs = await import("../../src/store/inputs");
const visit = await import("../../src/store/visit");
const { Change } = await import("../../src/screens/change");
const { Approvals } = await import("../../src/screens/approvals");
const { Connection } = await import("../../src/screens/frame");
const { Drawer } = await import("../../src/screens/drawer");
const { Login } = await import("../../src/screens/login");
const { History } = await import("../../src/screens/tools/history");
const { AskDialog } = await import("../../src/parts/dialog");
const { useWatch } = await import("../../src/parts/watch");
const login = await import("../../src/store/login");
const { KeyForm } = await import("../../src/screens/providers/parts");
const { default: Mcp } = await import("../../src/screens/mcp/screen");

const root = () => document.getElementById("root")!;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "requestAnimationFrame", "cancelAnimationFrame", "performance"] });
  vi.spyOn(document, "hidden", "get").mockReturnValue(false);
  document.body.innerHTML = '<div id="root"></div>';
  sessionStorage.clear();
});
afterEach(async () => {
  render(null, root());
  await settle(200); // effects that wait for a frame which never comes would keep all others waiting
  app.link.stop();
  app.approvals.value = [];
  app.questions.value = [];
  inputs.waiting.value = [];
  vi.useRealTimers();
  vi.restoreAllMocks();
});

// Once, as a page does.
app.followLists();

describe("a question about a call", () => {
  type Row = (typeof app.approvals.value)[number];
  const row = (id: string, tier: string) => ({ approval_id: id, tier, session_id: "s", call_id: id, tool: id, reason: "", arguments: "{}", expires_at_ms: Date.now() + 60_000 }) as unknown as Row;
  const allow = (tool: string) => [...document.querySelectorAll("section.ask")].find((each) => each.querySelector("h3 code")?.textContent === tool)!.querySelector<HTMLButtonElement>("button.primary")!;

  async function asked(...rows: Row[]): Promise<void> {
    await opened("approval/resolve");
    app.approvals.value = rows;
    render(<Approvals />, root());
    await vi.advanceTimersByTimeAsync(1000);
  }

  it("of a model in another session stands there with the way to it, until somebody answers", async () => {
    await opened("question/answer");
    const question = { question_id: "q", session_id: "far", turn_id: "t", call_id: "c", question: "Which door?", options: ["left"], expires_at_ms: 1 };
    void app.readApprovals();
    FakeSocket.last.answer(sentAs("question/list").at(-1)!, { questions: [question] });
    FakeSocket.last.answer(sentAs("approval/list").at(-1)!, { approvals: [] });
    await settle();
    render(<Approvals />, root());
    await settle();
    FakeSocket.last.answer(sentAs("session/get").at(-1)!, { session_id: "far", agent: "general", title: "A far one" });
    await settle();
    expect(root().querySelector(".question .quoted")?.textContent).toBe("Which door?");
    expect(root().querySelector<HTMLAnchorElement>(".question a")?.getAttribute("href")).toBe("#/chat/far");
    expect(root().textContent).not.toContain("Nothing waits for you");
    // Its turn was stopped: no event says that the question is over.
    FakeSocket.last.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method: "topic/update", params: { topic: "sessions", seq: 2, update: { session_id: "far", seq: 9, event: { type: "turn_ended", turn_id: "t" } } } }) });
    await vi.advanceTimersByTimeAsync(200);
    FakeSocket.last.answer(sentAs("question/list").at(-1)!, { questions: [] });
    await settle();
    expect(root().textContent).toContain("Nothing waits for you");
  });

  it("that is answered does not come back with an answer that was asked for earlier", async () => {
    await opened("question/answer");
    void app.readApprovals();
    void app.readApprovals();
    const question = (id: string) => ({ question_id: id, session_id: "far", turn_id: "t", call_id: "c", question: id, expires_at_ms: 1 });
    const [[oldCalls, newCalls], [oldOnes, newOnes]] = [sentAs("approval/list").slice(-2), sentAs("question/list").slice(-2)] as [[Sent, Sent], [Sent, Sent]];
    FakeSocket.last.answer(newCalls, { approvals: [row("new", "workspace")] });
    FakeSocket.last.answer(newOnes, { questions: [question("new")] });
    await settle();
    FakeSocket.last.answer(oldCalls, { approvals: [row("old", "workspace"), row("new", "workspace")] });
    FakeSocket.last.answer(oldOnes, { questions: [question("old"), question("new")] });
    await settle();
    expect([app.approvals.value.map((each) => each.approval_id), app.questions.value.map((each) => each.question_id)]).toEqual([["new"], ["new"]]);
    // The next one in its turn is taken.
    void app.readApprovals();
    FakeSocket.last.answer(sentAs("approval/list").at(-1)!, { approvals: [] });
    FakeSocket.last.answer(sentAs("question/list").at(-1)!, { questions: [] });
    await settle();
    expect(app.waiting.value).toEqual([]);
  });

  it("that comes to stand under the pointer takes no click that was meant for the one before", async () => {
    await asked(row("one", "workspace"), row("two", "workspace"));
    allow("one").click();
    await settle();
    expect(sentAs("approval/resolve").map((each) => each.params["approval_id"])).toEqual(["one"]);
    app.approvals.value = app.approvals.value.slice(1);
    await settle();
    allow("two").click();
    await settle();
    expect(sentAs("approval/resolve")).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(400);
    allow("two").click();
    await settle();
    expect(sentAs("approval/resolve").map((each) => each.params["approval_id"])).toEqual(["one", "two"]);
  });

  it("that somebody else answered first is shown as theirs, and an own answer is not", async () => {
    const tell = (id: string, answered_by: string, decision: string) =>
      FakeSocket.last.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method: "topic/update", params: { topic: "approvals", seq: 1, update: { session_id: "s", seq: 1, event: { type: "approval_answered", approval_id: id, call_id: id, decision, answered_by } } } }) });
    await asked(row("one", "workspace"), row("two", "workspace"), row("three", "workspace"));
    const before = app.route.value;
    app.route.value = { screen: "approvals" };
    app.toast.value = "";
    tell("three", "Ada", "withdrawn");
    expect(app.toast.value).toBe("");
    tell("three", "Ada", "allow");
    expect(app.toast.value).toBe("Ada has answered: allowed.");
    app.toast.value = "";
    allow("one").click();
    await settle();
    tell("one", "console", "allow");
    FakeSocket.last.answer(sentAs("approval/resolve")[0]!, {});
    await settle();
    expect(app.toast.value).toBe("");
    await vi.advanceTimersByTimeAsync(400);
    allow("two").click();
    await settle();
    tell("two", "Ada", "deny");
    const { id } = sentAs("approval/resolve")[1]!;
    FakeSocket.last.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32000, message: "the question two is not open", data: { type: "conflict" } } }) });
    await settle();
    expect(app.toast.value).toBe("Ada has answered: denied.");
    app.route.value = before;
  });

  it("of a model that somebody else answered goes with their name, and one that nobody or this page answered without a word", async () => {
    const tell = (id: string, answered_by: string) =>
      FakeSocket.last.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method: "topic/update", params: { topic: "approvals", seq: 1, update: { session_id: "s", seq: 1, event: { type: "question_answered", question_id: id, call_id: id, answer: "Yes.", answered_by } } } }) });
    await asked();
    const before = app.route.value;
    app.questions.value = ["mine", "over", "theirs", "elsewhere"].map((id) => ({ question_id: id, session_id: id === "elsewhere" ? "other" : "s", call_id: id, question: "Well?" })) as unknown as typeof app.questions.value;
    app.route.value = { screen: "chat", id: "s" };
    app.toast.value = "";
    app.answer({ question_id: "mine", text: "Yes." }).catch(() => undefined);
    tell("mine", "console");
    tell("over", "");
    tell("elsewhere", "Ada");
    expect(app.toast.value).toBe("");
    tell("theirs", "Ada");
    expect(app.toast.value).toBe("Ada has answered.");
    await vi.advanceTimersByTimeAsync(400);
    app.route.value = before;
  });

  it("shows a long number as it is sent, and not as this page would count it", async () => {
    const all = ['{"amount": 12345678901234567890}', '{"amount": 1e400}', '{"amount": 12}'];
    await asked(...all.map((json, at) => ({ ...row(String(at), "workspace"), arguments: json }) as Row));
    const shown = [...document.querySelectorAll("section.ask pre.long")].map((each) => each.textContent);
    expect(shown).toEqual([all[0], all[1], "12"]);
  });

  it("takes no focus by itself, neither when it comes nor with what is said of it later", async () => {
    await opened("approval/resolve");
    render(
      <>
        <input id="written" />
        <Approvals />
      </>,
      root(),
    );
    const written = root().querySelector<HTMLElement>("#written")!;
    written.focus();
    app.approvals.value = [row("one", "elevated"), row("two", "workspace")];
    await vi.advanceTimersByTimeAsync(1000);
    for (const each of sentAs("approval/get")) FakeSocket.last.answer(each, { scopes: ["session"], origin: "Weed the beds." });
    await vi.advanceTimersByTimeAsync(1000);
    expect([root().querySelectorAll("section.ask").length, root().querySelectorAll(".quoted").length]).toEqual([2, 2]);
    expect(document.activeElement).toBe(written);
    // One that goes leaves nothing to the one that moves up.
    app.approvals.value = app.approvals.value.slice(1);
    await vi.advanceTimersByTimeAsync(1000);
    expect(document.activeElement).toBe(written);
  });

  it("of a branch says what the branch was told to do, and leads to it", async () => {
    await asked({ ...row("one", "workspace"), session_id: "branch" } as Row);
    FakeSocket.last.answer(sentAs("approval/get")[0]!, { scopes: [], origin: "Weed the beds." });
    FakeSocket.last.answer(sentAs("session/get").find((each) => each.params["session_id"] === "branch")!, { session_id: "branch", agent: "gardener", title: "Beds" });
    await settle();
    const ask = root().querySelector("section.ask")!;
    expect(ask.querySelector(".quoted")?.textContent).toBe("Weed the beds.");
    const [link] = ask.querySelectorAll("a");
    expect([link?.getAttribute("href"), link?.textContent]).toEqual(["#/chat/branch", "Beds"]);
    expect(ask.textContent).toContain("gardener");
    // Its line has moved the buttons.
    allow("one").click();
    await settle();
    expect(sentAs("approval/resolve")).toHaveLength(0);
  });

  it("about what is hard to undo is not answered by a double click, or by a key that is held", async () => {
    await asked(row("one", "elevated"));
    allow("one").click();
    await settle();
    allow("one").click();
    await settle();
    expect(sentAs("approval/resolve")).toHaveLength(0);
    const held = (repeat: boolean) => allow("one").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", repeat, bubbles: true, cancelable: true }));
    expect([held(false), held(true)]).toEqual([true, false]);
    await vi.advanceTimersByTimeAsync(400);
    allow("one").click();
    await settle();
    expect(sentAs("approval/resolve")).toHaveLength(1);
  });
});

describe("a list of sessions", () => {
  it("has no session that a later answer had no more", async () => {
    await opened("session/list");
    const rows = (...ids: string[]) => ids.map((session_id) => ({ session_id, updated_at_ms: 1 }));
    void app.readSessions();
    void app.readSessions();
    const [older, newer] = sentAs("session/list").slice(-2) as [Sent, Sent];
    FakeSocket.last.answer(newer, { sessions: rows("kept") });
    await settle();
    FakeSocket.last.answer(older, { sessions: rows("kept", "gone") });
    await settle();
    expect(app.sessions.value.map((each) => each.session_id)).toEqual(["kept"]);
    // The next one in its turn is taken.
    void app.readSessions();
    FakeSocket.last.answer(sentAs("session/list").at(-1)!, { sessions: rows("kept", "new") });
    await settle();
    expect(app.sessions.value).toHaveLength(2);
  });
});

describe("the line of the connection", () => {
  const said = () => root().querySelector(".connection .text")!.textContent;
  const now = () => root().querySelector<HTMLButtonElement>(".connection button");
  async function shown(): Promise<void> {
    await opened();
    render(<Connection />, root());
    await settle();
    expect([said(), now()]).toEqual(["connected", null]);
  }

  it("says that it broke and when it tries again, and tries at once for whoever asks", async () => {
    await shown();
    const broken = FakeSocket.last;
    broken.onclose?.({ code: 1006, reason: "" });
    await settle();
    expect(said()).toBe("no connection: the connection broke; tries again in 1 s");
    expect(FakeSocket.last).toBe(broken);
    expect(now()?.textContent).toBe("Try now");
    now()!.click();
    expect(FakeSocket.last).not.toBe(broken);
    await settle();
    expect([said(), now()]).toEqual(["connecting …", null]);
  });

  it("says why it was refused, and tries no more by itself", async () => {
    app.link.start();
    const refused = FakeSocket.last;
    render(<Connection />, root());
    refused.onopen?.();
    await settle();
    const error = { code: -32000, message: "the daemon speaks protocol 9", data: { type: "conflict" } };
    refused.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id: refused.sent[0]!.id, error }) });
    await settle();
    expect(said()).toBe("refused: Conflict: the daemon speaks protocol 9");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.last).toBe(refused);
    // The page speaks as it does until it is another one: to try again can't help.
    const reload = vi.spyOn(location, "reload").mockReturnValue(undefined);
    expect(now()?.textContent).toBe("Reload");
    now()!.click();
    expect(reload).toHaveBeenCalledOnce();
    expect(FakeSocket.last).toBe(refused);
  });

  it("says that the daemon stops, and how long its turns have", async () => {
    await shown();
    FakeSocket.last.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method: "runtime/stopping", params: { seconds: 19.6 } }) });
    await settle();
    expect([said(), now()]).toEqual(["the daemon stops, and has 20 s for turns that run", null]);
  });
});

describe("an input on its way when the connection ends", () => {
  async function sentAndBroken(code: number): Promise<void> {
    await opened("session/prompt");
    const before = app.route.value;
    app.route.value = { screen: "chat", id: "s" };
    inputs.prompt("a text that the daemon may find too large");
    app.route.value = before;
    await settle();
    expect(sentAs("session/prompt")).toHaveLength(1);
    FakeSocket.last.onclose?.({ code, reason: "" });
    await settle();
    await opened("session/prompt");
    void inputs.sendWaiting();
    await settle();
  }

  it("goes out again by itself with the same key", async () => {
    await sentAndBroken(1006);
    expect(inputs.waiting.value.map((each) => each.problem)).toEqual([""]);
    expect(sentAs("session/prompt").map((each) => each.params["idempotency_key"])).toEqual([inputs.waiting.value[0]!.key]);
  });

  it("because of its size waits for a person, who is told", async () => {
    await sentAndBroken(1009);
    expect(inputs.waiting.value.map((each) => each.problem)).toEqual(["what was sent is too large for the daemon"]);
    expect(sentAs("session/prompt")).toHaveLength(0);
    inputs.sendAgain(inputs.waiting.value[0]!.key);
    await settle();
    expect(sentAs("session/prompt")).toHaveLength(1);
  });
});

describe("a changed call that is refused", () => {
  const place = () => root().querySelector(".field:has([aria-invalid=true]) code")?.textContent;
  it.each([
    ["arguments.edits[0].old", "edits"],
    ["edits[1].path", "edits"],
    ["arguments.path", "path"],
    ["pathless", undefined],
    ["arguments", undefined],
  ])("at %s says so at the argument that holds it", async (field, name) => {
    await opened("approval/get");
    const row = { approval_id: "a", arguments: '{"path": "a.md", "edits": [{"old": "x"}]}' } as unknown as (typeof app.approvals.value)[number];
    render(<Change row={row} schema={null} moved={() => undefined} judge={() => undefined} />, root());
    await vi.advanceTimersByTimeAsync(400);
    const [{ id }] = sentAs("approval/get") as [Sent];
    FakeSocket.last.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32602, message: "it must not be empty", data: { type: "validation", field } } }) });
    await settle();
    expect(place()).toBe(name);
    expect([...root().querySelectorAll(".problem")].map((each) => each.textContent)).toEqual(["Not valid: it must not be empty"]);
  });
});

describe("a call that is changed in the form of its tool", () => {
  const schema = {
    properties: { path: { type: "string", description: "<b>Where</b>" }, lines: { type: "integer", minimum: 1 }, deep: { type: "boolean", default: true } },
    required: ["path"],
  };
  const row = { approval_id: "a", arguments: '{"path":"a.md"}' } as unknown as (typeof app.approvals.value)[number];
  const judge = vi.fn();
  const press = async (name: string) => {
    root().querySelector<HTMLElement>(`button[aria-label="${name}"]`)!.click();
    await settle();
  };
  const pause = () => vi.advanceTimersByTimeAsync(400);
  const judged = () => sentAs("approval/get").map(({ params }) => params.arguments);

  it("is judged again when an argument is added or left out, and by nothing that is wrong", async () => {
    await opened("approval/get");
    render(<Change row={row} schema={schema} moved={() => undefined} judge={judge} />, root());
    await pause();
    expect(judged()).toEqual(['{"path":"a.md"}']);
    expect(root().querySelector(".under")!.textContent).toBe("<b>Where</b>");
    judge.mockClear();
    await press("Add deep");
    expect(judge.mock.calls).toEqual([[null]]);
    expect(document.activeElement).toBe(root().querySelector("input[type=checkbox]"));
    await pause();
    expect(judged().at(-1)).toBe('{"path":"a.md","deep":true}');
    judge.mockClear();
    await press("Add lines");
    await pause();
    expect(judge.mock.calls).toEqual([[null], [null, true]]);
    expect(judged()).toHaveLength(2);
    const lines = document.activeElement as HTMLInputElement;
    expect(root().querySelector(`#${lines.getAttribute("aria-describedby")!.split(" ").at(-1)}`)!.textContent).toBe("This must be filled in.");
    judge.mockClear();
    await press("Leave out lines");
    expect(judge.mock.calls).toEqual([[null]]);
    expect(document.activeElement!.getAttribute("aria-label")).toBe("Add lines");
    await press("Leave out deep");
    await pause();
    expect(judged().at(-1)).toBe('{"path":"a.md"}');
    expect(root().querySelector(".problem")).toBeNull();
    expect(root().querySelector('button[aria-label="Leave out path"]')).toBeNull();
  });

  it("is judged anew though a press and the next one come to the same", async () => {
    await opened("approval/get");
    render(<Change row={{ ...row, arguments: '{"lines":3}' }} schema={schema} moved={() => undefined} judge={judge} />, root());
    await pause();
    const input = root().querySelector<HTMLInputElement>("input[inputmode=numeric]")!;
    input.value = "3 ";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await pause();
    expect(judged()).toEqual(['{"lines":3}', '{"lines":3}']);
  });
});

describe("what is kept", () => {
  it("has nothing of a token that is limited", async () => {
    await opened("session/list");
    expect(app.mayKeep.value).toBe(false);
    app.link.stop();
    await opened("session/list", "session/export");
    expect(app.mayKeep.value).toBe(true);
  });

  it("has what was chosen for a session after a reload, until the login ends", () => {
    location.hash = "#/chat/session_1";
    app.route.value = { ...app.route.value, screen: "chat", id: "session_1" };
    const nothing = { ...sessionStorage };
    compose.choose({ model: "a/b", turnBudget: { tokens: "500" } });
    compose.forget(); // as the page does, and a reload
    expect(compose.choices.value).toMatchObject({ agent: "", model: "a/b", turnBudget: { tokens: "500" } });
    compose.choose({ model: "", turnBudget: {} });
    expect({ ...sessionStorage }).toEqual(nothing);
    compose.choose({ policy: "strict" });
    app.drafts.clear();
    compose.forget();
    expect(compose.choices.value.policy).toBe("");
    // What was chosen for a session that is to be made goes with it.
    app.route.value = { ...app.route.value, id: null };
    compose.choose({ agent: "writer", model: "a/b", budget: { tokens: "7" } });
    compose.moveTo("session_2");
    expect(compose.choices.value).toMatchObject({ agent: "", model: "", budget: {} });
    app.route.value = { ...app.route.value, id: "session_2" };
    expect(compose.choices.value).toMatchObject({ agent: "", model: "a/b", budget: {} });
    app.drafts.clear();
    compose.forget();
  });

  it("has the servers that somebody writes, and not the secrets of those that are pasted", async () => {
    await opened("mcp/list", "mcp/add");
    render(<Mcp parts={["new"]} />, root());
    await settle();
    const write = async (place: HTMLInputElement | HTMLTextAreaElement, text: string) => {
      place.value = text;
      place.dispatchEvent(new Event("input", { bubbles: true }));
      await settle();
    };
    await write(root().querySelector("input[type=text]")!, "files");
    root().querySelectorAll<HTMLInputElement>("fieldset input")[1]!.dispatchEvent(new Event("change", { bubbles: true }));
    await settle();
    await write(root().querySelector("textarea")!, '{"mcpServers": {"a": {"url": "https://a.example", "headers": {"Authorization": "Bearer hidden-1"}}}}');
    expect(root().querySelector("textarea")!.value).toContain("hidden-1");
    const kept = JSON.stringify({ ...sessionStorage });
    expect(kept).toContain("files");
    expect(kept).not.toContain("hidden-1");
  });
});

describe("a secret", () => {
  it("that logged in is needed no more once the browser has its cookie, but where it keeps none", async () => {
    visit.begin();
    login.token.value = "secret";
    login.isTabOnly.value = true;
    await opened();
    expect(login.token.value).toBe("secret");
    app.link.stop();
    login.isTabOnly.value = false;
    await opened();
    expect(login.token.value).toBeNull();
  });

  it("that was written for one provider is not in the form of another one", async () => {
    await opened();
    render(<KeyForm provider="one" />, root());
    await settle();
    const field = root().querySelector("input")!;
    field.value = "sk-one";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await settle();
    render(<KeyForm provider="one" />, root());
    await settle();
    expect(root().querySelector("input")!.value).toBe("sk-one");
    render(<KeyForm provider="two" />, root());
    await settle();
    expect(root().querySelector("input")!.value).toBe("");
  });
});

describe("a login that ends", () => {
  it("takes along what waits and the files that were added", async () => {
    vi.stubGlobal("fetch", async () => ({ ok: true }));
    compose.add([new File(["x"], "x.txt", { type: "text/plain" })]);
    inputs.prompt("of the first one");
    compose.add([new File(["x"], "y.txt", { type: "text/plain" })]);
    expect([inputs.waiting.value.length, compose.files.value.length]).toEqual([1, 1]);
    const left = visit.leave();
    render(<AskDialog />, root());
    await settle();
    root().querySelector("dialog form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
    await left;
    expect([inputs.waiting.value.length, compose.files.value.length]).toEqual([0, 0]);
  });
});

describe("a link that logs in", () => {
  async function followed(): Promise<void> {
    vi.stubGlobal("fetch", async () => ({ ok: true, json: async () => ({ key: "k" }) }));
    await login.logIn({ ticket: "t", remember: true });
    visit.loggedIn();
    render(<Login />, root());
    await settle();
  }
  const turnedAway = async () => {
    FakeSocket.last.onclose?.({ code: 1006, reason: "" });
    await settle();
  };

  it("says that the browser kept no cookie, where it did not, and that a token helps", async () => {
    await followed();
    await turnedAway();
    expect(app.isLoggedOut.value).toBe(true);
    expect(root().textContent).toContain("this browser kept no cookie from it");
    expect(root().textContent).not.toContain("has ended");
  });

  it("and has let somebody in once says later that the login has ended", async () => {
    await followed();
    await opened();
    await turnedAway();
    await vi.advanceTimersByTimeAsync(1000);
    await turnedAway();
    expect(root().textContent).toContain("The login of this browser has ended.");
    expect(root().textContent).not.toContain("kept no cookie");
  });
});

describe("what was not read yet", () => {
  const drawn = async () => {
    await opened("approval/list", "session/list");
    app.sessionsProblem.value = app.waitingProblem.value = null;
    app.sessions.value = [];
    render(<><Drawer isOpen close={() => undefined} /><Approvals /></>, root());
    await settle();
    void app.readSessions();
    void app.readApprovals();
  };
  const said = () => root().textContent;

  it("is claimed neither to be there nor not to be", async () => {
    await drawn();
    expect(said()).not.toMatch(/No sessions yet|Nothing waits/);
    expect(root().querySelectorAll(".reading")).toHaveLength(2);
    await answer("session/list", { sessions: [], next_before: null });
    expect(said()).toContain("No sessions yet");
    expect(said()).not.toContain("Nothing waits");
    await answer("approval/list", { approvals: [] });
    await answer("question/list", { questions: [] });
    expect(said()).toContain("Nothing waits for you");
    expect(root().querySelectorAll(".reading")).toHaveLength(0);
  });

  it("and can't be read says why", async () => {
    await drawn();
    await refuse("session/list", "internal", "the sessions are away");
    await refuse("approval/list", "internal", "the questions are away");
    expect(said()).toContain("the sessions are away");
    expect(said()).toContain("the questions are away");
    expect(said()).not.toMatch(/No sessions yet|Nothing waits/);
  });
});

describe("what another tab changes", () => {
  const grant = { grant_id: "g", tool: "write_file", verdict: "allow", scope: "always", agent: "general", given_at_ms: 1, binding: { arguments: "{}" } };

  it("of the answers that are remembered is gone here, too", async () => {
    await opened("grant/list", "grant/revoke");
    app.waitingProblem.value = "";
    render(<Approvals />, root());
    await settle();
    await answer("grant/list", { grants: [grant] });
    expect(root().textContent).toContain("write_file");
    await notify("topic/update", { topic: "approvals", seq: 1, update: { session_id: "s", seq: 9, at_ms: 1, event: { type: "grant_revoked", grant_id: "g" } } });
    await settle(200);
    await answer("grant/list", { grants: [] });
    expect(root().textContent).not.toContain("write_file");
  });

  it("of calls is in their history", async () => {
    const call = (id: string, status: string) => ({ session_id: "s", turn_id: "t", call_id: id, name: id, status, arguments: "{}", result: null, display: "", duration_ms: null, proposed_at_ms: 1 });
    await opened("tool/history", "runtime/status");
    render(<History tool="" />, root());
    await settle();
    await answer("tool/history", { calls: [call("new", "running")], next_before: 4 });
    await answer("list/wait", { revisions: { status: 1 } });
    await settle(200);
    await answer("tool/history", { calls: [call("new", "running")], next_before: 4 });
    [...root().querySelectorAll("button")].at(-1)!.click();
    await settle();
    await answer("tool/history", { calls: [call("old", "success")], next_before: null });
    const marks = () => [...root().querySelectorAll("li")].map((each) => `${each.querySelector("code.name")!.textContent} ${each.querySelector(".mark")!.textContent}`);
    expect(marks()).toEqual(["new runs", "old done"]);
    await answer("list/wait", { revisions: { status: 2 } });
    await settle(200);
    await answer("tool/history", { calls: [call("newest", "running"), call("new", "success")], next_before: 4 });
    expect(marks()).toEqual(["newest runs", "new done", "old done"]);
  });
});

describe("looking again", () => {
  it("asks one thing at a time, and nothing while the page is not in sight", async () => {
    await opened();
    const answers: (() => void)[] = [];
    const Shown = () => {
      useWatch(() => new Promise<void>((resolve) => answers.push(resolve)));
      return null;
    };
    render(<Shown />, root());
    await vi.advanceTimersByTimeAsync(7000);
    expect(answers).toHaveLength(1);
    answers[0]!();
    await vi.advanceTimersByTimeAsync(2000);
    expect(answers).toHaveLength(2);
    answers[1]!();
    vi.spyOn(document, "hidden", "get").mockReturnValue(true);
    await vi.advanceTimersByTimeAsync(7000);
    expect(answers).toHaveLength(2);
  });
});

it("sends a file in parts that are the file, none of which ends within a character", async () => {
  const { partsOf } = await import("../../src/store/sessions");
  const text = "x".repeat(128 * 1024 - 1) + "😀".repeat(128 * 1024) + "end";
  const parts = partsOf(text);
  expect(parts.map((each) => each.text).join("")).toBe(text);
  expect(parts.at(-1)?.end).toBe(text.length);
  expect(parts.every((each) => !/[\ud800-\udbff]$/.test(each.text) && each.text.length <= 128 * 1024)).toBe(true);
  expect(partsOf("")).toEqual([{ text: "", end: 0 }]);
});

describe("more questions than a page holds", () => {
  const ids = Array.from({ length: 230 }, (_, at) => `a${at}`);
  const rows = (from: number, to: number) => ids.slice(from, to).reverse().map((approval_id) => ({ approval_id }));
  // The page reads them itself when it is connected.
  const sent = () => sentAs("approval/list").slice(own);
  let own = 0;
  const answer = async (at: number, approvals: unknown[], has_more: boolean) => {
    FakeSocket.last.answer(sent()[at]!, { approvals, has_more });
    await settle();
  };
  const shown = () => app.approvals.value.map((each) => each.approval_id);

  it("are all read, the oldest first", async () => {
    await opened();
    own = sentAs("approval/list").length;
    void app.readApprovals();
    await answer(0, rows(130, 230), true);
    await answer(1, rows(30, 130), true);
    await answer(2, rows(0, 30), false);
    expect(sent().map((each) => each.params["before"])).toEqual([undefined, "a130", "a30"]);
    expect(shown()).toEqual(ids);
  });

  it("are those of the reading that began last", async () => {
    await opened();
    own = sentAs("approval/list").length;
    void app.readApprovals();
    void app.readApprovals();
    await answer(1, rows(3, 5), false);
    await answer(0, rows(130, 230), true);
    expect(sent()).toHaveLength(2);
    expect(shown()).toEqual(["a3", "a4"]);
  });
});

describe("a list that is followed", () => {
  it("is followed again and read when the daemon has lost it on the way", async () => {
    await opened();
    const lost = { topic: "sessions", error: { code: -32000, message: "the store is away" } };
    FakeSocket.last.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method: "topic/lost", params: lost }) });
    await settle();
    expect(sentAs("topic/subscribe")).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1500);
    const before = sentAs("session/list").length;
    const [again] = sentAs("topic/subscribe");
    expect(again?.params).toEqual({ topic: "sessions" });
    FakeSocket.last.answer(again!, { seq: 9 });
    await vi.advanceTimersByTimeAsync(500);
    expect(sentAs("session/list").length).toBeGreaterThan(before);
  });
});
