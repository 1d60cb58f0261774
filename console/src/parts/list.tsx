// A windowed list: only what is near the view is drawn; what is read stays where it is when heights above change.
// Where the view is follows from heights that were measured once: scrolling asks the browser for no layout.
import type { ComponentChildren } from "preact";
import { memo } from "./memo";
import { useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Heights, type Sized } from "./heights";

/** So much is drawn above and below the view; and at first, until the browser has shown that. */
const AROUND = 1500;
const FIRST_AROUND = 100;
/** What is drawn changes when so much of it is behind: a little in each frame, rather than much in some. */
const SLACK = 100;
/**
 * One item that was not drawn before is drawn in one frame, or some that are no higher than this together, beside those in sight: a page
 * that was read takes some frames, and none of them long. By height and not by number, since an answer takes as long as many calls.
 */
const NEW_A_FRAME = 300;
/** Nearer to the end than this, the list stays at the end as it grows. */
const NEAR_END = 48;

export interface Listed extends Sized {
  readonly position: number;
  /** A height that follows from the item itself, and is not measured. */
  readonly height?: number;
}

/** What a list is told from outside. */
export interface ListHandle {
  toEnd(): void;
  toStart(): void;
  /** Show an item, and focus it unless the focus is to stay where it is; return whether it is there. */
  show(id: string, isFocused?: boolean): boolean;
  /** Focus the next item, or the one before. */
  step(by: 1 | -1): void;
}

/** An item near the view, and where its upper and lower end are, from the upper end of the view. */
export interface Seen<Item> {
  item: Item;
  top: number;
  bottom: number;
  viewHeight: number;
}

interface ListProps<Item> {
  items: readonly Item[];
  estimate(item: Item): number;
  label: string;
  /** Another one begins at the end again. */
  subject: object;
  draw(item: Item): ComponentChildren;
  /** What else an item shows; it is drawn again when this or its stamp is another. */
  markOf(item: Item): string;
  /** The number of all items, drawn, read or not. */
  size: number;
  onSeen?(seen: Seen<Item>[]): void;
  toEnd: string;
  handle?: { current: ListHandle | null };
}

interface View {
  isAtEnd: boolean;
  anchor: { id: string; y: number } | null;
  around: number;
  height: number;
  top: number;
  from: number;
  to: number;
  focus: string;
  /** What was drawn last, and the frame that goes on with it. */
  drawn: ReadonlySet<string>;
  frame: number;
  drawnAt: number;
}

export function WindowedList<Item extends Listed>(props: ListProps<Item>) {
  const { items, label, subject, draw, markOf, size, toEnd } = props;
  const place = useRef<HTMLDivElement>(null);
  const given = useRef(props);
  given.current = props;
  const [, count] = useState(0);
  const [isAway, setAway] = useState(false);
  const again = () => count((before) => before + 1);
  const list = useMemo(() => {
    const heights = new Heights<Item>((item) => item.height ?? given.current.estimate(item));
    const view: View = { isAtEnd: true, anchor: null, around: FIRST_AROUND, height: 0, top: 0, from: 0, to: 0, focus: "", drawn: new Set(), frame: 0, drawnAt: 0 };
    const observer = new ResizeObserver((entries) => {
      let isChanged = false;
      for (const { target, borderBoxSize } of entries) {
        const id = (target as HTMLElement).dataset["id"];
        const its = borderBoxSize[0]?.blockSize ?? 0;
        if (id !== undefined && its > 0 && heights.measure(id, its)) isChanged = true;
      }
      if (isChanged) again();
    });
    return { heights, view, observer, drawn: { items: null as readonly Item[] | null, total: -1 } };
  }, [subject]);
  const { heights, view, observer, drawn } = list;
  heights.take(items);
  if (view.height === 0) view.height = place.current?.clientHeight || 800;
  view.top = topOf(heights, view);
  const wanted = heights.window(view.top, view.height, view.around);
  const range = heights.grown(heights.window(view.top, view.height, FIRST_AROUND), wanted, view.drawn, NEW_A_FRAME);
  const isSame = range.from === view.from && range.to === view.to && drawn.items === items;
  [view.from, view.to] = [range.from, range.to];
  // What has the focus stays, wherever it is, or keys and screen readers would begin anew; unless the focus is about to move.
  const own = view.focus === "" ? focusedIn(place.current) : undefined;
  const kept = own === undefined ? -1 : heights.indexOf(own);
  const runs = [range];
  if (kept >= range.to) runs.push({ from: kept, to: kept + 1 });
  else if (kept >= 0 && kept < range.from) runs.unshift({ from: kept, to: kept + 1 });
  const near = runs.flatMap(({ from, to }) => items.slice(from, to));
  if (!isSame) view.drawn = new Set(near.map((item) => item.id));
  view.drawnAt = performance.now();
  if ((range.from > wanted.from || range.to < wanted.to) && view.frame === 0) {
    const goOn = (now: number) => {
      // One that scrolled has drawn in this frame already.
      const isDrawn = view.drawnAt >= now;
      view.frame = isDrawn ? requestAnimationFrame(goOn) : 0;
      if (isDrawn) return;
      // A script may have scrolled in this frame, and its event comes with the next one: what is drawn now must not take that back.
      if (Math.abs((place.current?.scrollTop ?? view.top) - view.top) > 1) scrolled();
      again();
    };
    view.frame = requestAnimationFrame(goOn);
  }

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    // The view itself: it shrinks when a person writes more lines.
    const own = new ResizeObserver(() => {
      if (element.clientHeight === 0) return; // it is not shown
      view.height = element.clientHeight;
      drawn.total = -1; // where it was is another place now
      again();
    });
    own.observe(element);
    setAway(false);
    // What is in sight is shown first, and what is around it drawn behind.
    const frame = requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        view.around = AROUND;
        again();
      }),
    );
    return () => {
      cancelAnimationFrame(frame);
      cancelAnimationFrame(view.frame);
      own.disconnect();
      observer.disconnect();
    };
  }, [list]);

  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    for (const each of isSame ? [] : element.querySelectorAll<HTMLElement>("[data-id]")) {
      const id = each.dataset["id"]!;
      if (items[heights.indexOf(id)]?.height === undefined && !heights.isMeasured(id)) heights.measure(id, each.getBoundingClientRect().height);
    }
    if (isSame && heights.total === drawn.total) return;
    drawn.items = items;
    drawn.total = heights.total;
    if (view.isAtEnd) element.scrollTop = element.scrollHeight;
    else {
      const top = topOf(heights, view);
      if (Math.abs(element.scrollTop - top) > 1) element.scrollTop = top;
    }
    view.top = element.scrollTop;
    if (view.focus !== "") {
      element.querySelector<HTMLElement>(`[data-id="${CSS.escape(view.focus)}"]`)?.focus({ preventScroll: true });
      view.focus = "";
    }
    look();
  });

  /** Draw again if what is drawn does not reach far enough, and say what is in sight. */
  const look = () => {
    const wanted = heights.window(view.top, view.height, Math.max(0, view.around - SLACK));
    // The next frame draws more anyway, where it is not in sight.
    const needed = view.frame === 0 ? wanted : heights.window(view.top, view.height, 0);
    if (needed.from < view.from || needed.to > view.to) again();
    const { onSeen } = given.current;
    if (onSeen === undefined) return;
    const seen: Seen<Item>[] = [];
    for (let at = wanted.from; at < Math.min(wanted.to, heights.count); at++) {
      const top = heights.start(at) - view.top;
      seen.push({ item: given.current.items[at]!, top, bottom: top + heights.of(at), viewHeight: view.height });
    }
    onSeen(seen);
  };

  const scrolled = () => {
    const element = place.current;
    if (element === null) return;
    const top = element.scrollTop;
    // As the browser has it: it may have moved the list before the observers say that the view, or what is in it, has another height.
    view.height = element.clientHeight || view.height;
    const rest = element.scrollHeight - top - view.height;
    // What came below since then is no reason to leave the end; only somebody who scrolls up leaves it.
    view.isAtEnd = rest < NEAR_END || (view.isAtEnd && top >= view.top);
    view.top = top;
    setAway(rest > view.height / 2);
    view.anchor = anchorAt(heights, given.current.items, top, view.height);
    look();
  };

  const go = (at: number, y: number, focus = "") => {
    const item = given.current.items[at];
    if (item === undefined) return;
    Object.assign(view, { isAtEnd: false, anchor: { id: item.id, y }, focus });
    drawn.total = -1;
    again();
  };
  const handle: ListHandle = {
    toEnd() {
      Object.assign(view, { isAtEnd: true, anchor: null });
      drawn.total = -1;
      setAway(false);
      again();
    },
    toStart: () => go(0, 0),
    show(id, isFocused = true) {
      const at = heights.indexOf(id);
      if (at >= 0) go(at, view.height / 4, isFocused ? id : "");
      return at >= 0;
    },
    step(by) {
      const own = focusedIn(place.current);
      const known = own === undefined ? -1 : heights.indexOf(own);
      // From one that is far away, nobody goes on.
      let at = known >= view.from && known < view.to ? known + by : heights.at(view.top + (by > 0 ? 0 : view.height));
      while (given.current.items[at]?.height !== undefined) at += by;
      if (at >= 0 && at < heights.count) go(at, Math.min(view.height / 4, 120), given.current.items[at]!.id);
    },
  };
  useImperativeHandle(props.handle ?? null, () => handle, [list]);

  const keyed = (event: KeyboardEvent) => {
    if (event.target !== place.current || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Home") handle.toStart();
    else if (event.key === "End") handle.toEnd();
    else return;
    event.preventDefault();
  };
  // A feed has messages: one of which none is drawn is none to screen readers.
  const isFeed = near.some((item) => item.height === undefined);
  // All in one array, in which an item keeps its key, and so its element, also where it comes to stand beside others.
  const rows: ComponentChildren[] = [];
  let end = 0;
  const space = (to: number) => <div key={rows.length === 0 ? " 0" : " 1"} style={{ height: `${heights.start(to) - heights.start(end)}px` }} />;
  for (const { from, to } of runs) {
    rows.push(space(from));
    for (const item of items.slice(from, to)) {
      rows.push(<Slot key={item.id} item={item} isLast={item === items.at(-1)} mark={markOf(item)} observer={observer} size={size} draw={draw as (item: Listed) => ComponentChildren} />);
    }
    end = Math.min(to, heights.count);
  }
  return (
    <div class="list">
      <div class="scroll" ref={place} onScroll={scrolled} onKeyDown={keyed} role={isFeed ? "feed" : "group"} aria-label={label} tabIndex={0}>
        {rows}
        <div style={{ height: `${Math.max(0, heights.total - heights.start(end))}px` }} />
      </div>
      {isAway && (
        <button type="button" class="to-end" onClick={handle.toEnd}>
          ↓ {toEnd}
        </button>
      )}
    </div>
  );
}

function topOf<Item extends Sized>(heights: Heights<Item>, view: View): number {
  if (view.isAtEnd) return Math.max(0, heights.total - view.height);
  const at = view.anchor === null ? -1 : heights.indexOf(view.anchor.id);
  return at < 0 ? view.top : Math.max(0, heights.start(at) - view.anchor!.y);
}

/** What stays where it is: the first item in the view, and one that is read rather than a gap. */
function anchorAt<Item extends Listed>(heights: Heights<Item>, items: readonly Item[], top: number, height: number): View["anchor"] {
  let at = heights.at(top);
  if (items[at]?.height !== undefined && at + 1 < heights.count && heights.start(at + 1) < top + height) at += 1;
  const item = items[at];
  return item === undefined ? null : { id: item.id, y: heights.start(at) - top };
}

/** The item that has the focus, or in which something has it. */
function focusedIn(place: Element | null): string | undefined {
  const element = document.activeElement?.closest<HTMLElement>("[data-id]");
  return element != null && place?.contains(element) === true ? element.dataset["id"] : undefined;
}

interface SlotProps {
  item: Listed;
  /** A class, since :last-of-type has the browser look at all items again for each one that comes or goes. */
  isLast: boolean;
  mark: string;
  observer: ResizeObserver;
  size: number;
  draw(item: Listed): ComponentChildren;
}

const Slot = memo(
  ({ item, isLast, observer, size, draw }: SlotProps) => {
    const place = useRef<HTMLDivElement>(null);
    const isMeasured = item.height === undefined;
    useLayoutEffect(() => {
      const element = place.current;
      if (element === null || !isMeasured) return;
      observer.observe(element);
      return () => observer.unobserve(element);
    }, [observer, isMeasured]);
    if (!isMeasured) return <div class="gap" data-id={item.id} style={{ height: `${item.height}px` }}>{draw(item)}</div>;
    return (
      <article class={isLast ? "slot is-last" : "slot"} ref={place} data-id={item.id} tabIndex={-1} aria-posinset={item.position} aria-setsize={size}>
        {draw(item)}
      </article>
    );
  },
  (before, now) =>
    before.item.id === now.item.id &&
    before.item.stamp === now.item.stamp &&
    before.isLast === now.isLast &&
    before.mark === now.mark &&
    before.size === now.size &&
    before.observer === now.observer,
);
