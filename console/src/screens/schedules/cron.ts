// The times of a schedule in words, where they are simple enough to be said in a few. Pure.

export interface CronWords {
  minutes(count: number): string;
  hourly(minute: string): string;
  at(days: string, times: string): string;
  daily: string;
  range(from: string, to: string): string;
  monthly(days: string): string;
  yearly(date: string): string;
}

const NAMED: Record<string, string> = { "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *" };
const NUMBER = /^\d+$/;
const DAYS = /^[0-7](-[0-7])?(,[0-7](-[0-7])?)*$/;

/** A Sunday: the days of a week are counted from it. */
const SUNDAY = Date.UTC(2023, 0, 1);
const DAY_MS = 24 * 3600 * 1000;

/** Say when `0 9 * * 1-5` fires; an empty text for what takes more than a few words. */
export function saidOf(cron: string, locale: string, its: CronWords): string {
  const [minute = "", hour = "", day = "", month = "", weekday = "", ...others] = (NAMED[cron.trim()] ?? cron).trim().split(/\s+/);
  if (weekday === "" || others.length > 0) return "";
  const isAnyDay = day === "*" && month === "*" && weekday === "*";
  const step = /^(?:\*\/)?(\d+)$/.exec(minute)?.[1] ?? "";
  if (hour === "*" && isAnyDay) {
    if (minute === "*") return its.minutes(1);
    if (step === "") return "";
    return minute === step ? its.hourly(step.padStart(2, "0")) : its.minutes(Number(step));
  }
  const hours = hour.split(",");
  if (!NUMBER.test(minute) || !hours.every((each) => NUMBER.test(each))) return "";
  const list = new Intl.ListFormat(locale, { type: "conjunction" });
  const times = list.format(hours.map((each) => `${each.padStart(2, "0")}:${minute.padStart(2, "0")}`));
  const nameOf = (at: number, format: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, { ...format, timeZone: "UTC" }).format(at);
  const weekdayOf = (each: string) => nameOf(SUNDAY + (Number(each) % 7) * DAY_MS, { weekday: "long" });
  if (isAnyDay) return its.at(its.daily, times);
  if (day === "*" && month === "*" && DAYS.test(weekday)) {
    const days = weekday.split(",").map((each) => {
      const [from = "", to = ""] = each.split("-");
      return to === "" ? weekdayOf(from) : its.range(weekdayOf(from), weekdayOf(to));
    });
    return its.at(list.format(days), times);
  }
  const days = day.split(",");
  if (weekday !== "*" || !days.every((each) => NUMBER.test(each))) return "";
  if (month === "*") return its.at(its.monthly(list.format(days)), times);
  if (!NUMBER.test(month) || days.length > 1) return "";
  return its.at(its.yearly(nameOf(Date.UTC(2024, Number(month) - 1, Number(day)), { day: "numeric", month: "long" })), times);
}
