// The history of calls, with filters; earlier ones are read as somebody asks for them.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Methods } from "../../link";
import { duration, moment } from "../../parts/amounts";
import { Choose, Field } from "../../parts/form";
import { Empty, Failed, Mark, Reading } from "../../parts/page";
import { shown, summary } from "../../parts/text";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { textOf } from "../../store/problem";
import { hrefOf } from "../../store/route";
import { words } from "../../store/settings";
import { its } from "../../words/screens/tools";
import { Arguments } from "../arguments";

type Call = Methods["tool/history"]["result"]["calls"][number];
type Time = "day" | "week" | "month" | "all";
const DAY_MS = 24 * 3600 * 1000;
const DAYS: Record<Time, number> = { day: 1, week: 7, month: 30, all: 0 };
const PAGE = 50;
/** The most that the daemon gives at once. */
const MAX_PAGE = 500;
/** So many sessions can be chosen, the latest. */
const MAX_SESSIONS = 200;
const STATES = ["success", "error", "denied", "timeout", "cancelled", "interrupted", "deferred", "waiting", "running"] as const;

export function History({ tool }: { tool: string }) {
  const text = its.value;
  const [state, setState] = useState("");
  const [session, setSession] = useState("");
  const [time, setTime] = useState<Time>("week");
  const [calls, setCalls] = useState<readonly Call[] | null>(null);
  const [next, setNext] = useState<number | null>(null);
  const [problem, setProblem] = useState("");
  const latest = useRef(0);
  const isReadingMore = useRef(false);
  // The list at the left may be searched, or be of the deleted.
  const sessions = useResource(() => app.link.request("session/list", { limit: MAX_SESSIONS }), []);
  const tools = useResource(() => app.link.request("tool/list", {}), ["tools"]);
  // Another value each time that a call begins or ends, in whichever session.
  const { value: happened } = useResource(async () => ({}), ["status"]);
  /** Read from the latest call on, at least as many as are shown; or those before one. */
  const read = async (before: number | null, isAgain = false) => {
    if (isAgain && isReadingMore.current) return;
    const own = ++latest.current;
    isReadingMore.current = before !== null;
    try {
      const page = await app.link.request("tool/history", {
        limit: isAgain ? Math.min(MAX_PAGE, Math.max(PAGE, calls?.length ?? 0)) : PAGE,
        ...(before === null ? {} : { before }),
        ...(tool === "" ? {} : { name: tool }),
        ...(session === "" ? {} : { session_id: session }),
        ...(state === "" ? {} : { status: state as Call["status"] }),
        ...(time === "all" ? {} : { since_ms: Date.now() - DAYS[time] * DAY_MS }),
      });
      if (own !== latest.current) return;
      // Behind what was read again, those that were read before stay.
      const last = page.calls.at(-1);
      const at = isAgain && page.next_before != null ? (calls ?? []).findIndex((each) => each.call_id === last?.call_id) : -1;
      const older = at < 0 ? [] : (calls ?? []).slice(at + 1);
      setCalls((old) => (before === null ? [...page.calls, ...older] : [...(old ?? []), ...page.calls]));
      if (older.length === 0) setNext(page.next_before ?? null);
      setProblem("");
    } catch (error) {
      if (own === latest.current && !app.isGone(error)) setProblem(textOf(error));
    } finally {
      if (own === latest.current) isReadingMore.current = false;
    }
  };
  const isOpen = app.link.state.value.kind === "open";
  useEffect(() => {
    if (isOpen) void read(null);
  }, [tool, state, session, time, isOpen]);
  const waiting = app.waiting.value.length;
  useEffect(() => {
    if (isOpen && calls !== null) void read(null, true);
  }, [happened, waiting]);
  const names = [...new Set([...(tool === "" ? [] : [tool]), ...(tools.value?.tools ?? []).map((each) => each.name)])];
  return (
    <>
      <div class="filters">
        <Field label={text.tool}>
          {(attributes) => (
            <select {...attributes} value={tool} onChange={(event) => (location.hash = hrefOf("tools", "history", ...(event.currentTarget.value === "" ? [] : [event.currentTarget.value])))}>
              <option value="">{text.all}</option>
              {names.map((each) => (
                <option key={each} value={each}>
                  {shown(each)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={text.state}>
          {(attributes) => (
            <select {...attributes} value={state} onChange={(event) => setState(event.currentTarget.value)}>
              <option value="">{text.all}</option>
              {STATES.map((each) => (
                <option key={each} value={each}>
                  {words.value.states[each]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={text.columns.session}>
          {(attributes) => (
            <select {...attributes} value={session} onChange={(event) => setSession(event.currentTarget.value)}>
              <option value="">{text.all}</option>
              {(sessions.value?.sessions ?? []).map((each) => (
                <option key={each.session_id} value={each.session_id}>
                  {shown(each.title || words.value.untitled)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Choose<Time> label={text.since} value={time} options={Object.entries(text.times) as [Time, string][]} choose={setTime} />
      </div>
      {problem !== "" && <Failed text={problem} again={() => void read(null)} />}
      {calls === null ? (
        problem === "" && <Reading />
      ) : calls.length === 0 ? (
        <Empty icon="tools" title={text.noCalls} text={text.noCallsText} />
      ) : (
        <ul class="rows tool-rows" aria-label={text.parts.history}>
          {calls.map((call) => (
            <One key={`${call.session_id}/${call.call_id}`} call={call} />
          ))}
        </ul>
      )}
      {next !== null && (
        <button type="button" onClick={() => void read(next)}>
          {text.more}
        </button>
      )}
    </>
  );
}

const KINDS: Record<string, "good" | "bad" | "warn" | "plain"> = { success: "good", error: "bad", denied: "bad", timeout: "bad", waiting: "warn", deferred: "warn" };

function One({ call }: { call: Call }) {
  const text = its.value;
  return (
    <li>
      <details>
        <summary>
          <span class="title">
            <code class="name">{shown(call.name)}</code>
            <Mark kind={KINDS[call.status] ?? "plain"}>{words.value.states[call.status] ?? call.status}</Mark>
            <span class="when">
              {call.duration_ms === null ? "" : `${duration(call.duration_ms)} · `}
              {moment(call.proposed_at_ms)}
            </span>
          </span>
          <span class="text">{call.display ? shown(call.display) : summary(call.arguments)}</span>
        </summary>
        <h3>{text.schema}</h3>
        <Arguments json={call.arguments} />
        {call.result !== null && (
          <>
            <h3>{text.result}</h3>
            <pre class="long" tabIndex={0}>
              {shown(call.result)}
            </pre>
          </>
        )}
        <p class="buttons">
          <a class="button small" href={hrefOf("chat", call.session_id, `call:${call.call_id}`)}>
            {text.columns.session}
          </a>
          {app.may("turn/get") && (
            <a class="button small" href={hrefOf("turn", call.session_id, call.turn_id)}>
              {text.turn}
            </a>
          )}
        </p>
      </details>
    </li>
  );
}
