// How the daemon is: its parts, what it does now, and the end of its log.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Methods } from "../../link";
import { clock, duration, moment, whole } from "../../parts/amounts";
import { Choose } from "../../parts/form";
import { IconButton } from "../../parts/menu";
import { copy } from "../../parts/markdown";
import { Facts, Failed, Loaded, Mark, Page, Section } from "../../parts/page";
import { Table } from "../../parts/table";
import { shown } from "../../parts/text";
import { Tiles, type Tile } from "../../parts/tiles";
import { useWatch } from "../../parts/watch";
import * as app from "../../store/app";
import { isRefused, useResource } from "../../store/lists";
import { textOf } from "../../store/problem";
import { hrefOf } from "../../store/route";
import { its } from "../../words/screens/logs";
import { useTitles } from "../usage/titles";
import "../../look/screens/lists.css";
import "../../look/screens/logs.css";

type Status = Methods["runtime/status"]["result"];
type LogRecord = Methods["log/tail"]["result"]["records"][number];
type Level = LogRecord["level"];
/** As many as somebody reads; the daemon keeps more, and its file more still. */
const KEPT = 500;

export default function Logs() {
  const status = useResource(() => app.link.request("runtime/status", {}), ["status"]);
  const [, tick] = useState(0);
  const readAt = useMemo(() => performance.now(), [status.value]);
  // Times go on while nothing happens; who may not follow the status looks again.
  useWatch(() => (isRefused("status") ? status.again() : tick((count) => count + 1)));
  const age = (performance.now() - readAt) / 1000;
  return (
    <Page isWide>
      <Loaded resource={status}>{(value) => <Now status={value} age={age} />}</Loaded>
      {app.may("log/tail") && <Log />}
    </Page>
  );
}

function Now({ status, age }: { status: Status; age: number }) {
  const text = its.value;
  const { work, actors = [], loop, config, sandbox } = status;
  const strength = sandbox?.strength ?? "";
  const tiles: Tile[] = [
    { name: text.up, value: duration((status.uptime_seconds + age) * 1000), more: status.pid ? text.process(String(status.pid)) : "" },
    { name: text.version, value: status.version ?? "" },
    { name: text.connections, value: whole(status.connections) },
    { name: text.sessions, value: whole(work?.sessions.length) },
    { name: text.turns, value: whole(work?.turns?.length ?? 0) },
  ];
  if (status.journal_seconds != null) tiles.push({ name: text.journal, value: duration(status.journal_seconds * 1000) });
  if (loop != null) tiles.push({ name: text.loop, value: duration(loop.lag_seconds * 1000), more: loop.blocked > 0 ? text.loopMore(whole(loop.blocked), duration(loop.longest_seconds * 1000)) : "" });
  if (sandbox != null) tiles.push({ name: text.sandbox, value: text.strengths[strength] ?? strength, isBad: strength === "none" });
  const problems = [status.is_stopping ? text.stops : "", work?.storage_failed ?? "", config?.problem ?? ""].filter((each) => each !== "");
  const warnings = [work?.storage_warning ?? "", sandbox?.reason ?? ""].filter((each) => each !== "");
  return (
    <>
      {problems.map((each) => (
        <p key={each} class="said-box is-bad" role="alert">
          {shown(each)}
        </p>
      ))}
      {warnings.map((each) => (
        <p key={each} class="said-box is-warn">
          {shown(each)}
        </p>
      ))}
      <Tiles tiles={tiles} />
      <AtWork status={status} age={age} />
      {actors.length > 0 && (
        <Section title={text.actors} lead={text.actorsLead} isBare>
          <Table
            caption={text.actors}
            canCopy={false}
            rows={actors}
            idOf={(each) => each.name}
            columns={[
              { name: text.actorColumns.name, value: (each) => each.name },
              { name: text.actorColumns.state, value: (each) => String(each.is_running), draw: (each) => <Mark kind={each.is_running ? "good" : "bad"}>{each.is_running ? text.runs : text.gaveUp}</Mark> },
              { name: text.actorColumns.waiting, value: (each) => `${each.waiting} / ${each.capacity}`, isNumber: true },
              { name: text.actorColumns.restarts, value: (each) => each.restarts, isNumber: true },
            ]}
          />
        </Section>
      )}
      {config != null && (
        <Section title={text.configuration}>
          <Facts
            rows={[
              [text.revision, `${config.revision}, ${text.since(moment(config.since_ms))}`],
              ...(config.waiting?.length ? [[text.waiting, shown(config.waiting.join(", "))] as const] : []),
            ]}
          />
        </Section>
      )}
    </>
  );
}

interface Running {
  id: string;
  what: string;
  sessionId: string;
  href: string;
  seconds: number;
}

function AtWork({ status, age }: { status: Status; age: number }) {
  const text = its.value;
  const { turns = [], calls = [], background = [] } = status.work ?? { sessions: [] };
  const rows: Running[] = [
    ...turns.map((each) => ({ id: each.turn_id, what: text.turn, sessionId: each.session_id, href: hrefOf("turn", each.session_id, each.turn_id), seconds: each.seconds })),
    ...calls.map((each) => ({ id: each.call_id, what: text.call(each.tool), sessionId: each.session_id, href: hrefOf("turn", each.session_id, each.turn_id), seconds: each.seconds })),
    ...background.map((each) => ({ id: `${each.session_id}/${each.process_id}`, what: text.program(each.command), sessionId: each.session_id, href: hrefOf("chat", each.session_id), seconds: each.seconds })),
  ];
  const titleOf = useTitles(rows.map((each) => each.sessionId));
  return (
    <Section title={text.work} isBare={rows.length > 0}>
      {rows.length === 0 ? (
        <p class="empty">{text.idle}</p>
      ) : (
        <Table<Running>
          caption={text.work}
          canCopy={false}
          rows={rows}
          idOf={(each) => each.id}
          columns={[
            { name: text.columns.what, value: (each) => each.what, draw: (each) => <a href={each.href}>{shown(each.what)}</a> },
            { name: text.columns.session, value: (each) => titleOf(each.sessionId) },
            { name: text.columns.seconds, value: (each) => each.seconds, draw: (each) => duration((each.seconds + age) * 1000), isNumber: true },
          ]}
        />
      )}
    </Section>
  );
}

function Log() {
  const text = its.value;
  const [level, setLevel] = useState<Level>("info");
  const [records, setRecords] = useState<readonly LogRecord[] | null>(null);
  const [isCut, setCut] = useState(false);
  const [problem, setProblem] = useState("");
  const [wanted, setWanted] = useState("");
  const [tries, setTries] = useState(0);
  const isOpen = app.link.state.value.kind === "open";
  useEffect(() => {
    let isOver = !isOpen;
    const follow = async () => {
      for (let head: number | null = null; !isOver; ) {
        const isFirst = head === null;
        const tail: Methods["log/tail"]["result"] = await app.link.request("log/tail", { after: head ?? 0, level, limit: KEPT, wait: !isFirst });
        if (isOver) return;
        head = tail.head;
        setProblem("");
        // Where more came at once than an answer holds, what was there before is not its neighbour.
        if (isFirst || tail.is_cut) setCut(tail.is_cut);
        setRecords((old) => [...(isFirst || tail.is_cut ? [] : (old ?? [])), ...tail.records].slice(-KEPT));
      }
    };
    follow().catch((error: unknown) => {
      if (!isOver && !app.isGone(error)) setProblem(textOf(error));
    });
    return () => {
      isOver = true;
    };
  }, [level, isOpen, tries]);
  const words = wanted.toLowerCase();
  const found = (records ?? []).filter((each) => words === "" || `${each.logger} ${each.message} ${each.traceback ?? ""}`.toLowerCase().includes(words)).reverse();
  return (
    <Section title={text.log} isBare actions={<Choose<Level> label={text.level} value={level} options={Object.entries(text.levels) as [Level, string][]} choose={setLevel} />}>
      <input type="search" aria-label={text.find} placeholder={text.find} value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      {problem !== "" && <Failed text={problem} again={() => setTries(tries + 1)} />}
      {records !== null && found.length === 0 ? (
        <p class="empty log-none">{words === "" ? text.noLog : text.noMatch}</p>
      ) : (
        <ol class="log" tabIndex={0} aria-label={text.log} reversed>
          {found.map((each) => (
            <li key={each.number} class={`is-${each.level}`}>
              <time dateTime={new Date(each.at_ms).toISOString()} title={moment(each.at_ms)}>
                {clock(each.at_ms)}
              </time>
              <Mark kind={each.level === "error" ? "bad" : each.level === "warning" ? "warn" : "plain"}>{text.marks[each.level]}</Mark>
              <span class="logger">{shown(each.logger)}</span>
              <span class="said">{shown(each.message)}</span>
              {each.traceback && (
                <details>
                  <summary>{text.traceback}</summary>
                  <IconButton icon="copy" name={text.copy} run={() => copy(each.traceback ?? "")} />
                  <pre class="long" tabIndex={0}>
                    {shown(each.traceback)}
                  </pre>
                </details>
              )}
            </li>
          ))}
        </ol>
      )}
      {isCut && <p class="under">{text.cut}</p>}
    </Section>
  );
}
