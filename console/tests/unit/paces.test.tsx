// @vitest-environment happy-dom
// How often a page draws and speaks, however much comes: once a frame, and once in three seconds.
import { effect } from "@preact/signals";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Session, type MessageRow, type Update } from "../../src/fold/session";
import { Aloud } from "../../src/screens/attention";
import * as app from "../../src/store/app";
import { changed } from "../../src/store/reading";
import { announces } from "../../src/store/settings";

const FRAME_MS = 16;
const root = () => document.getElementById("root")!;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "requestAnimationFrame", "cancelAnimationFrame", "performance"] });
  document.body.innerHTML = '<div id="root"></div>';
});
afterEach(() => {
  render(null, root());
  app.open.value = null;
  announces.value = true;
  vi.useRealTimers();
});

it("draws once a frame, however many events came, and not at all when none did", () => {
  const session = new Session("s");
  app.open.value = session;
  let draws = -1;
  const stop = effect(() => void (app.version.value, draws++));
  for (let frame = 1; frame <= 10; frame++) {
    for (let event = 0; event < 20; event++) {
      session.revision += 1;
      changed();
    }
    expect(draws).toBe(frame - 1); // Not before the frame.
    vi.advanceTimersByTime(FRAME_MS);
    expect(draws).toBe(frame);
  }
  vi.advanceTimersByTime(10 * FRAME_MS);
  expect([draws, vi.getTimerCount()]).toEqual([10, 0]);
  stop();
});

it("draws what is new of a session, however many changes the one before had", () => {
  const [one, other] = [new Session("one"), new Session("other")];
  const input = (session: Session, seq: number) => {
    session.update({ session_id: session.id, event: { type: "input_accepted", input_id: `i${seq}`, text: "go" }, seq, at_ms: 0 } as Update);
    changed();
    vi.advanceTimersByTime(FRAME_MS);
    return app.revision.value;
  };
  app.open.value = one;
  const before = input(one, 1);
  app.open.value = other;
  expect(other.revision).toBeLessThan(one.revision);
  expect(input(other, 1)).toBe(before + 1);
});

it("announces an answer at most once in three seconds, leaves out nothing, and is silent when it is off", async () => {
  const session = new Session("s");
  app.open.value = session;
  await act(() => render(<Aloud />, root()));
  let position = 0;
  let now = 0;
  const heard: { at: number; text: string }[] = [];
  async function pass(ms: number, isAnswered: boolean): Promise<void> {
    for (const end = now + ms; now < end; now += 100) {
      if (isAnswered && now % 500 === 0) {
        position += 1;
        session.takePage([{ message_id: `m${position}`, position, type: "assistant", content: `Number ${position}.` } as unknown as MessageRow]);
      }
      await act(() => void (app.version.value += 1));
      await act(() => void vi.advanceTimersByTime(100));
      const text = root().querySelector("[aria-live=polite]")!.textContent ?? "";
      if (text !== (heard.at(-1)?.text ?? "")) heard.push({ at: now, text });
    }
  }
  await pass(9000, true);
  await pass(3000, false);
  expect(heard.length).toBeGreaterThanOrEqual(3);
  for (const [at, each] of heard.entries()) if (at > 0) expect(each.at - heard[at - 1]!.at).toBeGreaterThanOrEqual(3000);
  expect(heard.flatMap((each) => each.text.match(/\d+/g)).map(Number)).toEqual(Array.from({ length: 18 }, (_, at) => at + 1));
  announces.value = false;
  heard.length = 0;
  await pass(6000, true);
  expect(heard).toEqual([]);
});
