// @vitest-environment happy-dom
// What a screen shows is read once, and again when the daemon says that it has changed.
import { render } from "preact";
import { beforeEach, expect, it, vi } from "vitest";
import { FakeSocket, type Sent } from "./fake_daemon";

type Wait = Sent & { params: { known: Record<string, number> } };
const settle = async () => {
  for (let count = 0; count < 4; count++) await new Promise((resolve) => setTimeout(resolve, 0));
};

let app: typeof import("../../src/store/app");
let useResource: (typeof import("../../src/store/lists"))["useResource"];
let reads: number;
let socket: FakeSocket;
let fails = "";
const root = () => document.getElementById("root")!;

/** Connect as somebody who may call these, and show what is read. */
async function opened(methods: string[]): Promise<void> {
  app.link.start();
  await greeted(methods);
  const Shown = () => {
    const its = useResource(async () => {
      if (fails !== "") throw new Error(fails);
      return ++reads;
    }, ["agents", "tools"]);
    return <p>{`${its.value ?? "nothing"} ${its.problem}`.trim()}</p>;
  };
  render(<Shown />, root());
  await settle();
}

async function greeted(methods: string[]): Promise<void> {
  socket = FakeSocket.last;
  socket.onopen?.();
  await settle();
  socket.answer(socket.sent[0]!, { protocol: 1, server: { name: "callboard", version: "1" }, epoch: "e", seq: 0, role: "admin", limits: {}, features: [], methods });
  await settle();
}

const waits = () => socket.sent.filter((each) => each.method === "list/wait") as Wait[];
async function changed(revisions: Record<string, number>): Promise<void> {
  socket.answer(waits().at(-1)!, { revisions });
  await settle();
}

beforeEach(async () => {
  vi.resetModules();
  document.body.innerHTML = '<div id="root"></div>';
  reads = 0;
  fails = "";
  app = await import("../../src/store/app");
  ({ useResource } = await import("../../src/store/lists"));
});

it("reads when the revisions are known, and again when one of its lists has another", async () => {
  await opened(["agent/list", "tool/list", "key/list"]);
  expect(Object.keys(waits()[0]!.params.known).sort()).toEqual(["agents", "keys", "tools"]);
  expect(reads).toBe(0); // what is read before could be older than they
  await changed({ agents: 5, tools: 5, keys: 5 });
  expect([reads, root().textContent]).toEqual([1, "1"]);
  await changed({ agents: 5, tools: 6, keys: 5 });
  expect(root().textContent).toBe("2");
  await changed({ agents: 5, tools: 6, keys: 6 }); // another list
  expect(reads).toBe(2);
  expect(waits().at(-1)!.params.known).toEqual({ agents: 5, tools: 6, keys: 6 });
});

it("keeps what it has while it can't be read, and says why", async () => {
  await opened(["agent/list", "tool/list"]);
  await changed({ agents: 1, tools: 1 });
  fails = "the store is away";
  await changed({ agents: 2, tools: 1 });
  expect(root().textContent).toBe("1 the store is away");
  fails = "";
  await changed({ agents: 3, tools: 1 });
  expect(root().textContent).toBe("2");
});

it("follows the others when one list is refused, as to a token that is limited", async () => {
  await opened(["agent/list", "tool/list", "skill/list"]);
  socket.refuse(waits()[0]!, "permission", "not for this token");
  await settle();
  const tried = waits().slice(1);
  expect(tried.map((each) => Object.keys(each.params.known))).toEqual([["agents"], ["skills"], ["tools"]]);
  for (const each of tried) "skills" in each.params.known ? socket.refuse(each, "permission", "not for this token") : socket.answer(each, { revisions: each.params.known });
  await settle();
  expect(Object.keys(waits().at(-1)!.params.known)).toEqual(["agents", "tools"]);
  await changed({ agents: 1, tools: 1 });
  await changed({ agents: 2, tools: 1 });
  expect([root().textContent, app.toast.value]).toEqual(["2", ""]);
});

it("reads at once what it may read and not follow", async () => {
  await opened(["agent/list", "tool/list"]);
  socket.refuse(waits()[0]!, "permission", "not for this token");
  await settle();
  for (const each of waits().slice(1)) socket.refuse(each, "permission", "not for this token");
  await settle();
  expect([root().textContent, waits().length]).toEqual(["1", 3]);
});

it("reads again when the connection is back, and shows the old meanwhile", async () => {
  await opened(["agent/list", "tool/list"]);
  await changed({ agents: 1, tools: 1 });
  socket.onclose?.({ code: 1006, reason: "" });
  await settle();
  expect(root().textContent).toBe("1");
  app.link.start();
  await greeted(["agent/list", "tool/list"]);
  await settle();
  expect(root().textContent).toBe("2");
  expect(waits()[0]!.params.known).toEqual({ agents: 1, tools: 1 });
});

it("keeps what somebody chooses while the daemon does something with what was chosen before", async () => {
  const { choose, chosen, doWithChosen } = await import("../../src/store/sessions");
  await opened(["agent/list"]);
  app.sessions.value = ["a", "b"].map((session_id) => ({ session_id, title: "", is_active: false }) as (typeof app.sessions.value)[number]);
  for (const isMeanwhile of [true, false]) {
    chosen.value = new Set(["a"]);
    const done = doWithChosen("restore");
    await settle();
    if (isMeanwhile) {
      chosen.value = new Set();
      choose("b");
    }
    socket.answer(socket.sent.filter((each) => each.method === "session/restore").at(-1)!, { restored: 1 });
    await settle();
    socket.answer(socket.sent.filter((each) => each.method === "session/list").at(-1)!, { sessions: app.sessions.value });
    await done;
    expect(chosen.value === null ? null : [...chosen.value]).toEqual(isMeanwhile ? ["b"] : null);
  }
});

it("is said with the kind of its error in the language of the person", async () => {
  const { CallError } = await import("../../src/link");
  const { textOf } = await import("../../src/store/problem");
  const { language } = await import("../../src/store/settings");
  const error = new CallError("there is no session s", "not_found");
  const of = (each: "en" | "zh", said: unknown) => ((language.value = each), textOf(said));
  expect([of("en", error), of("zh", error)]).toEqual(["Not found: there is no session s", "未找到：there is no session s"]);
  const later = new CallError("odd", "never_seen");
  expect([of("en", later), of("zh", later), of("zh", new Error("own")), of("zh", "text")]).toEqual(["never seen: odd", "never seen：odd", "own", "text"]);
  language.value = "en";
});
