// A screen in both themes and two widths.
import assert from "node:assert/strict";
import { axe, picture } from "./people.mjs";

const WIDE = { width: 1280, height: 800 };
const NARROW = { width: 390, height: 844 };

/** A screen is looked at in both themes, wide and narrow, and fits. */
export async function looks(page, name) {
  for (const [theme, colorScheme] of [["light", "light"], ["dark", "dark"]]) {
    await page.emulateMedia({ colorScheme });
    for (const [width, size] of [["wide", WIDE], ["narrow", NARROW]]) {
      await page.setViewportSize(size);
      await page.waitForTimeout(60); // pictures are drawn anew for their width
      await picture(page, `${name}-${width}-${theme}`);
      await axe(page, `${name} ${width} ${theme}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(WIDE);
}

export async function go(page, address) {
  await page.evaluate((hash) => (location.hash = hash), address);
}
