// What reaches a person who does not look: sentences for screen readers, and the count in the icon.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../fold/session";
import { Sentences } from "../parts/sentences";
import * as app from "../store/app";
import { announces } from "../store/settings";
import { its } from "../words/screens/chat";

/** More often, nobody can listen to the end. */
const PAUSE_MS = 3000;

/** The answer that is being written, a few finished sentences at a time. */
export function Aloud() {
  const [text, setText] = useState("");
  const state = useRef({ session: null as Session | null, last: "", stream: "", sentences: new Sentences(), rest: "" });
  void app.version.value;
  const session = app.open.value;
  const isOn = announces.value;
  useEffect(() => {
    const own = state.current;
    if (session === null) return;
    const { live } = session;
    const last = session.rows.findLast((row) => row.kind === "assistant" && row.content !== "");
    // What stood there already is read by who wants to read it.
    if (own.session !== session) Object.assign(own, { session, last: last?.id ?? "", stream: "", sentences: new Sentences(), rest: "" });
    let fresh = "";
    if (last !== undefined && last.id !== own.last) {
      fresh = own.sentences.take(last.content, true);
      Object.assign(own, { last: last.id, stream: "", sentences: new Sentences() });
    }
    if (live.isThere) {
      if (live.streamId !== own.stream) Object.assign(own, { stream: live.streamId, sentences: new Sentences() });
      fresh = `${fresh} ${own.sentences.take(live.text)}`;
    }
    own.rest = `${own.rest} ${fresh}`.trim();
  });
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => {
      const { rest } = state.current;
      if (rest === "") return;
      state.current.rest = "";
      setText(rest);
    }, PAUSE_MS);
    return () => clearInterval(timer);
  }, [isOn]);
  return (
    <p class="unseen" aria-live="polite">
      {isOn ? text : ""}
    </p>
  );
}

/** How many questions wait: in the icon of the tab, and aloud. */
export function Waiting() {
  const count = app.waiting.value.length;
  const at = app.route.value;
  const here = at.screen === "approvals" ? count : app.waiting.value.filter((each) => at.screen === "chat" && app.isAskedIn(each, at.id ?? undefined)).length;
  useEffect(() => {
    icon(count);
  }, [count]);
  // Those that are in sight say so themselves.
  return (
    <p class="unseen" role="status">
      {count > here ? its.value.aloud.waits : ""}
    </p>
  );
}

function icon(count: number): void {
  const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (link === null) return;
  link.dataset["plain"] ??= link.href;
  if (count === 0) {
    link.href = link.dataset["plain"];
    return;
  }
  const text = count > 9 ? "9+" : String(count);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#6D5E0F"/><text x="16" y="23" font-family="sans-serif" font-weight="700" font-size="20" text-anchor="middle" fill="#fff">${text}</text></svg>`;
  link.href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
