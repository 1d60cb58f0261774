// The picture of a turn: one SVG, whose colours are those of the page, so that it can be saved as it is.
import { begin, finish, ticks, type Group, type Part, type Turn, type TurnRow } from "../../fold/turn";
import { duration } from "../../parts/amounts";
import { shown, summary } from "../../parts/text";
import { its } from "../../words/screens/turn";

export const ROW = 28;
export const HEAD = 30;
/** Beyond so many lines only those in view are drawn. */
export const WINDOW = 200;
const AROUND = 400;
const BAR = 14;
const LEAST = 2;

export type Line = { kind: "row"; row: TurnRow } | { kind: "group"; group: Group; lines: number; depth: number };

/** The lines of the picture: the rows, and above calls of one answer what they took together. */
export function linesOf(turn: Turn): Line[] {
  const at = new Map(turn.groups.map((group) => [group.first, group]));
  return turn.rows.flatMap((row, place): Line[] => {
    const group = at.get(place);
    const line: Line = { kind: "row", row };
    if (group === undefined) return [line];
    // What was delegated may have groups of its own in between: they have lines, too.
    const within = turn.groups.filter((each) => each.first > group.first && each.first <= group.last).length;
    return [{ kind: "group", group, lines: group.last - group.first + 1 + within, depth: row.depth }, line];
  });
}

export interface View {
  from: number;
  to: number;
}

interface Props {
  turn: Turn;
  lines: readonly Line[];
  view: View;
  now: number;
  width: number;
  selected: string;
  /** Of the box that scrolls: which lines are drawn, and where the scale stands. */
  top: number;
  height: number;
  ground: string;
}

export const labelWidth = (width: number) => (width < 560 ? 108 : Math.min(260, Math.round(width * 0.24)));

export function Picture({ turn, lines, view, now, width, selected, top, height, ground }: Props) {
  const label = labelWidth(width);
  const plot = width - label - 12;
  const x = (ms: number) => label + ((ms - view.from) / (view.to - view.from)) * plot;
  const isWindowed = lines.length > WINDOW;
  const first = isWindowed ? Math.max(0, Math.floor((top - AROUND - HEAD) / ROW)) : 0;
  const last = isWindowed ? Math.min(lines.length, Math.ceil((top + height + AROUND) / ROW)) : lines.length;
  const all = HEAD + lines.length * ROW + 6;
  const marks = ticks(view.from - turn.from, view.to - turn.from, Math.max(2, Math.floor(plot / 90)));
  const y = (place: number) => HEAD + place * ROW;
  return (
    <svg
      xmlns="http://www.w3.org/2000/svg"
      role="img"
      aria-label={`${its.value.picture}: ${its.value.rows(turn.rows.length)}`}
      width={width}
      height={all}
      viewBox={`0 0 ${width} ${all}`}
      font-family="system-ui, sans-serif"
      font-size="12"
    >
      <defs>
        <pattern id="turn-failed" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="6" height="6" fill="var(--bad-soft)" />
          <rect width="3" height="6" fill="var(--bad)" />
        </pattern>
        <pattern id="turn-person" width="5" height="5" patternUnits="userSpaceOnUse">
          <rect width="5" height="5" fill="var(--warn-soft)" />
          <circle cx="2.5" cy="2.5" r="1.2" fill="var(--warn)" />
        </pattern>
        <clipPath id="turn-plot">
          <rect x={label} y="0" width={plot + 12} height={all} />
        </clipPath>
      </defs>
      <rect width={width} height={all} fill={ground} />
      {marks.map((ms) => (
        <line key={ms} x1={x(turn.from + ms)} x2={x(turn.from + ms)} y1={HEAD - 4} y2={all} stroke="var(--soft-line)" />
      ))}
      {lines.map((line, place) =>
        // A bracket is drawn as long as anything beside it is.
        line.kind === "group" && place < last && place + line.lines >= first ? (
          <GroupLine key={`g${line.group.id}`} group={line.group} lines={line.lines} depth={line.depth} y={y(place)} />
        ) : null,
      )}
      {lines.slice(first, last).map((line, index) => {
        const place = first + index;
        return line.kind === "group" ? null : (
          <g key={line.row.id} data-row={line.row.id}>
            <rect
              width={width}
              y={y(place)}
              height={ROW}
              fill={selected === line.row.id ? "var(--primary-soft)" : "transparent"}
              fill-opacity="0.45"
            />
            <Label row={line.row} y={y(place)} width={label} />
            <g clip-path="url(#turn-plot)">
              <Bar row={line.row} x={x} y={y(place)} now={now} start={label} end={label + plot} />
            </g>
          </g>
        );
      })}
      <g transform={`translate(0 ${top})`}>
        <rect width={width} height={HEAD - 4} fill={ground} />
        {marks.map((ms) => (
          <text key={ms} x={x(turn.from + ms)} y="16" fill="var(--muted)" text-anchor={x(turn.from + ms) < label + 20 ? "start" : "middle"}>
            {duration(ms)}
          </text>
        ))}
        <line x1={label} x2={width} y1={HEAD - 4} y2={HEAD - 4} stroke="var(--line)" />
      </g>
    </svg>
  );
}

/** A bracket beside calls that ran together, with what that saved. */
function GroupLine({ group, lines, depth, y }: { group: Group; lines: number; depth: number; y: number }) {
  const text = its.value;
  const saved = group.alone - group.together;
  const said =
    saved > group.alone * 0.05
      ? text.together(group.count, duration(group.together), duration(group.alone))
      : text.togetherOnly(group.count, duration(group.together));
  const end = y + ROW * (lines + 1) - 6;
  const left = 5 + depth * 14;
  return (
    <g>
      <path d={`M${left + 5} ${y + ROW / 2 + 8}H${left}V${end}H${left + 5}`} fill="none" stroke="var(--primary)" stroke-width="2" />
      <text x={left + 3} y={y + ROW / 2 + 3} fill="var(--muted)" font-weight="600">
        {said}
      </text>
    </g>
  );
}

const SIGNS: Record<TurnRow["kind"], string> = { input: "▸", model: "◆", call: "▪", approval: "?", question: "?", summary: "◇", pause: "‖" };

export function nameOf(row: TurnRow): string {
  const text = its.value;
  if (row.kind === "call") return shown(row.name || text.kinds.call);
  if (row.kind === "model" || row.kind === "summary") {
    const name = row.name.slice(row.name.indexOf("/") + 1);
    return row.kind === "model" ? shown(name) : `${text.kinds.summary}: ${shown(name)}`;
  }
  return text.kinds[row.kind];
}

/** What a row is about, in one line. */
export function aboutOf(row: TurnRow): string {
  const one = (row.kind === "call" && summary(row.about)) || shown(row.about.replace(/\s+/g, " ").trim());
  return one.length > 160 ? `${one.slice(0, 160)}…` : one;
}

function Label({ row, y, width }: { row: TurnRow; y: number; width: number }) {
  const indent = 16 + row.depth * 14 + (row.kind === "approval" || row.kind === "question" ? 12 : 0);
  const isQuiet = row.kind !== "call" && row.kind !== "model";
  const name = `${SIGNS[row.kind]} ${nameOf(row)}`;
  return (
    <text x={indent} y={y + ROW / 2 + 4} fill={isQuiet ? "var(--muted)" : "var(--text)"}>
      {fitting(name, width - indent - 10)}
      {row.childId !== "" && <tspan fill="var(--link)"> ↳</tspan>}
    </text>
  );
}

/** About how wide a text is; letters of Chinese are twice as wide. */
const widthOf = (text: string) => [...text].reduce((sum, letter) => sum + (letter > "\u2e7f" ? 12 : 6.6), 0);

/** As much of a text as fits. */
export function fitting(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let [sum, fits] = [widthOf("…"), ""];
  for (const letter of text) {
    sum += widthOf(letter);
    if (sum > width && fits !== "") break;
    fits += letter;
  }
  return `${fits}…`;
}

function Bar({ row, x, y, now, start, end }: { row: TurnRow; x(ms: number): number; y: number; now: number; start: number; end: number }) {
  const to = finish(row, now);
  const right = x(to);
  const isOpen = row.parts.at(-1)?.to === null;
  const text = duration(to - begin(row));
  const isInstant = row.kind === "input" && to === begin(row);
  const said = isInstant ? "" : [markOf(row), text].filter((each) => each !== "").join(" ");
  const room = widthOf(said) + 8;
  const left = Math.min(x(begin(row)), end);
  // Behind the bar, before it, or where neither has room, in it.
  const isBefore = right + room > end;
  const isWithin = isBefore && left - room < start;
  const middle = y + ROW / 2;
  return (
    <>
      {row.parts.map((part, at) => (
        <Stretch key={at} row={row} part={part} x={x} y={middle} now={now} />
      ))}
      {row.first !== null && <line x1={x(row.first)} x2={x(row.first)} y1={middle - BAR / 2 - 3} y2={middle + BAR / 2 + 3} stroke="var(--text)" stroke-width="2" />}
      {isOpen && <line x1={right} x2={right} y1={middle - BAR / 2 - 2} y2={middle + BAR / 2 + 2} stroke="var(--primary)" stroke-dasharray="2 2" stroke-width="2" />}
      <text
        x={isWithin ? Math.min(right, end) - 6 : isBefore ? left - 6 : right + 6}
        y={middle + 4}
        text-anchor={isBefore ? "end" : "start"}
        fill={isWithin ? "var(--text)" : BAD.has(row.state) ? "var(--bad)" : "var(--muted)"}
        {...(isWithin ? { stroke: "var(--surface)", "stroke-width": 3, "paint-order": "stroke" } : {})}
      >
        {said}
      </text>
    </>
  );
}

const BAD = new Set(["error", "denied", "deny", "timeout", "failed", "broken", "expired"]);

function markOf(row: TurnRow): string {
  if (row.kind === "input" || row.kind === "pause") return "";
  if (BAD.has(row.state)) return "✕";
  if (row.state === "running" || row.state === "waiting" || row.state === "pending") return "…";
  if (row.kind === "model" || row.kind === "summary") return "";
  return row.state === "cancelled" || row.state === "interrupted" || row.state === "deferred" ? "–" : "✓";
}

function Stretch({ row, part, x, y, now }: { row: TurnRow; part: Part; x(ms: number): number; y: number; now: number }) {
  const from = x(part.from);
  const width = Math.max(LEAST, x(part.to ?? now) - from);
  if (part.kind === "wait") {
    return <rect x={from} y={y - 1.5} width={width} height="3" fill="var(--line)" />;
  }
  if (part.kind === "person") {
    return <rect x={from} y={y - BAR / 2 + 2} width={width} height={BAR - 4} rx="2" fill="url(#turn-person)" stroke="var(--warn)" />;
  }
  const isFailed = part.kind === "failed" || (row.kind === "call" && BAD.has(row.state));
  const fill = isFailed ? "url(#turn-failed)" : row.kind === "call" ? "var(--good)" : "var(--primary)";
  return <rect x={from} y={y - BAR / 2} width={width} height={BAR} rx="3" fill={fill} stroke={isFailed ? "var(--bad)" : "none"} />;
}

/** The picture with its colours written out, as a file of its own. */
export function svgText(svg: SVGSVGElement): string {
  const style = getComputedStyle(document.documentElement);
  const text = new XMLSerializer().serializeToString(svg);
  return text.replace(/var\((--[\w-]+)\)/g, (_, name: string) => style.getPropertyValue(name).trim());
}
