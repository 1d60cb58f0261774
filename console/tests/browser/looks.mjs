// A screen in both themes and two widths. All are in gallery.test.mjs, where axe looks at each; here one look is enough.
import assert from "node:assert/strict";
import { axe, picture } from "./people.mjs";

const WIDE = { width: 1280, height: 800 };
const NARROW = { width: 390, height: 844 };

/** A screen is looked at in both themes, wide and narrow, and fits; in short, wide in the light and narrow in the dark. */
export async function looks(page, name, isShort = false) {
  for (const [theme, colorScheme] of [["light", "light"], ["dark", "dark"]]) {
    for (const [width, size] of [["wide", WIDE], ["narrow", NARROW]]) {
      if (isShort && (theme === "light") !== (width === "wide")) continue;
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize(size);
      // Pictures are drawn anew for their width, and then nothing is wider than the page.
      await page.waitForFunction(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(document.documentElement.scrollWidth <= innerWidth))))).catch(() => assert.fail(`${name} is wider than the page`));
      await picture(page, `${name}-${width}-${theme}`);
      if (theme === "light" && width === "wide") await axe(page, `${name} ${width} ${theme}`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(WIDE);
}

export async function go(page, address) {
  await page.evaluate((hash) => (location.hash = hash), address);
}
