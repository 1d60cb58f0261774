// The chat: messages as they come, calls and questions in their place, and where a person writes.
import { itemsOf, lastTurn, type Item, type LastTurn } from "../fold/view";
import type { Row, Session } from "../fold/session";
import { WindowedList } from "../parts/list";
import { copy, Markdown } from "../parts/markdown";
import { Icon } from "../parts/icon";
import { IconButton, Menu, type Choice } from "../parts/menu";
import { shown } from "../parts/text";
import * as app from "../store/app";
import * as turns from "../store/turns";
import { words } from "../store/settings";
import { Calls } from "./call";
import { Composer } from "./composer";
import { Asked } from "./question";

const ESTIMATE = 120;

export function Chat() {
  const its = words.value;
  const session = app.open.value;
  void app.version.value;
  const at = app.route.value;
  const id = at.screen === "chat" ? at.id : null;
  const own = app.waiting.value.filter((each) => each.sessionId === id);
  if (id === null || session === null) {
    return (
      <div class="chat">
        {id === null ? (
          <div class="greeting">
            <h2>{its.greeting}</h2>
            <p>{its.greetingHint}</p>
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
  const head = app.isReadingEarlier.value ? its.earlier : app.hasAll.value ? its.beginning : "";
  return (
    <div class="chat">
      <WindowedList<Item>
        items={items}
        estimate={ESTIMATE}
        label={shown(session.title ?? "") || its.untitled}
        subject={session.id}
        idOf={(item) => item.id}
        draw={(item) => <ItemView item={item} session={session} last={last?.itemId === item.id ? last : null} />}
        onTop={() => void app.readEarlier()}
        head={<p class="head">{head}</p>}
        toEnd={its.toEnd}
      />
      {session.plan.length > 0 && session.turnId !== "" && <Plan session={session} />}
      {session.retry !== null && (
        <p class="notice" role="status">
          {its.retrying(session.retry.attempt)} {shown(session.retry.message)}
        </p>
      )}
      {session.unknown > 0 && <p class="notice">{its.unknownEvents(session.unknown)}</p>}
      <Outgoing inputs={own} />
      <Composer session={session} />
    </div>
  );
}

// A session is changed in place, and a component whose props are the same is not drawn again: those that show a part of
// it read its version.

function ItemView({ item, session, last }: { item: Item; session: Session; last: LastTurn | null }) {
  void app.version.value;
  switch (item.kind) {
    case "message":
      return <Message row={item.row} isWaiting={session.waiting.has(item.row.id)} last={last} files={session.files.get(item.row.id) ?? []} />;
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
  files: readonly { name: string; type: string }[];
}

function Message({ row, isWaiting, last, files }: MessageProps) {
  void app.version.value;
  const its = words.value;
  if (row.kind === "user") {
    return (
      <div class="from-user">
        <div class={`message user ${row.isSetAside ? "set-aside" : ""}`}>
          <h3 class="who">{its.you}</h3>
          {row.content !== "" && <p class="plain">{shown(row.content)}</p>}
          {files.length > 0 && <Files names={files.map((each) => each.name || each.type)} />}
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
        {last !== null && <Again last={last} isNamed />}
      </div>
    );
  }
  if (row.kind === "system") {
    return (
      <div class="message note">
        <p class="plain">{shown(row.content)}</p>
      </div>
    );
  }
  return (
    <div class={`message assistant ${row.isSetAside ? "set-aside" : ""}`}>
      <h3 class="who">{its.assistant}</h3>
      {row.thinking !== "" && <Thinking text={row.thinking} />}
      <Markdown text={row.content} />
      <div class="under">
        {row.stopReason === "incomplete" && <strong>{its.incomplete} · </strong>}
        {row.isSetAside && <>{its.setAside} · </>}
        <span>{shown(row.model)}</span>
        <Actions row={row} last={last} />
      </div>
    </div>
  );
}

function Files({ names }: { names: readonly string[] }) {
  return (
    <ul class="sent-files">
      {names.map((name, at) => (
        <li key={at}>
          <Icon name="file" /> {shown(name)}
        </li>
      ))}
    </ul>
  );
}

/** What can be done with a message: what is wanted often as buttons, the rest behind one. */
function Actions({ row, last }: { row: Row; last: LastTurn | null }) {
  void app.version.value;
  const its = words.value.turnMenu;
  const isIdle = app.open.value?.turnId === "";
  const isUser = row.kind === "user";
  const rest: Choice[] = [];
  if (!isUser && app.may("session/fork")) rest.push({ name: its.fork, icon: "fork", run: () => void turns.fork(row) });
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
      {live.thinking !== "" && <Thinking text={live.thinking} />}
      <Markdown text={live.text} />
      {[...live.calls].map(([index, call]) => (
        <p key={index} class="under">
          {shown(call.name)} …
        </p>
      ))}
    </div>
  );
}

function Thinking({ text }: { text: string }) {
  return (
    <details class="thinking">
      <summary>{words.value.thinking}</summary>
      <p class="plain">{shown(text)}</p>
    </details>
  );
}

const MARKS: Record<string, string> = { done: "✓", in_progress: "◐", pending: "○" };

function Plan({ session }: { session: Session }) {
  void app.version.value;
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

function Outgoing({ inputs }: { inputs: readonly app.Waiting[] }) {
  const its = words.value;
  if (inputs.length === 0) return null;
  return (
    <ul class="outgoing" aria-label={its.inputWaiting}>
      {inputs.map((each) => (
        <li key={each.key}>
          {each.text !== "" && <p class="plain">{shown(each.text)}</p>}
          {each.files.length > 0 && <Files names={each.files.map((one) => one.name)} />}
          {each.problem === "" ? (
            <span class="under">{its.inputWaiting}</span>
          ) : (
            <span class="under problem" role="alert">
              {each.problem}
              <button type="button" class="quiet small" onClick={() => app.sendAgain(each.key)}>
                {its.retrySend}
              </button>
              <button type="button" class="quiet small" onClick={() => app.drop(each.key)}>
                {its.close}
              </button>
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
