// Find in the open session: in all of the record, whether it is drawn or not; what is drawn has the words marked.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../parts/menu";
import * as app from "../store/app";
import { isFinding, list } from "../store/keys";
import * as reading from "../store/reading";
import { its } from "../words/screens/chat";

const SETTLE_MS = 200;
const MAX_HITS = 200;
const MARK = "found";

interface Hit {
  position: number;
  type: string;
}

/** Where the list should be when its rows are there. */
const wanted = signal<Hit | null>(null);

export function Find({ items }: { items: readonly { id: string; kind: string; position: number }[] }) {
  const text = its.value.find;
  const [query, setQuery] = useState("");
  const [hits, setHits] = useState<{ all: readonly Hit[]; count: number; of: string }>({ all: [], count: 0, of: "" });
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const session = app.open.value;
  const id = session?.id;

  // Before the next key: what is typed at once belongs here.
  useLayoutEffect(() => {
    const before = document.activeElement;
    field.current?.focus();
    return () => {
      CSS.highlights?.delete(MARK);
      wanted.value = null;
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  useEffect(() => {
    if (id === undefined) return;
    if (query.trim() === "") return setHits({ all: [], count: 0, of: "" });
    let isOver = false;
    const timer = setTimeout(() => {
      app.link.request("session/search", { query, session_id: id, limit: MAX_HITS }).then((found) => {
        if (isOver) return;
        setHits({ all: found.hits, count: found.hits[0]?.matches ?? 0, of: query });
        setAt(0);
        void go(found.hits[0]);
      }, (error: unknown) => !isOver && !app.isGone(error) && app.say(error));
    }, SETTLE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [query, id]);

  const go = async (hit: Hit | undefined) => {
    if (hit === undefined) return;
    await reading.reach(hit.position);
    wanted.value = hit;
  };
  const step = (by: number) => {
    if (hits.all.length === 0) return;
    const next = (at + by + hits.all.length) % hits.all.length;
    setAt(next);
    void go(hits.all[next]);
  };
  // The rows of a hit may come with the next frame.
  const hit = wanted.value;
  useEffect(() => {
    if (hit === null) return;
    const item = items.findLast((each) => each.position <= hit.position && each.kind !== "gap");
    if (item === undefined || items.some((each) => each.kind === "gap" && each.position === hit.position)) return;
    wanted.value = null;
    list.current?.show(item.id, false);
    requestAnimationFrame(() => requestAnimationFrame(() => open(item.id, hit)));
  });
  // Undone with the layout: a passive effect is undone after the next frame, which would mark once more.
  useLayoutEffect(() => mark(query), [query, hits]);

  const count = hits.count > MAX_HITS ? `${MAX_HITS}+` : String(hits.all.length);
  return (
    <form
      class="find"
      role="search"
      aria-label={text.title}
      onSubmit={(event) => (event.preventDefault(), step(1))}
      onKeyDown={(event) => {
        if (event.key === "Escape") (event.stopPropagation(), (isFinding.value = false));
        else if (event.key === "Enter" && event.shiftKey) (event.preventDefault(), step(-1));
      }}
    >
      <input ref={field} type="search" aria-label={text.title} placeholder={text.title} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      <span class="under" role="status">
        {query.trim() === "" || hits.of !== query ? "" : hits.all.length === 0 ? text.none : text.at(at + 1, count)}
      </span>
      <IconButton icon="up" name={text.earlier} run={() => step(1)} />
      <IconButton icon="down" name={text.later} run={() => step(-1)} />
      <IconButton icon="close" name={text.close} run={() => (isFinding.value = false)} />
    </form>
  );
}

/** What was found in a call is behind its line. */
function open(id: string, hit: Hit): void {
  if (hit.type !== "tool_call" && hit.type !== "tool_result") return;
  const place = document.querySelector<HTMLDetailsElement>(`[data-id="${CSS.escape(id)}"] details`);
  if (place !== null) place.open = true;
}

/** Mark words in what is drawn, by ranges alone: the page's nodes stay as they are. */
function mark(query: string): (() => void) | undefined {
  const view = document.querySelector(".scroll");
  if (view === null || CSS.highlights === undefined) return;
  const words = query.trim().split(/\s+/).filter((each) => each !== "");
  if (words.length === 0) return void CSS.highlights.delete(MARK);
  const pattern = new RegExp(words.map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "giu");
  let frame = 0;
  const draw = () => {
    frame = 0;
    const ranges: Range[] = [];
    const texts = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
      for (const found of (node.nodeValue ?? "").matchAll(pattern)) {
        const range = new Range();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        ranges.push(range);
      }
    }
    CSS.highlights.set(MARK, new Highlight(...ranges));
  };
  const again = () => (frame ||= requestAnimationFrame(draw));
  const observer = new MutationObserver(again);
  observer.observe(view, { childList: true, subtree: true, characterData: true });
  again();
  return () => {
    cancelAnimationFrame(frame);
    observer.disconnect();
  };
}

