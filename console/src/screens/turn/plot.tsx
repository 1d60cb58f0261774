// The picture in its box: zoom and pan by mouse and keys, and only what is in view of many rows.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Turn, TurnRow } from "../../fold/turn";
import { Icon } from "../../parts/icon";
import { its } from "../../words/screens/turn";
import { HEAD, labelWidth, linesOf, Picture, ROW, type View } from "./picture";
import { moved, zoomed } from "./view";

interface Props {
  turn: Turn;
  now: number;
  selected: string;
  select(id: string): void;
  open(row: TurnRow): void;
}

export function Plot({ turn, now, selected, select, open }: Props) {
  const text = its.value;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  /** `null` shows all, also as it grows. */
  const [view, setView] = useState<View | null>(null);
  const drag = useRef<{ x: number; view: View; hasMoved: boolean } | null>(null);
  const lines = useMemo(() => linesOf(turn), [turn]);
  const all = { from: turn.from, to: turn.to };
  const at = view ?? all;
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = () => {
      setWidth(element.clientWidth);
      setScroll({ top: element.scrollTop, height: element.clientHeight });
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => setView(null), [turn.rows[0]?.id]);
  const plot = Math.max(1, width - labelWidth(width) - 12);
  const share = (clientX: number) => (clientX - (box.current?.getBoundingClientRect().left ?? 0) - labelWidth(width)) / plot;
  const zoom = (factor: number, where = 0.5) => setView(zoomed(at, all, factor, where));
  // By hand: a listener that is passive can't keep the page from zooming.
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const wheel = (event: WheelEvent) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(1.0015 ** event.deltaY, Math.max(0, Math.min(1, share(event.clientX))));
      } else if (view !== null && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
        event.preventDefault();
        const by = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
        setView(moved(at, all, by / plot));
      }
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  });
  const rows = turn.rows;
  const choose = (place: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, place))];
    if (row === undefined) return;
    select(row.id);
    const line = lines.findIndex((each) => each.kind === "row" && each.row.id === row.id);
    const element = box.current;
    if (element === null) return;
    const top = HEAD + line * ROW;
    if (top < element.scrollTop + HEAD) element.scrollTop = top - HEAD;
    else if (top + ROW > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW - element.clientHeight;
  };
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = rows.findIndex((row) => row.id === selected);
    const run = {
      ArrowLeft: () => setView(moved(at, all, -0.15)),
      ArrowRight: () => setView(moved(at, all, 0.15)),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1.4),
      "0": () => setView(null),
      ArrowDown: () => choose(place + 1),
      ArrowUp: () => choose(place < 0 ? 0 : place - 1),
      Home: () => choose(0),
      End: () => choose(rows.length - 1),
      Enter: () => rows[place] !== undefined && open(rows[place]),
    }[event.key];
    if (run === undefined) return;
    event.preventDefault();
    run();
  };
  const rowAt = (target: EventTarget | null) => (target instanceof Element ? target.closest<SVGElement>("[data-row]")?.dataset["row"] : undefined);
  return (
    <div class="plot">
      <div class="plot-tools">
        <button type="button" class="quiet tiny" aria-label={text.zoomIn} title={text.zoomIn} onClick={() => zoom(0.7)}>
          <Icon name="plus" />
        </button>
        <button type="button" class="quiet tiny" aria-label={text.zoomOut} title={text.zoomOut} disabled={view === null} onClick={() => zoom(1.4)}>
          <span aria-hidden="true">−</span>
        </button>
        <button type="button" class="quiet small" disabled={view === null} onClick={() => setView(null)}>
          {text.all}
        </button>
        <span class="under keys">{text.keys}</span>
      </div>
      <div
        ref={box}
        class={view === null ? "plot-box" : "plot-box is-zoomed"}
        tabIndex={0}
        role="group"
        aria-label={text.picture}
        onKeyDown={keys}
        onScroll={({ currentTarget }) => setScroll({ top: currentTarget.scrollTop, height: currentTarget.clientHeight })}
        onPointerDown={(event) => {
          if (event.button === 0) drag.current = { x: event.clientX, view: at, hasMoved: false };
        }}
        onPointerMove={(event) => {
          const from = drag.current;
          if (from === null || (!from.hasMoved && Math.abs(event.clientX - from.x) < 4)) return;
          if (!from.hasMoved) event.currentTarget.setPointerCapture(event.pointerId);
          from.hasMoved = true;
          if (view !== null) setView(moved(from.view, all, (from.x - event.clientX) / plot));
        }}
        onPointerUp={(event) => {
          const id = drag.current?.hasMoved === false ? rowAt(event.target) : undefined;
          drag.current = null;
          if (id !== undefined) select(id);
        }}
        onPointerCancel={() => (drag.current = null)}
        onDblClick={(event) => {
          const row = rows.find((each) => each.id === rowAt(event.target));
          if (row !== undefined) open(row);
        }}
      >
        {width > 0 && (
          <Picture turn={turn} lines={lines} view={at} now={now} width={width} selected={selected} top={scroll.top} height={scroll.height} ground="var(--surface)" />
        )}
      </div>
    </div>
  );
}
