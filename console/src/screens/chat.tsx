// The chat: messages as they come, calls and questions in their place, and where a person writes.
import { useEffect, useMemo, useState } from "preact/hooks";
import { lastTurn, lister, type Item, type LastTurn } from "../fold/view";
import type { Row, Session } from "../fold/session";
import { WindowedList, type Seen } from "../parts/list";
import { copy, Markdown } from "../parts/markdown";
import { Excerpt } from "../parts/excerpt";
import { Icon } from "../parts/icon";
import { IconButton, Menu, type Choice } from "../parts/menu";
import { Empty } from "../parts/page";
import { useOpened } from "../parts/opened";
import { shown } from "../parts/text";
import * as app from "../store/app";
import * as sending from "../store/inputs";
import { isRehearsing } from "../store/first";
import { isFinding, list } from "../store/keys";
import * as reading from "../store/reading";
import * as turns from "../store/turns";
import { hrefOf } from "../store/route";
import { words } from "../store/settings";
import { Calls } from "./call";
import { Composer } from "./composer";
import { Files } from "./files";
import { Find } from "./find";
import { Jump } from "./jump";
import { Asked } from "./question";
import { further } from "./routes";

/** What an item takes until it is measured, and a message of the record that is not read; of a long message, more. */
const ESTIMATES = { message: 95, calls: 64, live: 80, question: 160, gap: 0, head: 0 } as const;
const CHARS_A_PIXEL = 3;
const ROW_HEIGHT = 80;
const HEAD_HEIGHT = 44;
/** Browsers draw nothing that is much higher. */
const MAX_HEIGHT = 8_000_000;

type Listed = (Item | { kind: "head"; id: string; stamp: number; position: number }) & { height?: number };

/** Of what is missing near the view, have the nearest read. */
function readSeen(seen: Seen<Listed>[]): void {
  for (const [at, { item, top, bottom, viewHeight }] of seen.entries()) {
    if (item.kind !== "gap") continue;
    const { gap } = item;
    if (at + 1 < seen.length && bottom > 0) reading.readGap(gap, "end");
    else if (at > 0 || top > -viewHeight || item.height === 0) reading.readGap(gap, "start");
    else reading.readGap(gap, gap.from + Math.floor((-top / (bottom - top)) * (gap.to - gap.from + 1)));
    return;
  }
}

export function Chat() {
  const its = words.value;
  const session = app.open.value;
  void app.revision.value;
  const itemsOf = useMemo(() => {
    const listed = lister();
    let last: { of: readonly Item[]; all: Listed[] } | null = null;
    return (of: Session) => {
      const items = listed(of);
      if (last?.of !== items) {
        const rowHeight = Math.min(ROW_HEIGHT, MAX_HEIGHT / Math.max(1, of.rows.length === 0 ? 1 : of.rows.at(-1)!.position));
        const all: Listed[] = items.map((item) =>
          item.kind === "gap" ? { ...item, height: Math.round((item.gap.to - item.gap.from + 1) * rowHeight) } : item,
        );
        if (all[0]?.kind !== "gap" || all[0].gap.from > 1) all.unshift({ kind: "head", id: "head", stamp: 0, position: 0, height: HEAD_HEIGHT });
        last = { of: items, all };
      }
      return last.all;
    };
  }, []);
  const at = app.route.value;
  const id = at.screen === "chat" ? at.id : null;
  const own = sending.waiting.value.filter((each) => each.sessionId === id && each.isOnRecord !== true);
  if (session === null && app.missing.value !== "") return <Missing />;
  const mayWrite = app.link.welcome.value === null || app.may("session/prompt");
  if (id === null || session === null) {
    return (
      <div class="chat">
        {id === null ? (
          <div class="greeting">
            <h2>{mayWrite ? its.greeting : its.looking}</h2>
            <p>{mayWrite ? its.greetingHint : its.lookingHint}</p>
            {isRehearsing.value && (
              <p>
                {its.rehearsal} {app.may("provider/create") && <a href="#/setup">{its.setUp}</a>}
              </p>
            )}
          </div>
        ) : (
          <div class="greeting" role="status">
            <p>…</p>
          </div>
        )}
        <Outgoing inputs={own} />
        <Composer session={null} />
      </div>
    );
  }
  const items = itemsOf(session);
  const last = lastTurn(session, items);
  const Withheld = app.may("mcp/list") ? further.value?.Withheld : undefined;
  return (
    <div class="chat">
      {isFinding.value && <Find />}
      <WindowedList<Listed>
        items={items}
        estimate={(item) => ESTIMATES[item.kind] + (item.kind === "message" ? item.row.content.length / CHARS_A_PIXEL : 0)}
        label={shown(app.title.value) || its.untitled}
        subject={session}
        draw={(item) => <ItemView item={item} session={session} last={last?.itemId === item.id ? last : null} />}
        markOf={(item) => (last?.itemId === item.id ? String(last.isAnswered) : "")}
        size={session.rows.at(-1)?.position ?? 0}
        onSeen={readSeen}
        toEnd={its.toEnd}
        handle={list}
      />
      <Jump items={items} session={session} />
      {session.plan.some((each) => session.turnId !== "" || each.status !== "done") && <Plan session={session} />}
      {session.retry !== null && (
        <p class="notice" role="status">
          {its.retrying(session.retry.attempt)} {shown(session.retry.message)}
        </p>
      )}
      {session.waitingFor !== "" && (
        <p class="notice" role="status">
          {its.waitsHere(its.waitsFor(shown(session.waitingFor)))}
        </p>
      )}
      {session.unknown > 0 && <p class="notice">{its.unknownEvents(session.unknown)}</p>}
      {Withheld !== undefined && <Withheld />}
      <Outgoing inputs={own} />
      <Composer session={session} />
    </div>
  );
}

/** The address is of no session, or of one that can't be read. */
function Missing() {
  const its = words.value;
  return (
    <div class="page screen">
      <Empty icon="find" title={its.noSession} text={shown(app.missing.value)}>
        <button type="button" onClick={() => void reading.show(true)}>
          {its.page.again}
        </button>
        <a class="button primary" href={hrefOf("chat", "new")}>
          {its.newSession}
        </a>
      </Empty>
    </div>
  );
}

// A session is changed in place: an item is drawn again when its stamp is another one, and what grows with each piece of
// an answer reads the session's version.

function ItemView({ item, session, last }: { item: Listed; session: Session; last: LastTurn | null }) {
  switch (item.kind) {
    case "head":
      return <p class="head">{words.value.beginning}</p>;
    case "gap":
      return <p class="head">{words.value.earlier}</p>;
    case "message":
      return <Message row={item.row} isWaiting={session.waiting.has(item.row.id)} last={last} sessionId={session.id} />;
    case "calls":
      return (
        <>
          <Calls calls={item.calls} />
          {last !== null && (
            <div class="under actions">
              <Again last={last} />
            </div>
          )}
        </>
      );
    case "live":
      return <Live session={session} />;
    case "question": {
      const question = session.questions.get(item.id);
      return question === undefined ? null : <Asked question={question} />;
    }
  }
}

interface MessageProps {
  row: Row;
  isWaiting: boolean;
  last: LastTurn | null;
  sessionId: string;
}

function Message({ row, isWaiting, last, sessionId }: MessageProps) {
  const its = words.value;
  if (row.kind === "user") {
    return (
      <div class="from-user">
        <div class={`message user ${row.isSetAside ? "set-aside" : ""}`}>
          <h3 class="who">{its.you}</h3>
          {row.content !== "" && <Plain text={row.content} />}
          <Files sessionId={sessionId} row={row} />
        </div>
        <div class="under">
          {isWaiting && <span>{its.inputQueued}</span>}
          {isWaiting && (
            <button type="button" class="quiet small" onClick={() => void app.takeBack(row.id)}>
              {its.composer.takeBack}
            </button>
          )}
          <Actions row={row} last={isWaiting ? null : last} />
        </div>
      </div>
    );
  }
  if (row.kind === "error") {
    return (
      <div class="message error" role="alert">
        <h3>{its.failed}</h3>
        <p class="plain">{shown(row.content)}</p>
        {last !== null && <NoKey sessionId={sessionId} turnId={row.turnId} />}
        {last !== null && <Again last={last} isNamed />}
      </div>
    );
  }
  if (row.kind === "system") {
    return (
      <div class="message note">
        <p class="plain">{shown(row.content)}</p>
        <Files sessionId={sessionId} row={row} />
      </div>
    );
  }
  return (
    <div class={`message assistant ${row.isSetAside ? "set-aside" : ""}`}>
      <h3 class="who">{its.assistant}</h3>
      {row.thinking !== "" && <Thinking id={row.id} text={row.thinking} />}
      <Markdown text={row.content} />
      <div class="under">
        {row.stopReason === "incomplete" && <strong>{its.incomplete} · </strong>}
        {row.stopReason === "max_tokens" && <strong>{its.tooLong} · </strong>}
        {row.isSetAside && <>{its.setAside} · </>}
        <span>{shown(row.model)}</span>
        <Actions row={row} last={last} />
      </div>
    </div>
  );
}

/** Where a turn failed for want of a key, the way to where one is given. */
function NoKey({ sessionId, turnId }: { sessionId: string; turnId: string }) {
  const [provider, setProvider] = useState<string | null>(null);
  useEffect(() => {
    if (turnId === "" || !app.may("turn/get") || !app.may("provider/list")) return;
    let isOver = false;
    app.link.request("turn/get", { session_id: sessionId, turn_id: turnId }).then(
      ({ events }) => {
        const end = events.findLast(({ event }) => event.type === "turn_ended")?.event;
        if (isOver || end?.type !== "turn_ended" || end.error_type !== "auth") return;
        const begun = events.findLast(({ event }) => event.type === "turn_started" || event.type === "model_switched" || event.type === "attempt_failed")?.event;
        setProvider(begun !== undefined && "provider" in begun ? begun.provider : "");
      },
      () => undefined, // without it there is the sentence of the error
    );
    return () => void (isOver = true);
  }, [sessionId, turnId]);
  return provider === null ? null : <KeyLink provider={provider} />;
}

function KeyLink({ provider }: { provider: string }) {
  return (
    <a class="button small" href={provider === "" ? hrefOf("providers") : hrefOf("providers", provider)}>
      <Icon name="settings" /> {words.value.giveKey(shown(provider))}
    </a>
  );
}

function Plain({ text }: { text: string }) {
  return <Excerpt text={text}>{(part) => <p class="plain">{shown(part)}</p>}</Excerpt>;
}

function Names({ names }: { names: readonly string[] }) {
  return (
    <ul class="sent-files">
      {names.map((name, at) => (
        <li key={at} class="sent-file">
          <Icon name="file" /> {shown(name)}
        </li>
      ))}
    </ul>
  );
}

/** What can be done with a message: what is wanted often as buttons, the rest behind one. */
function Actions({ row, last }: { row: Row; last: LastTurn | null }) {
  const its = words.value.turnMenu;
  const isIdle = app.isIdle.value;
  const isUser = row.kind === "user";
  const rest: Choice[] = [];
  if (!isUser && app.may("session/fork")) rest.push({ name: its.fork, icon: "fork", run: () => void turns.fork(row) });
  const { turnId } = row;
  if (turnId !== "" && app.may("turn/get")) rest.push({ name: its.timeline, icon: "schedules", run: () => (location.hash = hrefOf("turn", app.open.value?.id ?? "", turnId)) });
  if (isIdle && app.may("session/delete_messages")) {
    rest.push({ name: its.delete, icon: "trash", isBad: true, run: () => void turns.deleteMessage(row) });
  }
  return (
    <span class="actions" role="group" aria-label={its.title}>
      {row.content !== "" && <IconButton icon="copy" name={words.value.copy} run={() => copy(row.content)} />}
      {isUser && app.may("session/fork") && <IconButton icon="edit" name={its.edit} run={() => void turns.fork(row)} />}
      {last !== null && <Again last={last} />}
      <Menu label={its.more} choices={rest} />
    </span>
  );
}

function Again({ last, isNamed = false }: { last: LastTurn; isNamed?: boolean }) {
  const its = words.value.turnMenu;
  if (!app.may(last.isAnswered ? "session/regenerate" : "session/retry")) return null;
  const name = last.isAnswered ? its.regenerate : its.retry;
  const run = () => void turns.again(last.isAnswered);
  if (!isNamed) return <IconButton icon="again" name={name} run={run} />;
  return (
    <button type="button" class="small" onClick={run}>
      <Icon name="again" /> {name}
    </button>
  );
}

function Live({ session }: { session: Session }) {
  void app.version.value;
  const { live } = session;
  const its = words.value;
  return (
    <div class="message assistant is-live" aria-busy="true">
      <h3 class="who">{its.assistant}</h3>
      {live.thinking !== "" && <Thinking id={live.streamId} text={live.thinking} />}
      <Markdown text={live.text} isLive />
      {[...live.calls].map(([index, call]) => (
        <p key={index} class="under">
          {shown(call.name)} …
        </p>
      ))}
    </div>
  );
}

function Thinking({ id, text }: { id: string; text: string }) {
  const [isOpen, setOpen] = useOpened(`thinking:${id}`);
  return (
    <details class="thinking" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{words.value.thinking}</summary>
      <Plain text={text} />
    </details>
  );
}

const MARKS: Record<string, string> = { done: "✓", in_progress: "◐", pending: "○" };

function Plan({ session }: { session: Session }) {
  void app.revision.value;
  const done = session.plan.filter((each) => each.status === "done").length;
  return (
    <details class="plan">
      <summary>
        {words.value.plan} {done}/{session.plan.length}
      </summary>
      <ol>
        {session.plan.map((each, at) => (
          <li key={at} class={`is-${each.status}`}>
            <span aria-hidden="true">{MARKS[each.status] ?? "○"}</span> {shown(each.text)}
          </li>
        ))}
      </ol>
    </details>
  );
}

function Outgoing({ inputs }: { inputs: readonly sending.Waiting[] }) {
  const its = words.value;
  if (inputs.length === 0) return null;
  return (
    <ul class="outgoing" aria-label={its.inputWaiting}>
      {inputs.map((each) => (
        <li key={each.key}>
          {each.text !== "" && <p class="plain">{shown(each.text)}</p>}
          {each.files.length > 0 && <Names names={each.files.map((one) => one.name)} />}
          {each.problem === "" ? (
            <span class="under">{its.inputWaiting}</span>
          ) : (
            <span class="under problem" role="alert">
              {each.problem}
              {each.isNoKey === true && app.may("provider/list") && <KeyLink provider={each.choices.model.split("/")[0]!} />}
              <button type="button" class="quiet small" onClick={() => sending.sendAgain(each.key)}>
                {its.retrySend}
              </button>
              <button type="button" class="quiet small" onClick={() => sending.drop(each.key)}>
                {its.close}
              </button>
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
