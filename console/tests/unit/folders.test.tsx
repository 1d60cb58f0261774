// @vitest-environment happy-dom
// Where a session works: chosen before it is made, in the folder that the daemon was given if nobody chooses, and said of one that is open.
import { render } from "preact";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answer, connected, sentAs, settle } from "./fake_daemon";
import { Session } from "../../src/fold/session";
import { Composer } from "../../src/screens/composer";
import { Folder } from "../../src/screens/folder";
import Skills from "../../src/screens/skills/screen";
import * as app from "../../src/store/app";
import * as compose from "../../src/store/compose";
import * as folders from "../../src/store/folders";
import * as inputs from "../../src/store/inputs";

const root = () => document.getElementById("root")!;
const MAY = ["session/new", "session/prompt", "session/list", "root/list", "skill/list"];
const OWN = "/data/workspaces/workspace_01abc";

/** A daemon with these roots, of which some were given at its start, and sessions that worked in these folders. */
async function read(given: string[], added: string[], worked: string[]): Promise<void> {
  await answer("list/wait", { revisions: { roots: 1, skills: 1 } });
  await answer("root/list", { roots: [...given, ...added], given });
  await answer("session/list", { sessions: worked.map((workspace, at) => ({ session_id: `s${at}`, workspace })) });
}
const options = () => [...root().querySelectorAll<HTMLOptionElement>(":is(.where, .filters) select option")].map((each) => each.value);
const field = () => root().querySelector<HTMLSelectElement>(".where select");

async function begun(): Promise<void> {
  await connected(...MAY);
  app.route.value = { screen: "chat", id: null };
  render(<Composer session={null} />, root());
  await settle();
}
async function sent(text: string): Promise<unknown> {
  inputs.prompt(text);
  await settle();
  return sentAs("session/new").at(-1)?.params["workspace"];
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "requestAnimationFrame", "cancelAnimationFrame", "performance"] });
  document.body.innerHTML = '<div id="root"></div>';
  sessionStorage.clear();
});
afterEach(async () => {
  render(null, root());
  app.link.stop();
  app.open.value = null;
  app.sessions.value = [];
  inputs.waiting.value = [];
  compose.forget();
  folders.forget();
  app.drafts.clear();
  await settle();
  vi.useRealTimers();
});

describe("a new session", () => {
  it("works in the only folder that the daemon was given, in another below its roots, or in one of its own", async () => {
    await begun();
    await read(["/home/ada/garden"], ["/added"], ["/home/ada/garden/beds", OWN, "/elsewhere", "/home/ada/gardening"]);
    expect(options()).toEqual(["/home/ada/garden", "/added", "/home/ada/garden/beds", ""]);
    expect([field()!.value, field()!.selectedOptions[0]!.textContent]).toEqual(["/home/ada/garden", "garden – /home/ada/garden"]);
    expect(await sent("List the files here.")).toBe("/home/ada/garden");
    inputs.waiting.value = [];
    app.link.stop();
    for (const wanted of ["/home/ada/garden/beds", ""]) {
      await begun();
      field()!.value = wanted;
      field()!.dispatchEvent(new Event("change", { bubbles: true }));
      await settle();
      expect(await sent("And here?")).toBe(wanted === "" ? undefined : wanted);
      inputs.waiting.value = [];
      app.link.stop();
    }
  });

  it("has a folder of its own where several were given, or none: none is the one that somebody means", async () => {
    await begun();
    await read(["/one", "/two"], [], []);
    expect([options(), field()!.value]).toEqual([["/one", "/two", ""], ""]);
    expect(await sent("Hello.")).toBeUndefined();
    await answer("root/list", { roots: ["/", "/added"], given: ["/"] });
    expect(folders.usual.value).toBe("");
  });

  it("that is sent before the folders are known waits for them", async () => {
    await connected(...MAY);
    app.route.value = { screen: "chat", id: null };
    expect(await sent("Quick.")).toBeUndefined();
    expect(sentAs("session/new")).toHaveLength(0);
    await answer("root/list", { roots: ["/only"], given: ["/only"] });
    await answer("session/list", { sessions: [] });
    expect(sentAs("session/new").map((each) => each.params["workspace"])).toEqual(["/only"]);
  });

  it("has nothing to choose where there is no root", async () => {
    await begun();
    await read([], [], [OWN]);
    expect(field()).toBeNull();
  });
});

it("an open session says where it works, and of a folder that was made for it that alone", async () => {
  app.route.value = { screen: "chat", id: "s" };
  app.open.value = new Session("s");
  for (const [workspace, said] of [["/home/ada/garden", "garden"], [OWN, "own folder"]] as const) {
    app.open.value.workspace = workspace;
    app.revision.value += 1;
    render(<Folder />, root());
    await settle();
    const shown = root().querySelector(".folder")!;
    expect([shown.textContent, shown.getAttribute("title")]).toEqual([said, workspace]);
  }
});

it("skills are those of a root first, and never of a folder in which nobody may work", async () => {
  app.sessions.value = [{ session_id: "s", workspace: "/elsewhere", title: "" }] as unknown as typeof app.sessions.value;
  await connected(...MAY);
  render(<Skills />, root());
  await settle();
  await read(["/z"], [], ["/elsewhere", "/z/a", OWN]);
  expect(options()).toEqual(["/z", "/z/a", ""]);
  expect(sentAs("skill/list").at(-1)!.params["workspace"]).toBe("/z");
});
