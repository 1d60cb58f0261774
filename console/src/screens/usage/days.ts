// Days as bars: each day has one, also that on which nothing happened. Pure.
import type { Methods } from "../../link";

export type Sum = Methods["usage/get"]["result"]["total"];

export interface Day {
  name: string;
  /** In the order in which they lie on each other. */
  values: readonly number[];
}

const DAY_MS = 24 * 3600 * 1000;
/** More bars than these are no picture any more: then several days share one. */
export const MAX_BARS = 92;

export function valuesOf(sum: Sum, measure: "tokens" | "cost"): number[] {
  if (measure === "cost") return [sum.cost ?? 0];
  const cached = sum.cached_tokens ?? 0;
  return [Math.max(0, (sum.input_tokens ?? 0) - cached), cached, sum.output_tokens ?? 0];
}

/** A bar for each day from the first to the last; `from` and `to` may widen that. Names of days are ISO dates. */
export function daysOf(sums: readonly Sum[], measure: "tokens" | "cost", from: string, to: string): Day[] {
  const known = new Map(sums.map((sum) => [sum.name, sum]));
  const names = [...known.keys(), to].sort();
  const first = Date.parse(from !== "" && from < names[0]! ? from : names[0]!);
  const last = Date.parse(names.at(-1)!);
  const width = measure === "cost" ? 1 : 3;
  const days: Day[] = [];
  const step = Math.max(1, Math.ceil(((last - first) / DAY_MS + 1) / MAX_BARS));
  for (let at = first; at <= last; at += step * DAY_MS) {
    const values = new Array<number>(width).fill(0);
    for (let each = at; each < at + step * DAY_MS; each += DAY_MS) {
      const sum = known.get(new Date(each).toISOString().slice(0, 10));
      if (sum !== undefined) for (const [index, value] of valuesOf(sum, measure).entries()) values[index] = (values[index] ?? 0) + value;
    }
    days.push({ name: new Date(at).toISOString().slice(0, 10), values });
  }
  return days;
}

/** A round number that is not below the highest bar. */
export function ceiling(days: readonly Day[]): number {
  const most = Math.max(0, ...days.map((day) => day.values.reduce((sum, value) => sum + value, 0)));
  if (most === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].find((each) => each * power >= most * 0.999_999) ?? 10) * power;
}

/** The weight of a sum in a measure. */
export function weight(sum: Sum, measure: "tokens" | "cost"): number {
  return valuesOf(sum, measure).reduce((all, value) => all + value, 0);
}
