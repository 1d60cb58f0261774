// The sessions at the left: live, searched, the open one marked.
import { areThereMore, may, query, route, search, sessions } from "../store/app";
import { language, words } from "../store/settings";
import { shown } from "../parts/text";

const DAY_MS = 24 * 3600 * 1000;

export function Drawer({ isOpen, close }: { isOpen: boolean; close(): void }) {
  const its = words.value;
  const at = route.value;
  const current = at.screen === "chat" ? at.id : null;
  return (
    <nav class={`drawer ${isOpen ? "is-open" : ""}`} aria-label={its.sessions} id="drawer">
      <div class="drawer-head">
        {may("session/new") && (
          <a class="button primary wide" href="#/chat/new" onClick={close}>
            <span aria-hidden="true">＋</span> {its.newSession}
          </a>
        )}
        <input
          type="search"
          aria-label={its.search}
          placeholder={its.search}
          value={query.value}
          onInput={(event) => search(event.currentTarget.value)}
        />
      </div>
      {sessions.value.length === 0 ? (
        <p class="empty">{query.value === "" ? its.noSessions : its.noMatch}</p>
      ) : (
        <ul class="sessions" tabIndex={0} aria-label={its.sessions}>
          {sessions.value.map((row) => (
            <li key={row.session_id}>
              <a
                href={`#/chat/${encodeURIComponent(row.session_id)}`}
                aria-current={row.session_id === current ? "page" : undefined}
                onClick={close}
              >
                <span class="title">{shown(row.title) || its.untitled}</span>
                <span class="meta">
                  {row.is_active && <span class="dot" role="img" aria-label={its.running} />}
                  {row.agent !== "general" && <span>{shown(row.agent)}</span>}
                  <time dateTime={new Date(row.updated_at_ms).toISOString()}>{ago(row.updated_at_ms)}</time>
                </span>
              </a>
            </li>
          ))}
          {areThereMore.value && <li class="empty">…</li>}
        </ul>
      )}
    </nav>
  );
}

function ago(at: number): string {
  const date = new Date(at);
  const locale = language.value === "zh" ? "zh-CN" : "en-GB";
  if (Date.now() - at < DAY_MS) return date.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });
  return date.toLocaleDateString(locale, { day: "numeric", month: "short" });
}
