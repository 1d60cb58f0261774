// The sessions at the left: live, searched, the open one marked; with what can be done with each.
import { computed, useComputed } from "@preact/signals";
import { memo } from "../parts/memo";
import { Menu, type Choice } from "../parts/menu";
import { Icon } from "../parts/icon";
import { Reading } from "../parts/page";
import { areThereMore, isAskedIn, isTrash, listMore, look, may, query, route, sessions, sessionsProblem, waiting, type SessionRow } from "../store/app";
import { choose, chosen, hits, purge, remove, rename, restore, save } from "../store/sessions";
import { language, words } from "../store/settings";
import { shown } from "../parts/text";
import { hrefOf, routeOf } from "../store/route";
import { its as aboutChat } from "../words/screens/chat";
import { Nav } from "./nav";
import { Find, isSifted, Several } from "./sift";

const DAY_MS = 24 * 3600 * 1000;

export function Drawer({ isOpen, close }: { isOpen: boolean; close(): void }) {
  const its = words.value;
  return (
    <nav class={`drawer ${isOpen ? "is-open" : ""}`} aria-label={its.sessions} id="drawer">
      <div class="drawer-head">
        {may("session/new") && (
          <a class="button primary wide" href="#/chat/new" onClick={close}>
            <Icon name="plus" /> {its.newSession}
          </a>
        )}
        <Find />
      </div>
      <div class="sessions" tabIndex={0} role="group" aria-label={its.sessions}>
        {isTrash.value && <h2>{its.drawer.trash}</h2>}
        {sessionsProblem.value === null ? (
          <Reading />
        ) : sessions.value.length === 0 ? (
          hits.value.length === 0 && <p class="empty">{sessionsProblem.value !== "" ? shown(sessionsProblem.value) : query.value !== "" ? its.noMatch : isSifted.value ? its.drawer.siftNone : isTrash.value ? its.drawer.noTrash : may("session/prompt") ? its.noSessions : its.noneYet}</p>
        ) : (
          <ul>
            {sessions.value.map((row) => (
              <Row key={row.session_id} row={row} close={close} />
            ))}
          </ul>
        )}
        {areThereMore.value && (
          <button type="button" class="quiet small wide" onClick={listMore}>
            {its.drawer.more}
          </button>
        )}
        {!isTrash.value && hits.value.length > 0 && <Hits close={close} />}
      </div>
      {chosen.value !== null && <Several />}
      <div class="drawer-foot">
        {may("session/restore") && (
          <button type="button" class="quiet small" aria-pressed={isTrash.value} onClick={() => ((chosen.value = null), look(!isTrash.value))}>
            <Icon name={isTrash.value ? "undo" : "trash"} />
            {isTrash.value ? its.drawer.back : its.drawer.trash}
          </button>
        )}
        <details class="narrow-ways">
          <summary class="way">
            <Icon name="settings" />
            {its.screensNav}
          </summary>
          <Nav close={close} />
        </details>
      </div>
    </nav>
  );
}

const current = computed(() => (route.value.screen === "chat" ? route.value.id : null));

/** Of thousands, those are drawn again that changed: a row of the list is the same object until then. */
const Row = memo(({ row, close }: { row: SessionRow; close(): void }) => {
  const its = words.value;
  const isCurrent = useComputed(() => row.session_id === current.value).value;
  const title = shown(row.title) || its.untitled;
  const isChosen = useComputed(() => chosen.value?.has(row.session_id)).value;
  if (isChosen !== undefined) {
    return (
      <li>
        <label class="check">
          <input type="checkbox" aria-label={its.drawer.choose(title)} checked={isChosen} onChange={() => choose(row.session_id)} />
          <About row={row} />
        </label>
      </li>
    );
  }
  return (
    <li {...(row.deleted_at_ms === null && may("session/delete") ? swiped(() => void remove(row, true)) : {})}>
      <a
        href={`#/chat/${encodeURIComponent(row.session_id)}`}
        aria-current={isCurrent ? "page" : undefined}
        title={title}
        onClick={close}
      >
        <About row={row} />
      </a>
      <Menu label={its.drawer.menu(title)} choices={choices(row)} />
    </li>
  );
}, (before, now) => before.row === now.row);

/** So far a row is drawn to the left by a finger before it is deleted; less, and it slides back. */
const SWIPE_PX = 96;
/** A finger that has moved less may still mean to scroll, or to press. */
const STILL_PX = 12;

/** Where the finger came down, and how far it has drawn the row: there is one, and a row may be drawn again under it. */
let from: { x: number; y: number } | null = null;
let by = 0;

function swiped(remove: () => void) {
  const slide = (element: HTMLElement, px: number) => {
    by = px;
    element.classList.toggle("is-swiped", px !== 0);
    element.style.setProperty("--swiped", `${px}px`);
  };
  const end = (element: HTMLElement) => {
    const isFar = by <= -SWIPE_PX;
    from = null;
    slide(element, 0);
    if (isFar) remove();
  };
  return {
    onTouchStart: ({ touches }: TouchEvent) => {
      const [touch] = touches;
      from = touches.length === 1 && touch !== undefined ? { x: touch.clientX, y: touch.clientY } : null;
    },
    onTouchMove: ({ touches: [touch], currentTarget }: TouchEvent) => {
      if (from === null || touch === undefined) return;
      const [dx, dy] = [touch.clientX - from.x, touch.clientY - from.y];
      if (by === 0 && Math.abs(dy) > STILL_PX) from = null; // it scrolls
      else if (by !== 0 || dx < -STILL_PX) slide(currentTarget as HTMLElement, Math.min(-1, dx));
    },
    onTouchEnd: ({ currentTarget }: TouchEvent) => end(currentTarget as HTMLElement),
    onTouchCancel: ({ currentTarget }: TouchEvent) => ((by = 0), end(currentTarget as HTMLElement)),
  };
}

/** Its title, how it is, and below what was said last, unless that is what the title has already. */
function About({ row }: { row: SessionRow }) {
  const { title, last_message_preview: last } = row;
  const isSaid = title !== "" && last.startsWith(title.replace(/…$/, ""));
  return (
    <>
      <span class="title">{shown(title) || words.value.untitled}</span>
      <Meta row={row} />
      {last !== "" && !isSaid && <span class="last">{shown(last)}</span>}
    </>
  );
}

function Meta({ row }: { row: SessionRow }) {
  const its = words.value;
  const asks = useComputed(() => waiting.value.some((each) => isAskedIn(each, row.session_id))).value;
  const kind = row.kind === "main" ? ((row.forked_from ?? "") === "" ? "" : its.drawer.copy) : its.drawer.delegated;
  return (
    <span class="meta">
      {asks ? (
        <span class="asks" role="img" aria-label={its.states["waiting"]} title={its.states["waiting"]}>
          ?
        </span>
      ) : (
        row.is_active && <span class="dot" role="img" aria-label={its.running} />
      )}
      {(row.waiting_for ?? "") !== "" && <span>{its.waitsFor(shown(row.waiting_for ?? ""))}</span>}
      {kind !== "" && <span>{kind}</span>}
      {row.agent !== "general" && <span>{shown(row.agent)}</span>}
      <time dateTime={new Date(row.updated_at_ms).toISOString()}>{ago(row.updated_at_ms)}</time>
    </span>
  );
}

function choices(row: SessionRow): Choice[] {
  const its = words.value.drawer;
  const all: Choice[] = [];
  if (row.deleted_at_ms !== null) {
    if (may("session/restore")) all.push({ name: its.restore, icon: "undo", run: () => void restore(row.session_id) });
    if (may("session/purge")) all.push({ name: its.purge, icon: "trash", isBad: true, run: () => void purge(row) });
    return all;
  }
  if (may("session/rename")) all.push({ name: its.rename, icon: "edit", run: () => void rename(row) });
  all.push({ name: aboutChat.value.page.open, icon: "file", run: () => void (location.hash = hrefOf("print", row.session_id)) });
  if (may("session/export")) all.push({ name: its.save, icon: "save", run: () => void save(row) });
  if (may("session/delete")) all.push({ name: its.delete, icon: "trash", isBad: true, run: () => void remove(row) });
  return all;
}

function Hits({ close }: { close(): void }) {
  const its = words.value;
  return (
    <section aria-label={its.drawer.said}>
      <h2>{its.drawer.said}</h2>
      <ul>
        {hits.value.map(({ session, message_id, position, snippet }) => {
          const href = hrefOf("chat", session.session_id, message_id, String(position));
          // The address that is there already says no change.
          const go = () => (close(), location.hash === href && (route.value = routeOf(href)));
          return (
            <li key={`${session.session_id}:${message_id}`}>
              <a class="hit" href={href} onClick={go}>
                <span class="title">{shown(session.title) || its.untitled}</span>
                <span class="snippet">
                  <Marked text={shown(snippet)} query={query.value} />
                </span>
              </a>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** A text with the words of a search marked. */
function Marked({ text, query: asked }: { text: string; query: string }) {
  const wanted = asked.trim().split(/\s+/).filter((each) => each !== "");
  if (wanted.length === 0) return <>{text}</>;
  const parts = text.split(new RegExp(`(${wanted.map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "giu"));
  return <>{parts.map((part, at) => (at % 2 === 1 ? <mark key={at}>{part}</mark> : part))}</>;
}

/** What formats a date is made once: it costs more than the row. */
const formats = computed(() => {
  const locale = language.value === "zh" ? "zh-CN" : "en-GB";
  return {
    time: new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" }),
    day: new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" }),
  };
});

function ago(at: number): string {
  const { time, day } = formats.value;
  return (Date.now() - at < DAY_MS ? time : day).format(at);
}
