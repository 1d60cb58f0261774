// Numbers, times and money in the language of the page.
import { language } from "../store/settings";

const tag = () => (language.value === "zh" ? "zh-CN" : "en-GB");

/** A duration as people say it: `840 ms`, `1.2 s`, `3 min 5 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  const isZh = language.value === "zh";
  const [h, min, s] = isZh ? ["小时", "分", "秒"] : ["h", "min", "s"];
  if (ms < 1000) return `${Math.round(ms)} ${isZh ? "毫秒" : "ms"}`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} ${s}`;
  const all = Math.round(ms / 1000);
  if (all < 3600) return `${Math.floor(all / 60)} ${min} ${all % 60} ${s}`;
  const hours = Math.floor(all / 3600);
  if (hours >= 48) return `${Math.floor(hours / 24)} ${isZh ? "天" : "d"} ${hours % 24} ${h}`;
  return `${hours} ${h} ${Math.floor((all % 3600) / 60)} ${min}`;
}

export function whole(value: number | null | undefined): string {
  return value == null ? "–" : new Intl.NumberFormat(tag()).format(value);
}

/** A large number, short: `1.2M`, `34K`. */
export function short(value: number): string {
  return new Intl.NumberFormat(tag(), { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

/** US dollars, with as many digits as say something. */
export function dollars(value: number | null | undefined): string {
  if (value == null) return "–";
  const digits = value === 0 || value >= 1 ? 2 : value >= 0.01 ? 3 : 5;
  return `$${value.toFixed(digits)}`;
}

export function percent(part: number | null | undefined, of: number | null | undefined): string {
  return part == null || !of ? "–" : `${Math.round((100 * part) / of)}%`;
}

export function moment(ms: number): string {
  return new Intl.DateTimeFormat(tag(), { dateStyle: "medium", timeStyle: "short" }).format(ms);
}

export function clock(ms: number): string {
  return new Intl.DateTimeFormat(tag(), { timeStyle: "medium" }).format(ms);
}

/** How long ago, or in how long, in one word or two. */
export function near(ms: number, now: number): string {
  const rest = (ms - now) / 1000;
  const [size, unit] = ([[86_400, "day"], [3600, "hour"], [60, "minute"]] as const).find(([each]) => Math.abs(rest) >= each) ?? [1, "second"];
  return new Intl.RelativeTimeFormat(tag(), { numeric: "auto" }).format(Math.round(rest / size), unit);
}

/** A day of the calendar that is given as an ISO date. */
export function dayMonth(date: string): string {
  return new Intl.DateTimeFormat(tag(), { day: "numeric", month: "short", timeZone: "UTC" }).format(Date.parse(date));
}
