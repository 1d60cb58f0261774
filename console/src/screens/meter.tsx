// What the model reads: how much the last request held, of how much, and what it cost. In one line where a person writes.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../fold/session";
import type { Methods } from "../link";
import * as app from "../store/app";
import { language } from "../store/settings";
import { its } from "../words/screens/chat";

type Usage = Methods["usage/get"]["result"];

/** The windows of models, by `PROVIDER/MODEL`; each provider is asked once. */
const windows = signal<Readonly<Record<string, number | null>>>({});
const asked = new Set<string>();

async function askWindow(provider: string, model: string): Promise<void> {
  if (provider === "" || asked.has(provider) || !app.may("model/list")) return;
  asked.add(provider);
  try {
    const { models } = await app.link.request("model/list", { provider });
    windows.value = { ...windows.peek(), [`${provider}/${model}`]: null, ...Object.fromEntries(models.map((each) => [each.choice, each.context_tokens ?? null])) };
  } catch {
    // A provider that lists none: the meter shows tokens alone.
  }
}

export function Meter({ session }: { session: Session | null }) {
  void app.revision.value;
  const text = its.value.meter;
  const [isOpen, setOpen] = useState(false);
  const [usage, setUsage] = useState<Usage | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const last = session?.rows.findLast((row) => row.kind === "assistant" && !row.isSetAside && (row.inputTokens ?? 0) > 0);
  const provider = last?.provider ?? "";
  const model = last?.model ?? "";
  useEffect(() => void askWindow(provider, model), [provider]);
  useEffect(() => {
    const from = button.current?.getBoundingClientRect();
    if (!isOpen || session === null || panel.current === null || from === undefined) return;
    panel.current.style.left = `${Math.max(8, Math.min(from.left, innerWidth - panel.current.offsetWidth - 8))}px`;
    panel.current.style.bottom = `${innerHeight - from.top + 8}px`;
    if (!app.may("usage/get")) return;
    app.link.request("usage/get", { by: "session", session_id: session.id }).then(setUsage, (error: unknown) => app.isGone(error) || app.say(error));
  }, [isOpen, session]);
  if (session === null || last === undefined) return null;

  const locale = language.value === "zh" ? "zh-CN" : "en-GB";
  const number = (count: number | null | undefined) => (count == null ? text.unknown : new Intl.NumberFormat(locale).format(count));
  const short = (count: number) => new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 }).format(count);
  const window = windows.value[`${provider}/${model}`] ?? windows.value[model] ?? null;
  const held = last.inputTokens ?? 0;
  const share = window === null ? null : Math.min(1, held / window);
  const percent = share === null ? "" : new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 }).format(share);
  const line = window === null ? text.tokens(short(held)) : text.of(percent, short(window));
  const sum = usage?.sums[0];
  const compactions = session.rows.filter((row) => row.id.startsWith("summary:")).length;
  const rows: [string, string][] = [
    [text.last, number(held)],
    ...(last.cachedTokens ? ([[text.cached, number(last.cachedTokens)]] as [string, string][]) : []),
    [text.answer, number(last.outputTokens)],
    [text.window, window === null ? text.unknown : number(window)],
    ...(sum === undefined ? [] : ([[text.requests, number(sum.calls)], [text.total, number((sum.input_tokens ?? 0) + (sum.output_tokens ?? 0))]] as [string, string][])),
    ...(sum?.cost == null ? [] : ([[text.cost, new Intl.NumberFormat(locale, { style: "currency", currency: "USD", maximumFractionDigits: 4 }).format(sum.cost)]] as [string, string][])),
    ...(compactions === 0 ? [] : ([[text.compactions, number(compactions)]] as [string, string][])),
  ];
  return (
    <>
      <button
        ref={button}
        type="button"
        class="quiet small meter"
        aria-label={text.button(line)}
        title={text.title}
        aria-expanded={isOpen}
        onClick={() => panel.current?.togglePopover()}
      >
        {share !== null && (
          <svg class="ring" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
            <circle cx="8" cy="8" r="6" pathLength={100} />
            <circle class={share > 0.8 ? "part is-full" : "part"} cx="8" cy="8" r="6" pathLength={100} stroke-dasharray={`${Math.max(2, share * 100)} 100`} />
          </svg>
        )}
        <span class="line">{line}</span>
      </button>
      <div
        ref={panel}
        class="options"
        popover="auto"
        role="group"
        aria-label={text.title}
        onToggle={({ newState }) => setOpen(newState === "open")}
        onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), panel.current?.hidePopover(), button.current?.focus())}
      >
        <h3>{text.title}</h3>
        <dl class="figures">
          {rows.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </div>
    </>
  );
}
