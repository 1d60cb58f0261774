// A notification says that something waits, when nobody looks, and never what.
import { beforeEach, describe, expect, it, vi } from "vitest";

const shown: { body: string }[] = [];
class Fake {
  static permission = "default";
  static answer = "granted";
  static async requestPermission(): Promise<string> {
    return (Fake.permission = Fake.answer);
  }
  onclick: (() => void) | null = null;
  constructor(
    readonly title: string,
    readonly options: { body: string },
  ) {
    shown.push(options);
  }
}
const page = { hidden: true };
vi.stubGlobal("Notification", Fake);
vi.stubGlobal("document", page);

const { approvals, questions } = await import("../../src/store/app");
const { followApprovals, isNotifying, setNotifying } = await import("../../src/store/notify");
type Row = (typeof approvals.value)[number];
const waits = (...ids: string[]) => (approvals.value = ids.map((id) => ({ approval_id: id, tool: "delete_file" }) as unknown as Row));
followApprovals();

describe("notifications", () => {
  beforeEach(() => {
    waits();
    shown.length = 0;
    page.hidden = true;
    Fake.answer = "granted";
  });

  it("are shown once for each that comes, without what it is", async () => {
    expect(await setNotifying(true)).toBe(true);
    waits("a");
    waits("a");
    waits("a", "b");
    waits("b");
    expect(shown.map((each) => each.body)).toEqual(["1 question waits", "2 questions wait"]);
    expect(JSON.stringify(shown)).not.toContain("delete_file");
  });

  it("are shown for what a model asks, too", async () => {
    await setNotifying(true);
    questions.value = [{ question_id: "q", question: "Which door?", call_id: "c", session_id: "s" } as unknown as (typeof questions.value)[number]];
    expect(shown.map((each) => each.body)).toEqual(["1 question waits"]);
    questions.value = [];
  });

  it("are not shown to who looks, nor to who wants none", async () => {
    await setNotifying(true);
    page.hidden = false;
    waits("c");
    page.hidden = true;
    await setNotifying(false);
    waits("c", "d");
    expect(shown).toEqual([]);
    expect(isNotifying.value).toBe(false);
  });

  it("stay off when the browser refuses them", async () => {
    await setNotifying(false);
    Fake.answer = "denied";
    expect(await setNotifying(true)).toBe(false);
    waits("e");
    expect([isNotifying.value, shown]).toEqual([false, []]);
  });
});
