// A windowed list: only what is near the view is drawn; what is read stays where it is when heights above change.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Heights } from "./heights";

const AROUND = 1500;
/** Nearer to the end than this, the list stays at the end as it grows. */
const NEAR_END = 48;

interface ListProps<Item> {
  items: readonly Item[];
  estimate: number;
  label: string;
  /** Another value begins at the end again. */
  subject: string;
  idOf(item: Item): string;
  draw(item: Item): ComponentChildren;
  onTop?(): void;
  head?: ComponentChildren;
  toEnd: string;
}

export function WindowedList<Item>({ items, estimate, label, subject, idOf, draw, onTop, head, toEnd }: ListProps<Item>) {
  const place = useRef<HTMLDivElement>(null);
  const headPlace = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new Heights(estimate), [subject]);
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  const anchor = useRef<{ id: string; y: number } | null>(null);
  const [, draw_] = useState(0);
  const [isAway, setAway] = useState(false);
  const again = () => draw_((count) => count + 1);
  const ids = items.map(idOf);

  const view = place.current;
  const headHeight = headPlace.current?.offsetHeight ?? 0;
  const height = view?.clientHeight ?? 800;
  const total = ids.reduce((sum, id) => sum + heights.of(id), 0);
  const top = view === null || isAtEnd.current ? Math.max(0, total - height) : view.scrollTop - headHeight;
  const { from, to, before, after } = heights.window(ids, top, height, AROUND);

  const observer = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let changed = false;
        for (const entry of entries) {
          const id = (entry.target as HTMLElement).dataset["id"];
          const size = entry.borderBoxSize[0]?.blockSize ?? 0;
          if (id !== undefined && size > 0 && heights.measure(id, size) !== 0) changed = true;
        }
        if (changed) again();
      }),
    [heights],
  );
  useEffect(() => {
    const element = place.current;
    // The view itself: it shrinks when a person writes more lines.
    const own = new ResizeObserver(again);
    if (element !== null) own.observe(element);
    return () => {
      own.disconnect();
      observer.disconnect();
    };
  }, [observer]);

  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    if (isAtEnd.current) {
      element.scrollTop = element.scrollHeight;
      lastTop.current = element.scrollTop;
    } else if (anchor.current !== null) {
      // What was at the top of the view stays there, whatever came or changed above it.
      const found = element.querySelector<HTMLElement>(`[data-id="${CSS.escape(anchor.current.id)}"]`);
      if (found !== null) {
        const moved = found.offsetTop - element.scrollTop - anchor.current.y;
        if (Math.abs(moved) > 1) element.scrollTop += moved;
        lastTop.current = element.scrollTop;
      }
    }
  });

  useEffect(() => {
    isAtEnd.current = true;
    anchor.current = null;
    setAway(false);
    again();
  }, [subject]);

  const scrolled = () => {
    const element = place.current;
    if (element === null) return;
    const rest = element.scrollHeight - element.scrollTop - element.clientHeight;
    // What came below since then is no reason to leave the end; only somebody who scrolls up leaves it.
    isAtEnd.current = rest < NEAR_END || (isAtEnd.current && element.scrollTop >= lastTop.current);
    lastTop.current = element.scrollTop;
    setAway(rest > element.clientHeight / 2);
    anchor.current = null;
    for (const each of element.querySelectorAll<HTMLElement>("[data-id]")) {
      if (each.offsetTop + each.offsetHeight > element.scrollTop) {
        anchor.current = { id: each.dataset["id"] ?? "", y: each.offsetTop - element.scrollTop };
        break;
      }
    }
    if (element.scrollTop < AROUND) onTop?.();
    again();
  };

  return (
    <div class="list">
      <div class="scroll" ref={place} onScroll={scrolled} role="feed" aria-label={label} tabIndex={0}>
        <div ref={headPlace}>{head}</div>
        <div style={{ height: `${before}px` }} />
        {items.slice(from, to).map((item, at) => (
          <Slot key={ids[from + at]} id={ids[from + at]!} observer={observer} position={from + at + 1} size={items.length}>
            {draw(item)}
          </Slot>
        ))}
        <div style={{ height: `${after}px` }} />
      </div>
      {isAway && (
        <button
          type="button"
          class="to-end"
          onClick={() => {
            isAtEnd.current = true;
            setAway(false);
            again();
          }}
        >
          ↓ {toEnd}
        </button>
      )}
    </div>
  );
}

interface SlotProps {
  id: string;
  observer: ResizeObserver;
  position: number;
  size: number;
  children: ComponentChildren;
}

function Slot({ id, observer, position, size, children }: SlotProps) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    observer.observe(element);
    return () => observer.unobserve(element);
  }, [observer]);
  return (
    <article class="slot" ref={place} data-id={id} aria-posinset={position} aria-setsize={size}>
      {children}
    </article>
  );
}
