// A question about a call: everything that is needed to decide, and nothing that answers by accident.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Methods } from "../link";
import { useDraft } from "../parts/form";
import { Icon } from "../parts/icon";
import { left, shown } from "../parts/text";
import { ANSWER, link, may, resolve, sessions, type ApprovalRow, type SessionRow } from "../store/app";
import { hrefOf } from "../store/route";
import { words } from "../store/settings";
import { said } from "../words/said";
import { Arguments, Covered } from "./arguments";
import { Change, type Judged } from "./change";
import { Preview } from "./preview";

type Request = Methods["approval/get"]["result"];

/** A press so soon after the buttons came or moved was meant for what was there before. */
const SETTLE_MS = 400;
const TICK_MS = 1000;
/** Nothing moved lately, so that a press counts. All questions share it: where one comes or goes, the others move. */
const isSettled = signal(true);
let settling: ReturnType<typeof setTimeout> | undefined;

function moved() {
  isSettled.value = false;
  clearTimeout(settling);
  settling = setTimeout(() => (isSettled.value = true), SETTLE_MS);
}

/** The agent that asks; elsewhere than in its session, with the way there. */
export function From({ id, isHere }: { id: string; isHere: boolean }) {
  const its = words.value;
  const listed = sessions.value.find((each) => each.session_id === id);
  const [found, setFound] = useState<SessionRow | null>(null);
  const session = listed ?? found;
  useEffect(() => {
    // Those that were delegated are in no list.
    if (listed === undefined) link.request("session/get", { session_id: id }).then(setFound, () => undefined);
  }, [id]);
  if (session === null) return null;
  return (
    <p>
      <span class="label">{its.composer.agent}</span> {shown(session.agent)}
      {!isHere && (
        <>
          {" · "}
          <a href={hrefOf("chat", id)}>{shown(session.title) || its.untitled}</a>
        </>
      )}
    </p>
  );
}

/** In the session where it was asked it wants attention at once; elsewhere it is one of a list. */
export function Ask({ row, isFull = true, isHere = false }: { row: ApprovalRow; isFull?: boolean; isHere?: boolean }) {
  const its = words.value;
  const [request, setRequest] = useState<Request | null>(null);
  const [now, setNow] = useState(() => Date.now());
  const { value: { reason }, set: write } = useDraft(ANSWER + row.approval_id, { reason: "" });
  const [scope, setScope] = useState("");
  /** For which paths an answer is to be remembered; `null` for that of the call. */
  const [pattern, setPattern] = useState<string | null>(null);
  const [armed, setArmed] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [isChanging, setChanging] = useState(false);
  const [judged, setJudged] = useState<{ json: string; request: Judged } | null>(null);
  const [isWrong, setWrong] = useState(false);
  /** Of the tool's arguments; `undefined` until it is known whether there is one. */
  const [schema, setSchema] = useState<unknown>(undefined);

  useLayoutEffect(() => (moved(), moved), [row.approval_id]);
  useEffect(() => {
    let isOver = false;
    moved(); // a busy page draws it only now
    link.request("approval/get", { approval_id: row.approval_id }).then(
      (found) => {
        if (isOver) return;
        setRequest(found);
        setSchema(found.parameters ?? null);
        if (found.origin) moved(); // its line moves the buttons
      },
      () => isOver || setSchema(null),
    );
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [row.approval_id]);

  const covers = request?.covers ?? null;
  const [[name, path] = ["", null], ...others] = Object.entries(covers?.paths ?? {});
  const isWider = pattern !== null && pattern.trim() !== "" && pattern !== path;
  const tier = (isChanging ? judged?.request.tier : null) ?? row.tier;
  const answer = async (decision: "allow" | "deny", remember?: string) => {
    if (!isSettled.value || isBusy) return;
    const changed = decision === "allow" && isChanging ? judged : null;
    if (decision === "allow" && isChanging && changed === null) return;
    const what = `${decision}:${remember ?? ""}:${changed?.json ?? ""}`;
    // More than this one call is allowed by two presses, as is what can't be undone.
    const isGrave = tier === "elevated" || (remember !== undefined && isWider);
    if (decision === "allow" && isGrave && armed !== what) {
      setArmed(what);
      moved(); // the second half of a double click is no second press
      return;
    }
    setBusy(true);
    await resolve({
      approval_id: row.approval_id,
      decision,
      reason: decision === "deny" ? reason : "",
      ...(changed === null ? {} : { arguments: changed.json }),
      ...(remember === undefined ? {} : { remember: { scope: remember, ...(isWider ? { pattern } : {}) } }),
    });
    setBusy(false);
  };

  const scopes = (request?.scopes ?? []).filter((each) => each !== "call"); // for that, allowing it is enough
  const wanted = scope !== "" ? scope : scopes[0];
  const rest = (row.expires_at_ms ?? 0) - now;
  const title = `ask-${row.approval_id}`;
  return (
    <section class={`ask tier-${tier}`} role={isHere ? "alertdialog" : undefined} aria-labelledby={title} tabIndex={-1}>
      <header>
        <h3 id={title}>
          {its.ask.title} <code>{shown(row.tool)}</code>
        </h3>
        <span class="tier">
          <Icon name={tier === "read_only" ? "find" : "warn"} /> {its.tiers[tier] ?? tier}
        </span>
      </header>
      <From id={row.session_id} isHere={isHere} />
      {request?.origin && (
        <div>
          <span class="label">{its.ask.origin}</span>
          <p class="quoted">{shown(request.origin)}</p>
        </div>
      )}
      <p class="why">
        <span class="label">{its.ask.why}</span> {shown(said(row.reason))}
      </p>
      {isFull && (row.preview ?? "") === "" && !isChanging && <Arguments json={row.arguments} />}
      {(row.preview ?? "") !== "" && (
        <>
          <h4>{its.ask.preview}</h4>
          <Preview text={row.preview ?? ""} json={row.arguments} />
          {isFull && !isChanging && (
            <details>
              <summary>{its.arguments}</summary>
              <Arguments json={row.arguments} />
            </details>
          )}
        </>
      )}
      {isChanging && (
        <>
          <h4>{its.change.title}</h4>
          {schema !== undefined && (
            <Change
              row={row}
              schema={schema}
              judge={(found, isRefused = false) => {
                setJudged(found);
                setWrong(isRefused);
                setArmed("");
                // A press that was meant for what stood there before counts as little as at the beginning.
                if (found !== null) moved();
              }}
              moved={moved}
            />
          )}
          <div class="judged" role="status">
            {judged === null ? (
              <p class="under">{isWrong ? its.change.wrong : its.change.judging}</p>
            ) : (
              <>
                <p class="why">
                  <span class="label">{its.change.judged}</span> {its.tiers[judged.request.tier] ?? judged.request.tier} · {shown(said(judged.request.reason))}
                </p>
                {(judged.request.preview ?? "") !== "" && <Preview text={judged.request.preview ?? ""} json={judged.json} />}
              </>
            )}
          </div>
        </>
      )}
      {may("approval/resolve") ? (
        // A key that is held is pressed once.
        <div class="answers" onKeyDown={(event) => event.repeat && event.key === "Enter" && event.preventDefault()}>
          <div class="buttons">
            <button type="button" class="primary" aria-disabled={!isSettled.value} disabled={isBusy || (isChanging && judged === null)} onClick={() => void answer("allow")}>
              {armed.startsWith("allow::") ? its.ask.allowReally : isChanging ? its.change.allow : its.ask.allow}
            </button>
            <button
              type="button"
              data-key="change"
              aria-expanded={isChanging}
              disabled={isBusy}
              onClick={() => {
                setChanging(!isChanging);
                setJudged(null);
                setWrong(false);
                setArmed("");
                moved();
              }}
            >
              {isChanging ? its.change.leave : its.change.begin}
            </button>
            <button type="button" aria-disabled={!isSettled.value} disabled={isBusy} onClick={() => void answer("deny")}>
              {its.ask.deny}
            </button>
            {scopes.length > 0 && wanted !== undefined && !isChanging && (
              <span class="remember">
                <button type="button" aria-disabled={!isSettled.value} disabled={isBusy} onClick={() => void answer("allow", wanted)}>
                  {armed === `allow:${wanted}:` ? its.ask.allowReally : its.ask.remember}
                </button>
                <select
                  aria-label={its.ask.rememberFor}
                  value={wanted}
                  onChange={(event) => setScope(event.currentTarget.value)}
                >
                  {scopes.map((each) => (
                    <option key={each} value={each}>
                      {its.ask.scopes[each] ?? each}
                    </option>
                  ))}
                </select>
              </span>
            )}
          </div>
          {wanted !== undefined && !isChanging && covers !== null && (
            <>
              <p class="covers" role="status">
                {its.ask.covers} <Covered {...covers} {...(isWider ? { paths: { [name]: pattern } } : {})} />
              </p>
              {path !== null && others.length === 0 && pattern === null && (
                <button type="button" class="quiet small" onClick={() => (setPattern(path), moved())}>
                  {its.ask.widen}
                </button>
              )}
              {pattern !== null && (
                <input
                  type="text"
                  aria-label={its.ask.pattern}
                  placeholder={its.ask.pattern}
                  value={pattern}
                  onInput={(event) => (setPattern(event.currentTarget.value), setArmed(""))}
                />
              )}
            </>
          )}
          <input
            type="text"
            aria-label={its.ask.denyReason}
            placeholder={its.ask.denyReason}
            value={reason}
            onInput={(event) => write({ reason: event.currentTarget.value })}
          />
        </div>
      ) : (
        <p class="empty">{its.ask.notYours}</p>
      )}
      <p class="time">{rest > 0 ? its.ask.expires(left(rest)) : its.ask.expired}</p>
    </section>
  );
}
