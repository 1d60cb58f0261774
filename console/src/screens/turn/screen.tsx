// The timeline of a turn: what ran beside what, and where the time went; while it runs, as it comes.
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { begin, lasted, turnOf, type Turn, type TurnRecord, type TurnRow } from "../../fold/turn";
import { dollars, duration, percent, whole } from "../../parts/amounts";
import { download } from "../../parts/download";
import { Icon } from "../../parts/icon";
import { Empty, Failed, Mark, Page, PageHead, Reading, Section, type ScreenProps } from "../../parts/page";
import { Table } from "../../parts/table";
import { shown } from "../../parts/text";
import { Tiles, type Tile } from "../../parts/tiles";
import * as app from "../../store/app";
import { textOf } from "../../store/problem";
import { hrefOf } from "../../store/route";
import { its } from "../../words/screens/turn";
import { aboutOf, linesOf, nameOf, Picture, svgText } from "./picture";
import { Plot } from "./plot";
import "../../look/screens/turn.css";

/** What comes together is read once. */
const SETTLE_MS = 200;
const TICK_MS = 1000;
/** Pages of a turn that are read: some ten thousand events. */
const MAX_PAGES = 40;

async function readTurn(sessionId: string, turnId: string | null, old: TurnRecord | null): Promise<TurnRecord> {
  let record = old;
  for (let count = 0; count < MAX_PAGES; count++) {
    const next = await app.link.request("turn/get", {
      session_id: sessionId,
      turn_id: record?.turn_id || turnId,
      after_seq: record?.events.at(-1)?.seq ?? 0,
      texts: false,
    });
    record = { ...next, events: [...(record?.events ?? []), ...next.events] };
    if (!next.has_more) break;
  }
  return record!;
}

/** A turn and what it delegated, read again as long as they run. */
function useTurn(sessionId: string, turnId: string | null, opened: ReadonlySet<string>) {
  const [record, setRecord] = useState<TurnRecord | null>(null);
  const [children, setChildren] = useState<ReadonlyMap<string, TurnRecord>>(new Map());
  const [costs, setCosts] = useState<ReadonlyMap<string, number>>(new Map());
  const [problem, setProblem] = useState("");
  const latest = useRef<{ record: TurnRecord | null; children: Map<string, TurnRecord> }>({ record: null, children: new Map() });
  const isReading = useRef(false);
  const isOpen = app.link.state.value.kind === "open";

  const read = async () => {
    if (isReading.current || app.link.state.peek().kind !== "open") return;
    isReading.current = true;
    const own = latest.current;
    try {
      if (own.record?.is_over !== true) own.record = await readTurn(sessionId, turnId, own.record);
      for (const id of opened) {
        const known = own.children.get(id) ?? null;
        if (known?.is_over !== true) own.children.set(id, await readTurn(id, known?.turn_id ?? null, known));
      }
      if (own !== latest.current) return;
      setRecord(own.record);
      setChildren(new Map(own.children));
      setProblem("");
    } catch (error) {
      if (own === latest.current && !app.isGone(error)) setProblem(textOf(error));
    } finally {
      isReading.current = false;
    }
  };

  useEffect(() => {
    latest.current = { record: null, children: new Map() };
    isReading.current = false;
    setRecord(null);
    setChildren(new Map());
    if (!isOpen) return;
    void read();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = app.link.listen((name, params) => {
      if (name !== "session/update" || (params as { session_id: string }).session_id !== sessionId || (params as { seq?: number | null }).seq == null) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        if (latest.current.record?.is_over !== true) void read();
      }, SETTLE_MS);
    });
    app.link.request("session/subscribe", { session_id: sessionId }).catch(() => undefined);
    return () => {
      stop();
      clearTimeout(timer);
      const at = app.route.peek();
      if (at.screen === "chat" && at.id === sessionId) return; // the chat has it now
      app.link.request("session/unsubscribe", { session_id: sessionId }).catch(() => undefined);
    };
  }, [sessionId, turnId, isOpen]);
  useEffect(() => {
    if (record !== null) void read();
  }, [opened]);
  const isOver = record?.is_over ?? true;
  const running = [...children.values()].some((each) => !each.is_over);
  useEffect(() => {
    if (isOver && !running) return;
    const timer = setInterval(() => document.hidden || void read(), TICK_MS);
    return () => clearInterval(timer);
  }, [isOver, running, opened]);
  const since = record?.events[0]?.at_ms;
  const answers = record?.events.filter((each) => each.event.type === "message_completed").length;
  useEffect(() => {
    if (since === undefined || !app.may("usage/get")) return;
    app.link.request("usage/get", { by: "call", session_id: sessionId, since_ms: since }).then(
      ({ sums }) => setCosts(new Map(sums.flatMap((each) => (each.cost == null ? [] : [[each.name, each.cost] as const])))),
      () => undefined,
    );
  }, [sessionId, since, answers]);
  return { record, children, costs, problem, again: read };
}

export default function TurnScreen({ parts }: ScreenProps) {
  const text = its.value;
  const [sessionId = "", turnId = null] = parts;
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [selected, setSelected] = useState("");
  const { record, children, costs, problem, again } = useTurn(sessionId, turnId, opened);
  const turn = useMemo(() => (record === null || record.turn_id === "" ? null : turnOf(record, children)), [record, children]);
  useEffect(() => setOpened(new Set()), [sessionId, turnId]);
  const back = { href: hrefOf("chat", sessionId), name: text.back };
  if (record === null || turn === null) {
    return (
      <Page isWide>
        <PageHead back={back} />
        {problem !== "" ? <Failed text={problem} again={() => void again()} /> : record === null ? <Reading /> : <Empty icon="schedules" title={text.none} />}
      </Page>
    );
  }
  const toggle = (id: string) => {
    const next = new Set(opened);
    if (!next.delete(id)) next.add(id);
    setOpened(next);
  };
  const open = (row: TurnRow) => {
    if (row.childId !== "") toggle(row.childId);
    else if (row.messageId !== "") location.hash = hrefOf("chat", row.sessionId, row.messageId);
  };
  const input = turn.rows.find((row) => row.kind === "input");
  const chosen = turn.rows.find((row) => row.id === selected);
  return (
    <Page isWide>
      <PageHead back={back} title={input === undefined ? text.title : aboutOf(input).slice(0, 90) || text.title}>
        <button type="button" onClick={() => saveSvg(turn, record)}>
          <Icon name="save" /> {text.exportSvg}
        </button>
        <button type="button" onClick={() => download(`${record.turn_id}.json`, new Blob([JSON.stringify(record, null, 2)], { type: "application/json" }))}>
          <Icon name="save" /> {text.exportJson}
        </button>
      </PageHead>
      {problem !== "" && <Failed text={problem} again={() => void again()} />}
      <Sums turn={turn} costs={costs} />
      <div class="timeline">
        <Plot turn={turn} now={record.now_ms} selected={selected} select={setSelected} open={open} />
        <div class="chosen-row" role="status">
          {chosen !== undefined && <Chosen row={chosen} turn={turn} now={record.now_ms} isOpened={opened.has(chosen.childId)} open={open} />}
        </div>
        <Legend />
      </div>
      <Section title={text.table} isBare>
        <Numbers turn={turn} now={record.now_ms} costs={costs} opened={opened} open={open} />
      </Section>
    </Page>
  );
}

function Sums({ turn, costs }: { turn: Turn; costs: ReadonlyMap<string, number> }) {
  const text = its.value;
  const own = turn.rows.filter((row) => row.depth === 0);
  const sum = (pick: (row: TurnRow) => number | null) => own.reduce<number | null>((all, row) => (pick(row) === null ? all : (all ?? 0) + pick(row)!), null);
  const [input, output, cached] = [sum((row) => row.inputTokens), sum((row) => row.outputTokens), sum((row) => row.cachedTokens)];
  const cost = sum((row) => costs.get(row.messageId) ?? null);
  const ended = turn.isOver ? (text.outcomes[turn.outcome] ?? turn.outcome) : text.runs;
  const kind = !turn.isOver ? "own" : turn.outcome === "answered" ? "good" : turn.outcome === "cancelled" || turn.outcome === "suspended" ? "warn" : "bad";
  const tiles: Tile[] = [
    { name: text.total, value: duration(turn.to - turn.from) },
    { name: text.model, value: duration(turn.model) },
    { name: text.tools, value: duration(turn.tools) },
    { name: text.person, value: duration(turn.person) },
    { name: text.waited, value: duration(turn.waited) },
    ...(cost === null ? [] : [{ name: text.cost, value: dollars(cost) }]),
    {
      name: text.tokens,
      isWide: true,
      value: input === null && output === null ? "–" : text.tokensOf(whole(input), whole(output)),
      more: cached === null || cached === 0 ? "" : text.cached(percent(cached, input)),
    },
  ];
  return (
    <>
      <p class="turn-state">
        <Mark kind={kind}>{ended}</Mark> <span class="under">{shown(turn.agentModel)}</span>
        {turn.message !== "" && <span class={kind === "bad" ? "problem" : "under"}>{shown(turn.message)}</span>}
      </p>
      <Tiles tiles={tiles} />
    </>
  );
}

function Chosen({ row, turn, now, isOpened, open }: { row: TurnRow; turn: Turn; now: number; isOpened: boolean; open(row: TurnRow): void }) {
  const text = its.value;
  const said = [
    stateOf(row),
    text.from(duration(begin(row) - turn.from)),
    ...(["wait", "person", "run", "failed"] as const).flatMap((kind) => {
      const ms = lasted(row, [kind], now);
      return ms > 0 ? [`${text.parts[kind]} ${duration(ms)}`] : [];
    }),
    row.first === null ? "" : text.first(duration(row.first - begin(row))),
  ];
  return (
    <div class="about-row">
      <p>
        <strong>{nameOf(row)}</strong> {said.filter((each) => each !== "").join(" · ")}
      </p>
      {row.about !== "" && <p class="under">{aboutOf(row)}</p>}
      <div class="buttons">
        {row.childId !== "" && (
          <button type="button" class="small" onClick={() => open(row)}>
            {isOpened ? text.closeChild : text.openChild}
          </button>
        )}
        {row.messageId !== "" && (
          <a class="button small" href={hrefOf("chat", row.sessionId, row.messageId)}>
            {text.inChat}
          </a>
        )}
      </div>
    </div>
  );
}

function Legend() {
  const text = its.value.legend;
  return (
    <ul class="legend">
      {(["run", "wait", "person", "failed", "first"] as const).map((each) => (
        <li key={each}>
          <span class={`sample is-${each}`} aria-hidden="true" /> {text[each]}
        </li>
      ))}
    </ul>
  );
}

function stateOf(row: TurnRow): string {
  return its.value.states[row.state] ?? row.state;
}

interface NumbersProps {
  turn: Turn;
  now: number;
  costs: ReadonlyMap<string, number>;
  opened: ReadonlySet<string>;
  open(row: TurnRow): void;
}

function Numbers({ turn, now, costs, opened, open }: NumbersProps) {
  const text = its.value;
  const names = text.columns;
  const time = (ms: number) => (ms === 0 ? "" : duration(ms));
  const ran = (row: TurnRow) => lasted(row, ["run", "failed"], now);
  return (
    <Table<TurnRow>
      caption={text.table}
      rows={turn.rows}
      idOf={(row) => row.id}
      columns={[
        {
          name: names.what,
          value: (row) => `${"  ".repeat(row.depth)}${nameOf(row)}`,
          draw: (row) => (
            <span class={`depth-${Math.min(row.depth, 4)}`}>
              {row.messageId === "" ? nameOf(row) : <a href={hrefOf("chat", row.sessionId, row.messageId)}>{nameOf(row)}</a>}
              {row.childId !== "" && (
                <button type="button" class="quiet small" aria-expanded={opened.has(row.childId)} onClick={() => open(row)}>
                  {opened.has(row.childId) ? text.closeChild : text.openChild}
                </button>
              )}
            </span>
          ),
        },
        { name: names.kind, value: (row) => text.kinds[row.kind] },
        { name: names.state, value: stateOf },
        { name: names.begins, value: (row) => begin(row) - turn.from, draw: (row) => duration(begin(row) - turn.from), isNumber: true },
        { name: names.waited, value: (row) => lasted(row, ["wait"], now), draw: (row) => time(lasted(row, ["wait"], now)), isNumber: true },
        { name: names.person, value: (row) => lasted(row, ["person"], now), draw: (row) => time(lasted(row, ["person"], now)), isNumber: true },
        { name: names.ran, value: ran, draw: (row) => time(ran(row)), isNumber: true },
        { name: names.input, value: (row) => row.inputTokens, draw: (row) => (row.inputTokens === null ? "" : whole(row.inputTokens)), isNumber: true },
        { name: names.output, value: (row) => row.outputTokens, draw: (row) => (row.outputTokens === null ? "" : whole(row.outputTokens)), isNumber: true },
        { name: names.cached, value: (row) => row.cachedTokens, draw: (row) => (row.cachedTokens === null ? "" : whole(row.cachedTokens)), isNumber: true },
        {
          name: names.cost,
          value: (row) => costs.get(row.messageId) ?? null,
          draw: (row) => (costs.has(row.messageId) ? dollars(costs.get(row.messageId)) : ""),
          isNumber: true,
        },
      ]}
    />
  );
}

const FILE_WIDTH = 1200;

/** All rows at their whole length, whatever is in view. */
function saveSvg(turn: Turn, record: TurnRecord): void {
  const place = document.createElement("div");
  const lines = linesOf(turn);
  const view = { from: turn.from, to: turn.to };
  const height = lines.length * 100;
  render(
    <Picture turn={turn} lines={lines} view={view} now={record.now_ms} width={FILE_WIDTH} selected="" top={0} height={height} ground="var(--surface)" />,
    place,
  );
  const svg = place.querySelector("svg");
  if (svg !== null) download(`${record.turn_id}.svg`, new Blob([svgText(svg)], { type: "image/svg+xml" }));
  render(null, place);
}
