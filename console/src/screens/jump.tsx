// From a hit, or a row of a timeline, to its message in the open session: it is read, shown and marked, and its call opened.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import type { Session } from "../fold/session";
import type { Item } from "../fold/view";
import * as app from "../store/app";
import { isFinding, list } from "../store/keys";
import * as reading from "../store/reading";

const MARK = "found";

interface Wanted {
  id: string;
  position: number;
}
/** The message that the list should show once it is read; of one whose position is 0, the daemon is asked for it. */
export const wanted = signal<Wanted | null>(null);
/** The message whose position is asked for. */
let located: Wanted | null = null;
/** The words that somebody finds in the session. */
export const sought = signal("");

interface JumpProps {
  items: readonly (Item | { kind: "head"; id: string; position: number })[];
  session: Session;
}

export function Jump({ items, session }: JumpProps) {
  const at = app.route.value;
  const hit = at.screen === "chat" && at.id === session.id && at.messageId !== undefined ? at : null;
  useEffect(() => {
    if (hit !== null) wanted.value = { id: hit.messageId!, position: hit.position ?? 0 };
    return () => void (wanted.value = null);
  }, [hit, session]);
  // Each page that is read draws this again.
  const its = wanted.value;
  useEffect(() => {
    if (its === null) return;
    const row = session.get(its.id);
    if (row === undefined) {
      if (its.position === 0) return void locate(session, its);
      const gap = session.gapWith(its.position);
      if (gap === null) wanted.value = null;
      else void reading.fill(gap, its.position);
      return;
    }
    wanted.value = null;
    const isOf = (each: (typeof items)[number]) => each.id === row.id || (each.kind === "calls" && each.calls.some((call) => call.row.callId === row.callId));
    // An answer without a text is its calls.
    const item = items.find(isOf) ?? items.find((each) => each.kind !== "gap" && each.position > row.position);
    if (item === undefined) return;
    const isMarked = !isFinding.peek();
    list.current?.show(item.id, isMarked);
    requestAnimationFrame(() => requestAnimationFrame(() => reveal(item.id, row.callId, isMarked)));
  });
  const words = sought.value || (hit === null ? "" : app.query.value);
  // Undone with the layout: a passive effect is undone after the next frame, which would mark once more.
  useLayoutEffect(() => mark(words), [words]);
  return null;
}

/** Ask where in the record a message stands, so that it is read at once and not page by page from the end on. */
async function locate(session: Session, its: Wanted): Promise<void> {
  if (located === its) return;
  located = its;
  const next = (to: Wanted | null) => wanted.peek() === its && (wanted.value = to);
  try {
    const { messages } = await app.link.request("session/messages", { session_id: session.id, from_message: its.id, limit: 1 });
    next(messages[0] === undefined ? null : { id: its.id, position: messages[0].position });
  } catch (error) {
    if (app.isGone(error)) located = null; // it is asked again when the connection is back
    else {
      next(null);
      app.say(error);
    }
  }
}

/** Open the card of a call, and mark what an address led to. */
function reveal(id: string, callId: string, isMarked: boolean): void {
  const slot = document.querySelector(`[data-id="${CSS.escape(id)}"]`);
  const card = callId === "" ? null : slot?.querySelector<HTMLDetailsElement>(`[data-call="${CSS.escape(callId)}"]`);
  if (card != null) {
    card.open = true;
    card.scrollIntoView({ block: "nearest" });
  }
  if (!isMarked) return;
  document.querySelector("[data-marked]")?.removeAttribute("data-marked");
  (card ?? slot)?.setAttribute("data-marked", "");
}

/** Mark words in what is drawn, by ranges alone: the page's nodes stay as they are. */
function mark(query: string): (() => void) | undefined {
  const view = document.querySelector(".scroll");
  const words = query.trim().split(/\s+/).filter((each) => each !== "");
  if (view === null || CSS.highlights === undefined || words.length === 0) return;
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
    CSS.highlights.delete(MARK);
  };
}
