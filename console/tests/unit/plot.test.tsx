// @vitest-environment happy-dom
// The timeline in its box: zoomed and moved by keys, wheel and pointer, and its rows chosen and opened.
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { turnOf, type TurnRecord, type TurnRow } from "../../src/fold/turn";
import { Plot } from "../../src/screens/turn/plot";

const root = () => document.getElementById("root")!;
const box = () => root().querySelector<HTMLElement>(".plot-box")!;
const WIDTH = 1000;
/** What is left of a box of this width for the bars: labels take 240, and 12 stay free. */
const PLOT = WIDTH - 240 - 12;

const events = [
  { type: "input_accepted", input_id: "i", text: "Go." },
  { type: "turn_started", turn_id: "t", input_ids: ["i"], provider: "p", model: "m" },
  { type: "message_completed", turn_id: "t", message_id: "m", parts: [{ type: "text", text: "Yes." }], provider: "p", model: "m", duration_ms: 900 },
  { type: "turn_ended", turn_id: "t", outcome: "answered" },
].map((event, at) => ({ session_id: "s", seq: at + 1, at_ms: [0, 50, 950, 1000][at]!, event }));
const turn = turnOf({ session_id: "s", turn_id: "t", events, is_over: true, has_more: false, delegated: [], running: [], now_ms: 1000 } as unknown as TurnRecord);

let selected = "";
let opened: TurnRow[] = [];
const draw = () => act(() => render(<Plot turn={turn} now={1000} selected={selected} select={(id) => (selected = id)} open={(each) => opened.push(each)} />, root()));
const tell = async (event: Event, at: Element = box()) => {
  await act(() => void at.dispatchEvent(event));
  await draw();
  return event;
};
const press = (key: string) => tell(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const point = (type: string, clientX: number, at?: Element) => tell(new MouseEvent(type, { bubbles: true, clientX, button: 0 }), at);
const wheel = (deltaY: number, more: WheelEventInit = {}) => tell(Object.assign(new Event("wheel", { bubbles: true, cancelable: true }), { deltaX: 0, deltaY, ...more }));

/** The stretch of time in view, from where the bar of the answer is drawn: it ran from 50 to 950. */
function view(): { from: number; to: number } {
  const lines = [...root().querySelectorAll("svg > line")].map((each) => Number(each.getAttribute("x1"))).slice(0, -1);
  const texts = [...root().querySelectorAll("svg > g:last-of-type > text")];
  const ms = texts.map((each) => Number.parseFloat(each.textContent!) * (each.textContent!.trim().endsWith("ms") ? 1 : 1000));
  const [one, other] = [0, lines.length - 1] as const;
  const perMs = (lines[other]! - lines[one]!) / (ms[other]! - ms[one]!);
  const from = ms[one]! - (lines[one]! - 240) / perMs;
  return { from: Math.round(from), to: Math.round(from + PLOT / perMs) };
}

beforeEach(async () => {
  document.body.innerHTML = '<div id="root"></div>';
  vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(WIDTH);
  Element.prototype.setPointerCapture ??= () => undefined;
  selected = "";
  opened = [];
  await draw();
});
afterEach(() => {
  render(null, root());
  vi.restoreAllMocks();
});

it("is zoomed and moved by keys, and shows all at 0", async () => {
  const isAll = () => root().querySelectorAll<HTMLButtonElement>(".plot-tools button")[2]!.disabled;
  expect([view(), isAll()]).toEqual([{ from: 0, to: 1000 }, true]);
  await press("ArrowRight"); // There is nothing beyond.
  expect(view()).toEqual({ from: 0, to: 1000 });
  await press("+");
  expect([view(), isAll()]).toEqual([{ from: 150, to: 850 }, false]);
  await press("ArrowLeft");
  expect(view()).toEqual({ from: 45, to: 745 });
  await press("ArrowRight");
  expect(view()).toEqual({ from: 150, to: 850 });
  expect((await press("x")).defaultPrevented).toBe(false);
  await press("0");
  expect([view(), isAll()]).toEqual([{ from: 0, to: 1000 }, true]);
});

it("is zoomed about the pointer by Ctrl and the wheel, and leaves the page its own scrolling", async () => {
  expect((await wheel(100)).defaultPrevented).toBe(false);
  expect((await wheel(-462.4, { ctrlKey: true, clientX: 240 })).defaultPrevented).toBe(true); // Twice as large, about its beginning.
  expect(view()).toEqual({ from: 0, to: 500 });
  expect((await wheel(100)).defaultPrevented).toBe(false);
  await wheel(PLOT / 2, { shiftKey: true });
  expect(view()).toEqual({ from: 250, to: 750 });
});

it("is dragged, which chooses nothing, and a click chooses its row", async () => {
  await press("+");
  const row = root().querySelectorAll("[data-row]")[1]!;
  await point("pointerdown", 700, row);
  await point("pointermove", 700 + PLOT / 7, row);
  await point("pointerup", 700 + PLOT / 7, row);
  expect([view(), selected]).toEqual([{ from: 50, to: 750 }, ""]);
  await point("pointerdown", 700, row);
  await point("pointerup", 702, row);
  expect([view(), selected]).toEqual([{ from: 50, to: 750 }, "s/model:m"]);
});

it("has its rows chosen by keys and opened by Enter or a double click", async () => {
  await press("ArrowDown");
  expect(selected).toBe("s/input:i");
  await press("ArrowDown");
  await press("ArrowDown");
  expect(selected).toBe("s/model:m");
  await press("Enter");
  await press("Home");
  expect(selected).toBe("s/input:i");
  await point("dblclick", 700, root().querySelectorAll("[data-row]")[0]!);
  expect(opened.map((each) => each.messageId)).toEqual(["m", "i"]);
});
