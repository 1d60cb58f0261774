// When a schedule fires, in words: what is simple is said, and all else left to its five fields.
import { describe, expect, it } from "vitest";
import { saidOf } from "../../src/screens/schedules/cron";
import { language } from "../../src/store/settings";
import { its } from "../../src/words/screens/schedules";

const said = (cron: string, to: "en" | "zh" = "en") => {
  language.value = to;
  return saidOf(cron, to === "zh" ? "zh-CN" : "en-GB", its.value.said);
};

describe("the times of a schedule", () => {
  it.each([
    ["0 9 * * 1-5", "Monday to Friday at 09:00"],
    ["30 7 * * *", "every day at 07:30"],
    ["0 9,17 * * *", "every day at 09:00 and 17:00"],
    ["5 8 * * 0,3", "Sunday and Wednesday at 08:05"],
    ["5 8 * * 7", "Sunday at 08:05"],
    ["* * * * *", "every minute"],
    ["*/15 * * * *", "every 15 minutes"],
    ["7 * * * *", "every hour at :07"],
    ["@hourly", "every hour at :00"],
    ["@weekly", "Sunday at 00:00"],
    ["0 6 1,15 * *", "on day 1 and 15 of each month at 06:00"],
    ["@yearly", "each year on 1 January at 00:00"],
    [" 0  9 * * 1 ", "Monday at 09:00"],
  ])("says %s", (cron, words) => {
    expect(said(cron)).toBe(words);
  });
  it.each(["0 9 L * *", "0 9 * * 1#2", "0-5 9 * * *", "0 */2 * * *", "1,2 * * * *", "*/5 9 * * *", "0 9 1 * 1", "0 9 1,2 3 *", "0 9 1 1-3 *", "0 9 * 5 *", "0 9 * 5 1", "0 9 * * 8", "0 9 * *", "0 9 * * * *", "", "morning"])(
    "leaves %s as it is",
    (cron) => {
      expect(said(cron)).toBe("");
    },
  );
  it("speaks Chinese", () => {
    expect(said("0 9 * * 1-5", "zh")).toBe("星期一至星期五 09:00");
    expect(said("*/5 * * * *", "zh")).toBe("每 5 分钟");
    expect(said("@hourly", "zh")).toBe("每小时的 00 分");
    expect(said("@monthly", "zh")).toBe("每月 1 日 00:00");
    expect(said("@yearly", "zh")).toBe("每年1月1日 00:00");
    expect(said("0 9 * * *", "zh")).toBe("每天 09:00");
  });
});
