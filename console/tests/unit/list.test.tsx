// @vitest-environment happy-dom
// A windowed list takes a long page in some frames, and what is in it asks the browser for no layout that nobody needs.
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { WindowedList, type ListHandle } from "../../src/parts/list";
import { Menu } from "../../src/parts/menu";

const root = () => document.getElementById("root")!;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "requestAnimationFrame", "cancelAnimationFrame", "performance"] });
  document.body.innerHTML = '<div id="root"></div>';
});
afterEach(() => {
  render(null, root());
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("a windowed list", () => {
  const items = Array.from({ length: 500 }, (_, at) => ({ id: `i${at}`, stamp: 0, position: at + 1 }));

  it("draws what is in sight at once, and what is around it in some frames", async () => {
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ height: 50 } as DOMRect);
    vi.spyOn(Element.prototype, "scrollHeight", "get").mockReturnValue(500 * 50 - 800); // As far as a browser scrolls.
    const subject = {};
    const list = () => <WindowedList items={items} estimate={() => 50} label="all" subject={subject} draw={(item) => item.id} markOf={() => ""} size={500} toEnd="end" />;
    await act(() => render(list(), root()));
    const counts = [document.querySelectorAll("[data-id]").length];
    for (let frame = 0; frame < 20; frame++) {
      await act(() => void vi.advanceTimersByTime(16));
      counts.push(document.querySelectorAll("[data-id]").length);
    }
    expect(counts[0]).toBe(18); // 800 px of the view, and 100 above it.
    expect(counts.at(-1)).toBe(46);
    for (const [at, count] of counts.entries()) expect(count - (counts[at - 1] ?? count)).toBeLessThanOrEqual(6); // 300 px
    expect([...document.querySelectorAll<HTMLElement>(".is-last")].map((each) => each.dataset["id"])).toEqual(["i499"]);
    expect(vi.getTimerCount()).toBe(0); // Nothing is drawn on and on.
  });

  it("leaves alone what a script scrolled in a frame in which it draws on", async () => {
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ height: 50 } as DOMRect);
    vi.spyOn(Element.prototype, "scrollHeight", "get").mockReturnValue(500 * 50);
    const subject = {};
    await act(() => render(<WindowedList items={items} estimate={() => 50} label="all" subject={subject} draw={(item) => item.id} markOf={() => ""} size={500} toEnd="end" />, root()));
    const view = document.querySelector(".scroll")!;
    await act(() => void ((view.scrollTop = 10_000), view.dispatchEvent(new Event("scroll"))));
    const count = () => document.querySelectorAll("[data-id]").length;
    for (let frame = 0; frame < 3; frame++) await act(() => void vi.advanceTimersByTime(16));
    const [before, top] = [count(), view.scrollTop];
    view.scrollTop = top + 100; // Its event has not come.
    await act(() => void vi.advanceTimersByTime(16));
    expect([view.scrollTop, count() > before]).toEqual([top + 100, true]);
  });

  it("stays at its end when the browser moves it for a view that grew, and leaves it for who scrolls up", async () => {
    let [height, whole] = [400, 25_000];
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ height: 50 } as DOMRect);
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockImplementation(() => height);
    vi.spyOn(Element.prototype, "scrollHeight", "get").mockImplementation(() => whole);
    const subject = {};
    const list = (count: number) => <WindowedList items={[...items, ...items.map((each) => ({ ...each, id: `more ${each.id}` }))].slice(0, count)} estimate={() => 50} label="all" subject={subject} draw={(item) => item.id} markOf={() => ""} size={count} toEnd="end" />;
    await act(() => render(list(500), root()));
    const view = document.querySelector(".scroll")!;
    const scrollTo = (top: number) => act(() => void ((view.scrollTop = top), view.dispatchEvent(new Event("scroll"))));
    const grow = (count: number) => act(() => ((whole = count * 50), render(list(count), root())));
    await scrollTo(whole - height);
    height = 900;
    await scrollTo(whole - height); // Before any observer is told.
    await grow(501);
    expect(view.scrollTop).toBe(whole);
    await scrollTo(whole - height);
    await scrollTo(20_000);
    await grow(502);
    expect(view.scrollTop).toBe(20_000);
    await act(() => document.querySelector<HTMLElement>(".to-end")!.click());
    expect(view.scrollTop).toBe(whole);
    expect(document.querySelector(".to-end")).toBeNull();
  });
});

describe("keys in a list", () => {
  const items = Array.from({ length: 500 }, (_, at) => ({ id: `i${at}`, stamp: 0, position: at + 1 }));

  it("lead to its beginning, its end, and from message to message, which takes the focus", async () => {
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ height: 50 } as DOMRect);
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(400);
    vi.spyOn(Element.prototype, "scrollHeight", "get").mockReturnValue(500 * 50);
    const [subject, handle] = [{}, { current: null as ListHandle | null }];
    await act(() => render(<WindowedList items={items} estimate={() => 50} label="all" subject={subject} draw={(item) => item.id} markOf={() => ""} size={500} toEnd="end" handle={handle} />, root()));
    const view = document.querySelector<HTMLElement>(".scroll")!;
    const frames = async () => {
      for (let frame = 0; frame < 20; frame++) await act(() => void vi.advanceTimersByTime(16));
    };
    const press = async (key: string, more: KeyboardEventInit = {}, at: Element = view) => {
      const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
      await act(() => void at.dispatchEvent(event));
      await frames();
      return event.defaultPrevented;
    };
    const isDrawn = (id: string) => document.querySelector(`[data-id="${id}"]`) !== null;
    await frames();
    expect([await press("Home"), view.scrollTop, isDrawn("i0"), isDrawn("i499")]).toEqual([true, 0, true, false]);
    expect(document.querySelector(".is-last")).toBeNull();
    expect([await press("End"), view.scrollTop, isDrawn("i0"), isDrawn("i499")]).toEqual([true, 25_000, false, true]);
    // What is not meant for the list is left to the browser.
    expect([await press("Home", { ctrlKey: true }), await press("Home", {}, document.querySelector('[data-id="i499"]')!), await press("x")]).toEqual([false, false, false]);
    const focused = () => (document.activeElement as HTMLElement).dataset["id"];
    const step = async (by: 1 | -1) => {
      await act(() => handle.current!.step(by));
      await frames();
      return focused();
    };
    await press("Home");
    expect([await step(1), await step(1), await step(1), await step(-1)]).toEqual(["i0", "i1", "i2", "i1"]);
    view.scrollTop = 10_000;
    await act(() => void view.dispatchEvent(new Event("scroll")));
    await frames();
    // What has the focus keeps it, and its place, and is the same element when others are drawn around it again.
    const own = document.querySelector<HTMLElement>('[data-id="i1"]')!;
    const before = (element: HTMLElement) => {
      let sum = 0;
      for (let each = element.previousElementSibling as HTMLElement | null; each !== null; each = each.previousElementSibling as HTMLElement | null) {
        sum += each.dataset["id"] === undefined ? Number.parseFloat(each.style.height) : 50;
      }
      return sum;
    };
    const scrollTo = async (top: number) => {
      view.scrollTop = top;
      await act(() => void view.dispatchEvent(new Event("scroll")));
      await frames();
    };
    expect([document.activeElement, isDrawn("i2"), before(own), before(document.querySelector('[data-id="i200"]')!)]).toEqual([own, false, 50, 10_000]);
    await scrollTo(0);
    expect([document.activeElement, isDrawn("i2"), before(own)]).toEqual([own, true, 50]);
    await act(() => void handle.current!.show("i450"));
    await frames();
    await scrollTo(10_000);
    expect([focused(), isDrawn("i449"), before(document.querySelector('[data-id="i450"]')!)]).toEqual(["i450", false, 22_500]);
    await press("Home", {}, view);
    expect([await step(1), await step(1)]).toEqual(["i0", "i1"]);
    await scrollTo(10_000);
    // The one that has the focus is far away: the first in sight is next.
    expect([await step(1), isDrawn("i1")]).toEqual(["i200", false]);
  });
});

describe("what somebody reads", () => {
  const items = Array.from({ length: 500 }, (_, at) => ({ id: `i${at}`, stamp: 0, position: at + 1 }));

  class Observer {
    static all: Observer[] = [];
    seen = new Set<Element>();
    constructor(readonly tell: (entries: unknown[]) => void) {
      Observer.all.push(this);
    }
    observe(element: Element): void {
      this.seen.add(element);
    }
    unobserve(element: Element): void {
      this.seen.delete(element);
    }
    disconnect(): void {
      this.seen.clear();
    }
  }

  it("stays where it is when what is above it grows or shrinks, and what is below it moves nothing", async () => {
    Observer.all = [];
    vi.stubGlobal("ResizeObserver", Observer);
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockReturnValue({ height: 50 } as DOMRect);
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(400);
    vi.spyOn(Element.prototype, "scrollHeight", "get").mockReturnValue(500 * 50);
    const subject = {};
    await act(() => render(<WindowedList items={items} estimate={() => 50} label="all" subject={subject} draw={(item) => item.id} markOf={() => ""} size={500} toEnd="end" />, root()));
    const view = document.querySelector(".scroll")!;
    await act(() => void ((view.scrollTop = 10_000), view.dispatchEvent(new Event("scroll"))));
    for (let frame = 0; frame < 20; frame++) await act(() => void vi.advanceTimersByTime(16));
    const resize = (id: string, height: number) => {
      const target = document.querySelector(`[data-id="${id}"]`)!;
      const [its] = Observer.all.filter((each) => each.seen.has(target));
      return act(() => its!.tell([{ target, borderBoxSize: [{ blockSize: height }] }]));
    };
    expect(view.scrollTop).toBe(10_000); // The 200th is the first in sight.
    await resize("i198", 150);
    expect(view.scrollTop).toBe(10_100);
    await resize("i199", 20);
    expect(view.scrollTop).toBe(10_070);
    await resize("i210", 500);
    expect(view.scrollTop).toBe(10_070);
    vi.unstubAllGlobals();
  });
});

describe("a menu", () => {
  it("measures its button only when it opens", async () => {
    const measured = vi.spyOn(HTMLElement.prototype, "getBoundingClientRect");
    await act(() => render(<Menu label="More" choices={[{ name: "Do", icon: "more", run: () => undefined }]} />, root()));
    expect(measured).not.toHaveBeenCalled();
    const choices = root().querySelector<HTMLElement>('[role="menu"]')!;
    await act(() => void choices.dispatchEvent(Object.assign(new Event("toggle"), { newState: "open" })));
    expect(measured).toHaveBeenCalled();
    expect(choices.textContent).toBe("Do");
  });
});
