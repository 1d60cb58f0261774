// Tokens and cost: by day as a picture, and by model, agent, session and day as tables.
import { useEffect, useRef, useState } from "preact/hooks";
import { dayMonth, dollars, percent, short, whole } from "../../parts/amounts";
import { Choose } from "../../parts/form";
import { Empty, Loaded, Page, PageHead, Section } from "../../parts/page";
import { Table } from "../../parts/table";
import { shown } from "../../parts/text";
import { Tiles, type Tile } from "../../parts/tiles";
import { link, may } from "../../store/app";
import { useResource } from "../../store/lists";
import { hrefOf } from "../../store/route";
import { its } from "../../words/screens/usage";
import { ceiling, daysOf, weight, type Day, type Sum } from "./days";
import { useTitles } from "./titles";
import "../../look/screens/lists.css";
import "../../look/screens/usage.css";

type Range = "7" | "30" | "90" | "all";
type Measure = "tokens" | "cost";
type Group = "model" | "agent" | "session" | "day";
const DAY_MS = 24 * 3600 * 1000;
const SHOWN = 100;

function sinceOf(range: Range): number {
  if (range === "all") return 0;
  const now = new Date();
  return new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime() - (Number(range) - 1) * DAY_MS;
}

const localDay = (ms: number) => {
  const date = new Date(ms);
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
};

export default function Usage() {
  const text = its.value;
  const [range, setRange] = useState<Range>("30");
  const [measure, setMeasure] = useState<Measure>("tokens");
  const [group, setGroup] = useState<Group>("model");
  const since = sinceOf(range);
  const read = async () => {
    const [days, groups] = await Promise.all([
      link.request("usage/get", { by: "day", since_ms: since }),
      link.request("usage/get", { by: group, since_ms: since }),
    ]);
    return { days: days.sums, total: days.total, sums: groups.sums, group };
  };
  const resource = useResource(read, ["usage"], [range, group]);
  const last = useRef(resource.value);
  useEffect(() => {
    if (resource.value !== null) last.current = resource.value;
  });
  // What was there stays until the other is: the page does not jump.
  const kept = resource.value === null && last.current !== null ? { ...resource, value: last.current } : resource;
  return (
    <Page isWide>
      <PageHead lead={text.lead} />
      <div class="filters">
        <Choose<Range> label={text.since} value={range} options={Object.entries(text.ranges).sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other)) as [Range, string][]} choose={setRange} />
        <Choose<Measure> label={text.measure} value={measure} options={Object.entries(text.measures) as [Measure, string][]} choose={setMeasure} />
      </div>
      <Loaded resource={kept} isEmpty={({ total }) => total.calls === 0} empty={<Empty icon="usage" title={text.none} text={text.noneText} />}>
        {({ days, total, sums, group: of }) => (
          <>
            <Sums total={total} />
            <Section title={text.perDay}>
              <Bars days={daysOf(days, measure, range === "all" ? "" : localDay(since), localDay(Date.now()))} measure={measure} />
            </Section>
            <Section title={text.by} isBare actions={<Choose<Group> label={text.by} value={group} options={Object.entries(text.groups) as [Group, string][]} choose={setGroup} />}>
              <Groups sums={sums} group={of} measure={measure} total={total} />
            </Section>
            {may("price/list") && <Prices />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** What cost is counted by. */
function Prices() {
  const text = its.value;
  const [isOpen, setOpen] = useState(false);
  const all = useResource(() => (isOpen ? link.request("price/list", {}) : Promise.resolve(null)), ["prices"], [isOpen]);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{text.prices}</summary>
      {all.value !== null && (
        <Table
          caption={text.prices}
          rows={all.value.prices}
          idOf={(each) => each.model}
          columns={[
            { name: text.groups.model, value: (each) => each.model },
            { name: text.input, value: (each) => each.price.input, isNumber: true },
            { name: text.cachedInput, value: (each) => each.price.cached_input ?? null, isNumber: true },
            { name: text.output, value: (each) => each.price.output, isNumber: true },
          ]}
        />
      )}
    </details>
  );
}

const ORDER = ["7", "30", "90", "all"];

function Sums({ total }: { total: Sum }) {
  const text = its.value;
  const unpriced = total.unpriced_calls ?? 0;
  const tiles: Tile[] = [
    { name: text.cost, value: dollars(total.cost), more: unpriced > 0 ? text.unpriced(whole(unpriced)) : "" },
    { name: text.input, value: whole(total.input_tokens), more: total.cached_tokens ? text.cached(whole(total.cached_tokens), percent(total.cached_tokens, total.input_tokens)) : "" },
    { name: text.output, value: whole(total.output_tokens) },
    { name: text.calls, value: whole(total.calls) },
  ];
  return <Tiles tiles={tiles} />;
}

const COLOURS = ["var(--primary)", "var(--line)", "var(--good)"];
const HEIGHT = 220;
const FOOT = 22;
const TOP = 10;
const SIDE = 52;

function Bars({ days, measure }: { days: readonly Day[]; measure: Measure }) {
  const text = its.value;
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  const most = ceiling(days);
  const plot = HEIGHT - FOOT - TOP;
  const step = (width - SIDE) / days.length;
  const bar = Math.max(1, Math.min(36, step * 0.72));
  const label = (value: number) => (measure === "cost" ? dollars(value) : short(value));
  const names = measure === "cost" ? [text.parts.cost] : [text.parts.fresh, text.parts.cached, text.parts.output];
  const every = Math.max(1, Math.ceil(64 / Math.max(1, step)));
  return (
    <div class="bars">
      <div ref={place}>
        {width > 0 && (
          <svg role="img" aria-label={`${text.perDay}: ${text.measures[measure]}`} width={width} height={HEIGHT} font-size="12">
            {[0, 0.25, 0.5, 0.75, 1].map((share) => (
              <g key={share}>
                <line x1={SIDE} x2={width} y1={TOP + plot * (1 - share)} y2={TOP + plot * (1 - share)} stroke={share === 0 ? "var(--line)" : "var(--soft-line)"} />
                <text x={SIDE - 8} y={TOP + plot * (1 - share) + 4} text-anchor="end" fill="var(--muted)">
                  {label(most * share)}
                </text>
              </g>
            ))}
            {days.map((day, at) => {
              const left = SIDE + step * at + (step - bar) / 2;
              let under = TOP + plot;
              return (
                <g key={day.name}>
                  <title>{`${day.name}: ${day.values.map((value, index) => `${label(value)} ${names[index]}`).join(", ")}`}</title>
                  <rect x={SIDE + step * at} y={TOP} width={step} height={plot} fill="transparent" />
                  {day.values.map((value, index) => {
                    const high = (value / most) * plot;
                    under -= high;
                    return high > 0 && <rect key={index} x={left} y={under} width={bar} height={Math.max(1, high)} fill={COLOURS[index]} />;
                  })}
                  {(days.length - 1 - at) % every === 0 && (
                    <text x={Math.min(left + bar / 2, width - 24)} y={HEIGHT - 6} text-anchor="middle" fill="var(--muted)">
                      {dayMonth(day.name)}
                    </text>
                  )}
                </g>
              );
            })}
          </svg>
        )}
      </div>
      <ul class="bars-legend">
        {names.map((name, index) => (
          <li key={name}>
            <span class={`bar-sample is-${index}`} aria-hidden="true" /> {name}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Groups({ sums, group, measure, total }: { sums: readonly Sum[]; group: Group; measure: Measure; total: Sum }) {
  const text = its.value;
  const all = weight(total, measure);
  const sorted = group === "day" ? [...sums].sort((one, other) => (one.name < other.name ? 1 : -1)) : [...sums].sort((one, other) => weight(other, measure) - weight(one, measure));
  const rows = sorted.slice(0, SHOWN);
  const titleOf = useTitles(group === "session" ? rows.map((sum) => sum.name) : []);
  const nameOf = (sum: Sum) => (group === "session" ? titleOf(sum.name) : sum.name || text.unknown);
  return (
    <>
      {sorted.length > SHOWN && <p class="under">{text.latest(SHOWN)}</p>}
      <Table<Sum>
        caption={`${text.by}: ${text.groups[group]}`}
        rows={rows}
        idOf={(sum) => sum.name}
        columns={[
          {
            name: text.groups[group],
            value: nameOf,
            draw: (sum) => (group === "session" ? <a href={hrefOf("chat", sum.name)}>{shown(nameOf(sum))}</a> : shown(nameOf(sum))),
          },
          {
            name: text.columns.share,
            value: (sum) => (all === 0 ? null : Math.round((1000 * weight(sum, measure)) / all) / 10),
            draw: (sum) => (
              <span class="share">
                <meter min={0} max={all || 1} value={weight(sum, measure)} aria-label={text.columns.share} />
                {percent(weight(sum, measure), all)}
              </span>
            ),
          },
          { name: text.cost, value: (sum) => sum.cost ?? null, draw: (sum) => dollars(sum.cost), isNumber: true },
          { name: text.input, value: (sum) => sum.input_tokens ?? null, draw: (sum) => whole(sum.input_tokens), isNumber: true },
          { name: text.columns.cachedShare, value: (sum) => sum.cached_tokens ?? null, draw: (sum) => percent(sum.cached_tokens, sum.input_tokens), isNumber: true },
          { name: text.output, value: (sum) => sum.output_tokens ?? null, draw: (sum) => whole(sum.output_tokens), isNumber: true },
          { name: text.calls, value: (sum) => sum.calls ?? 0, draw: (sum) => whole(sum.calls), isNumber: true },
        ]}
      />
    </>
  );
}
